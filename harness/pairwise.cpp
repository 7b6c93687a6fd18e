#include "harness/pairwise.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "reference/inputs/random.hpp"

namespace assay {
namespace {

// How many values of a factor are tried for a test before the one that it has is kept.
constexpr std::size_t kTried = 3;

struct Value {
  std::size_t factor, index;
};

class Cover {
 public:
  explicit Cover(const PairwiseProblem& problem) : problem_(problem), stream_(problem.seed, "pairwise") {
    for (std::size_t f = 0; f < problem.values.size(); ++f) {
      first_.push_back(all_.size());
      for (std::size_t v = 0; v < problem.values[f]; ++v) all_.push_back({f, v});
    }
    open_.assign(all_.size() * all_.size(), false);
    witness_.resize(all_.size());
  }

  std::vector<Choice> tests() {
    find_witnesses();
    for (std::size_t a = 0; a < all_.size(); ++a)
      for (std::size_t b = 0; b < all_.size(); ++b)
        open_[a * all_.size() + b] =
            all_[a].factor != all_[b].factor && !witness_[a].empty() && !witness_[b].empty();
    std::vector<Choice> found{problem_.base};
    cover(problem_.base);
    std::vector<std::array<std::size_t, 2>> pairs;
    for (std::size_t a = 0; a < all_.size(); ++a)
      for (std::size_t b = a + 1; b < all_.size(); ++b)
        if (is_open(a, b)) pairs.push_back({a, b});
    for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[draw(i)]);
    for (const auto& [a, b] : pairs) {
      if (!is_open(a, b)) continue;
      std::optional<Choice> c = together(a, b);
      close(a, b);  // whether or not it can be had
      if (!c) continue;
      widen(*c, {all_[a].factor, all_[b].factor});
      cover(*c);
      found.push_back(std::move(*c));
    }
    return found;
  }

 private:
  std::size_t draw(std::size_t n) { return static_cast<std::size_t>(stream_.below(drawn_++, n)); }
  std::size_t place(std::size_t factor, std::size_t value) const { return first_[factor] + value; }
  bool is_open(std::size_t a, std::size_t b) const { return open_[a * all_.size() + b]; }
  void close(std::size_t a, std::size_t b) {
    open_[a * all_.size() + b] = open_[b * all_.size() + a] = false;
  }
  void cover(const Choice& c) {
    for (std::size_t f = 0; f < c.size(); ++f)
      for (std::size_t g = f + 1; g < c.size(); ++g) close(place(f, c[f]), place(g, c[g]));
  }
  Choice with(Choice c, std::size_t value) const {
    c[all_[value].factor] = all_[value].index;
    return c;
  }

  // A valid choice for each value: the base with it, or that with one more change, or with two values that have one.
  void find_witnesses() {
    for (std::size_t a = 0; a < all_.size(); ++a)
      if (Choice c = with(problem_.base, a); problem_.valid(c)) witness_[a] = std::move(c);
    for (std::size_t a = 0; a < all_.size(); ++a) {
      if (!witness_[a].empty()) continue;
      const Choice here = with(problem_.base, a);
      for (std::size_t b = 0; b < all_.size() && witness_[a].empty(); ++b)
        if (all_[b].factor != all_[a].factor)
          if (Choice c = with(here, b); problem_.valid(c)) witness_[a] = std::move(c);
    }
    for (std::size_t a = 0; a < all_.size(); ++a) {
      if (!witness_[a].empty()) continue;
      for (std::size_t b = 0; b < all_.size() && witness_[a].empty(); ++b) {
        if (witness_[b].empty() || witness_[b] == with(problem_.base, b)) continue;
        if (Choice c = with(witness_[b], a); problem_.valid(c)) witness_[a] = std::move(c);
      }
    }
  }

  std::optional<Choice> together(std::size_t a, std::size_t b) const {
    Choice merged = with(witness_[a], b);
    for (const Choice& c : {merged, with(witness_[b], a)})
      if (problem_.valid(c)) return c;
    for (std::size_t f = 0; f < merged.size(); ++f)
      if (f != all_[a].factor && witness_[b][f] != problem_.base[f]) merged[f] = witness_[b][f];
    if (problem_.valid(merged)) return merged;
    return std::nullopt;
  }

  // Puts values into the other factors, those that cover most pairs that are still open, as long as the test stays valid.
  void widen(Choice& c, std::array<std::size_t, 2> kept) {
    std::vector<std::size_t> order(c.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
    std::vector<std::size_t> decided(kept.begin(), kept.end());
    for (const std::size_t f : order) {
      if (f == kept[0] || f == kept[1]) continue;
      const auto gain = [&](std::size_t v) {
        return std::ranges::count_if(decided,
                                     [&](std::size_t g) { return is_open(place(f, v), place(g, c[g])); });
      };
      std::vector<std::pair<std::ptrdiff_t, std::size_t>> best;
      const std::size_t turn = draw(problem_.values[f]);
      for (std::size_t n = 0; n < problem_.values[f]; ++n) {
        const std::size_t v = (n + turn) % problem_.values[f];
        if (v != c[f] && !witness_[place(f, v)].empty() && gain(v) > gain(c[f]))
          best.emplace_back(-gain(v), v);
      }
      std::ranges::stable_sort(best, {}, &std::pair<std::ptrdiff_t, std::size_t>::first);
      for (std::size_t n = 0; n < std::min(kTried, best.size()); ++n) {
        Choice changed = c;
        changed[f] = best[n].second;
        if (!problem_.valid(changed)) continue;
        c = std::move(changed);
        break;
      }
      decided.push_back(f);
    }
  }

  const PairwiseProblem& problem_;
  Stream stream_;
  std::uint64_t drawn_ = 0;
  std::vector<Value> all_;
  std::vector<std::size_t> first_;  // place of each factor's first value in all_
  std::vector<bool> open_;          // all_ x all_
  std::vector<Choice> witness_;     // of each value; empty: none was found
};

}  // namespace

std::vector<Choice> pairwise(const PairwiseProblem& problem) { return Cover(problem).tests(); }

}  // namespace assay
