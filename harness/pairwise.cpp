#include "harness/pairwise.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "reference/inputs/random.hpp"

namespace assay {
namespace {

// How many values of a factor are tried for a test before the one that it has is kept.
constexpr std::size_t kTried = 3;
// How many tests pairwise() makes side by side.
constexpr std::size_t kSideBySide = 16;
constexpr std::size_t kAskedAtOnce = 32;
// Values that are refused alike and looked for side by side, once one of them was looked for in vain.
constexpr std::size_t kLeaders = 8;

struct Value {
  std::size_t factor, index;
};

// A test that is being made.
struct Draft {
  std::size_t a = 0, b = 0;  // the pair that it is made for
  Choice choice = {};
  std::vector<std::size_t> order = {};    // in which its other factors are widened
  std::vector<std::size_t> decided = {};  // the factors whose values stand
  std::vector<std::size_t> tries = {};    // values for the factor at hand, the best first
};

}  // namespace

class Pairwise::Cover {
 public:
  explicit Cover(PairwiseProblem problem) : problem_(std::move(problem)), stream_(problem_.seed, "pairwise") {
    for (std::size_t f = 0; f < problem_.values.size(); ++f) {
      first_.push_back(all_.size());
      for (std::size_t v = 0; v < problem_.values[f]; ++v) all_.push_back({f, v});
    }
    open_.assign(all_.size() * all_.size(), false);
    witness_.resize(all_.size());
  }

  std::vector<Choice> next(std::size_t most) {
    std::vector<Choice> found;
    if (most == 0) return found;
    if (!begun_) found.push_back(begin());
    while (found.size() < most && at_ < pairs_.size()) {
      std::vector<Draft> drafts = begin_drafts(most - found.size());
      widen(drafts);
      for (Draft& d : drafts) {
        cover(d.choice);
        found.push_back(std::move(d.choice));
      }
    }
    return found;
  }

 private:
  std::size_t draw(std::size_t n) { return static_cast<std::size_t>(stream_.below(drawn_++, n)); }
  void shuffle(auto& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[draw(i)]);
  }
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

  Choice begin() {
    begun_ = true;
    find_witnesses();
    for (std::size_t a = 0; a < all_.size(); ++a)
      for (std::size_t b = 0; b < all_.size(); ++b)
        open_[a * all_.size() + b] =
            all_[a].factor != all_[b].factor && !witness_[a].empty() && !witness_[b].empty();
    cover(problem_.base);
    for (std::size_t a = 0; a < all_.size(); ++a)
      for (std::size_t b = a + 1; b < all_.size(); ++b)
        if (is_open(a, b)) pairs_.push_back({a, b});
    shuffle(pairs_);
    return problem_.base;
  }

  std::vector<bool> valid(const std::vector<Choice>& choices) const {
    std::vector<bool> valid;
    for (const std::string& reason : problem_.refusals(choices)) valid.push_back(reason.empty());
    return valid;
  }

  // Of each list of candidates the first that is valid; nothing where none is. The lists are asked side by
  // side.
  std::vector<std::optional<Choice>> first_valid(const std::vector<std::vector<Choice>>& lists) const {
    std::vector<std::optional<Choice>> found(lists.size());
    for (std::size_t from = 0;; from += kAskedAtOnce) {
      std::vector<Choice> asked;
      std::vector<std::size_t> of;
      for (std::size_t n = 0; n < lists.size(); ++n)
        for (std::size_t i = from; !found[n] && i < std::min(from + kAskedAtOnce, lists[n].size()); ++i)
          asked.push_back(lists[n][i]), of.push_back(n);
      if (asked.empty()) return found;
      const std::vector<bool> ok = valid(asked);
      for (std::size_t k = 0; k < asked.size(); ++k)
        if (ok[k] && !found[of[k]]) found[of[k]] = asked[k];
    }
  }

  // A valid choice for each value: the base with it, or that with one more change, or with two values that
  // have one.
  void find_witnesses() {
    std::vector<Choice> singles;
    for (std::size_t a = 0; a < all_.size(); ++a) singles.push_back(with(problem_.base, a));
    const std::vector<std::string> reasons = problem_.refusals(singles);
    std::map<std::pair<std::size_t, std::string>, Alike> refused;
    for (std::size_t a = 0; a < all_.size(); ++a)
      if (reasons[a].empty())
        witness_[a] = singles[a];
      else
        refused[{all_[a].factor, reasons[a]}].open.push_back(a);
    find_second_changes(refused, singles);
    std::vector<std::size_t> left;
    for (const auto& [of, alike] : refused)
      if (alike.failed.size() < kHopeless) left.insert(left.end(), alike.failed.begin(), alike.failed.end());
    std::vector<std::vector<Choice>> candidates(left.size());
    for (std::size_t n = 0; n < left.size(); ++n)
      for (std::size_t b = 0; b < all_.size(); ++b)
        if (!witness_[b].empty() && witness_[b] != singles[b])
          candidates[n].push_back(with(witness_[b], left[n]));
    take(left, first_valid(candidates));
  }

  // Values of one factor that are refused with one reason.
  struct Alike {
    std::vector<std::size_t> open = {}, failed = {};
    std::optional<std::size_t> change =
        {};  // the second change that the last of them was had by: tried first
  };
  // Of all kinds of refusal side by side: one value is looked for among all changes, and what it was had by
  // is tried with all others of its kind; those that are left are looked for a few at a time.
  void find_second_changes(std::map<std::pair<std::size_t, std::string>, Alike>& refused,
                           const std::vector<Choice>& singles) {
    for (;;) {
      std::vector<std::size_t> sought;
      std::vector<std::vector<Choice>> candidates;
      std::vector<Alike*> of;
      for (auto& [reason, alike] : refused) {
        const std::size_t first = alike.failed.empty() ? 1 : kLeaders;
        for (std::size_t n = 0; n < first && !alike.open.empty() && alike.failed.size() < kHopeless; ++n) {
          const std::size_t a = alike.open.front();
          alike.open.erase(alike.open.begin());
          sought.push_back(a), of.push_back(&alike);
          auto& list = candidates.emplace_back();
          for (std::size_t b = 0; b < all_.size(); ++b)
            if (all_[b].factor != all_[a].factor) list.push_back(with(singles[a], b));
        }
      }
      if (sought.empty()) return;
      const auto found = first_valid(candidates);
      take(sought, found);
      for (std::size_t n = 0; n < sought.size(); ++n)
        if (found[n])
          of[n]->change = changed(singles[sought[n]], *found[n]);
        else
          of[n]->failed.push_back(sought[n]);
      try_known_changes(refused, singles);
    }
  }
  void try_known_changes(std::map<std::pair<std::size_t, std::string>, Alike>& refused,
                         const std::vector<Choice>& singles) {
    std::vector<std::size_t> sought;
    std::vector<std::vector<Choice>> candidates;
    for (auto& [reason, alike] : refused) {
      if (!alike.change) continue;
      for (const std::size_t a : alike.open)
        sought.push_back(a), candidates.push_back({with(singles[a], *alike.change)});
      alike.change.reset();
    }
    take(sought, first_valid(candidates));
    for (auto& [reason, alike] : refused)
      std::erase_if(alike.open, [&](std::size_t a) { return !witness_[a].empty(); });
  }
  void take(const std::vector<std::size_t>& values, const std::vector<std::optional<Choice>>& found) {
    for (std::size_t n = 0; n < values.size(); ++n)
      if (found[n]) witness_[values[n]] = *found[n];
  }
  // The value, in place of another, by which `b` differs from `a`.
  std::size_t changed(const Choice& a, const Choice& b) const {
    std::size_t f = 0;
    while (f + 1 < a.size() && a[f] == b[f]) ++f;
    return place(f, b[f]);
  }

  // Choices for the next pairs that are open, whose two values stand.
  std::vector<Draft> begin_drafts(std::size_t most) {
    std::vector<Draft> drafts;
    std::vector<Choice> asked;
    for (; at_ < pairs_.size() && drafts.size() < most; ++at_) {
      const auto [a, b] = pairs_[at_];
      if (!is_open(a, b)) continue;
      close(a, b);  // whether or not it can be had
      Choice merged = with(witness_[a], b);
      asked.push_back(merged);
      asked.push_back(with(witness_[b], a));
      for (std::size_t f = 0; f < merged.size(); ++f)
        if (f != all_[a].factor && witness_[b][f] != problem_.base[f]) merged[f] = witness_[b][f];
      asked.push_back(std::move(merged));
      drafts.push_back({a, b});
    }
    const std::vector<bool> ok = valid(asked);
    const std::size_t each = drafts.empty() ? 0 : asked.size() / drafts.size();
    for (std::size_t i = 0; i < drafts.size(); ++i)
      for (std::size_t k = i * each; k < (i + 1) * each && drafts[i].choice.empty(); ++k)
        if (ok[k]) drafts[i].choice = asked[k];
    std::erase_if(drafts, [](const Draft& d) { return d.choice.empty(); });
    for (Draft& d : drafts) {
      d.decided = {all_[d.a].factor, all_[d.b].factor};
      for (std::size_t f = 0; f < d.choice.size(); ++f)
        if (std::ranges::find(d.decided, f) == d.decided.end()) d.order.push_back(f);
      shuffle(d.order);
    }
    return drafts;
  }

  // The values of a factor that cover more open pairs with those that stand than the one that the draft has.
  std::vector<std::size_t> better_values(const Draft& d, std::size_t f) {
    const auto gain = [&](std::size_t v) {
      return std::ranges::count_if(
          d.decided, [&](std::size_t g) { return is_open(place(f, v), place(g, d.choice[g])); });
    };
    std::vector<std::pair<std::ptrdiff_t, std::size_t>> best;
    const std::size_t turn = draw(problem_.values[f]);
    const auto now = gain(d.choice[f]);
    for (std::size_t n = 0; n < problem_.values[f]; ++n) {
      const std::size_t v = (n + turn) % problem_.values[f];
      if (v == d.choice[f] || witness_[place(f, v)].empty()) continue;
      if (const auto here = gain(v); here > now) best.emplace_back(-here, v);
    }
    std::ranges::stable_sort(best, {}, &std::pair<std::ptrdiff_t, std::size_t>::first);
    std::vector<std::size_t> values;
    for (std::size_t n = 0; n < std::min(kTried, best.size()); ++n) values.push_back(best[n].second);
    return values;
  }

  // Puts values into the other factors, those that cover most pairs that are still open, as long as each test
  // stays valid: one factor after the other, all drafts side by side.
  void widen(std::vector<Draft>& drafts) {
    const std::size_t steps = drafts.empty() ? 0 : drafts.front().order.size();
    for (std::size_t step = 0; step < steps; ++step) {
      std::vector<bool> settled(drafts.size(), false);
      for (std::size_t tried = 0; tried <= kTried; ++tried) {
        std::vector<std::size_t> of;
        std::vector<Choice> asked;
        for (std::size_t i = 0; i < drafts.size(); ++i) {
          Draft& d = drafts[i];
          if (settled[i]) continue;
          if (tried == 0) d.tries = better_values(d, d.order[step]);
          if (tried >= d.tries.size()) {  // what it has is kept
            settle(d, step);
            settled[i] = true;
            continue;
          }
          asked.push_back(d.choice);
          asked.back()[d.order[step]] = d.tries[tried];
          of.push_back(i);
        }
        if (asked.empty()) break;
        const std::vector<bool> ok = valid(asked);
        for (std::size_t k = 0; k < of.size(); ++k) {
          if (!ok[k]) continue;
          drafts[of[k]].choice = asked[k];
          settle(drafts[of[k]], step);
          settled[of[k]] = true;
        }
      }
    }
  }
  // Its pairs are covered from now on: the drafts beside it look for others.
  void settle(Draft& d, std::size_t step) {
    const std::size_t f = d.order[step];
    for (const std::size_t g : d.decided) close(place(f, d.choice[f]), place(g, d.choice[g]));
    d.decided.push_back(f);
  }

  PairwiseProblem problem_;
  Stream stream_;
  std::uint64_t drawn_ = 0;
  bool begun_ = false;
  std::vector<Value> all_;
  std::vector<std::size_t> first_;  // place of each factor's first value in all_
  std::vector<bool> open_;          // all_ x all_
  std::vector<Choice> witness_;     // of each value; empty: none was found
  std::vector<std::array<std::size_t, 2>> pairs_;
  std::size_t at_ = 0;  // the next of pairs_
};

Pairwise::Pairwise(PairwiseProblem problem) : cover_(std::make_unique<Cover>(std::move(problem))) {}
Pairwise::Pairwise(Pairwise&&) noexcept = default;
Pairwise& Pairwise::operator=(Pairwise&&) noexcept = default;
Pairwise::~Pairwise() = default;

std::vector<Choice> Pairwise::next(std::size_t most) { return cover_->next(most); }

std::vector<Choice> pairwise(const PairwiseProblem& problem) {
  Pairwise tests(problem);
  std::vector<Choice> found;
  for (auto more = tests.next(kSideBySide); !more.empty(); more = tests.next(kSideBySide))
    for (Choice& c : more) found.push_back(std::move(c));
  return found;
}

}  // namespace assay
