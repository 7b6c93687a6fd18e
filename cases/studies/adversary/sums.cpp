#include "cases/studies/adversary/sums.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace assay::adversary {
namespace {

// The terms as a sum sees them: element i, or the product x_i y_i that may be fused with the addition.
class Terms {
 public:
  Terms(const Arithmetic& m, std::span<const double> x, std::span<const double> y, bool fused)
      : m_(m), x_(x), y_(y), fused_(fused && !y.empty()) {}
  std::int64_t size() const { return static_cast<std::int64_t>(x_.size()); }
  double term(std::int64_t i) const { return y_.empty() ? m_.read(x_[i]) : m_.mul(x_[i], y_[i]); }
  double onto(double s, std::int64_t i) const {
    return fused_ ? m_.fma(x_[i], y_[i], s) : m_.add(s, term(i));
  }
  // Element after element, from the first.
  double chain(std::span<const std::int64_t> order) const {
    double s = order.empty() ? 0 : term(order[0]);
    for (std::size_t i = 1; i < order.size(); ++i) s = onto(s, order[i]);
    return s;
  }
  double magnitude(std::int64_t i) const { return std::fabs(y_.empty() ? x_[i] : x_[i] * y_[i]); }

 private:
  const Arithmetic& m_;
  std::span<const double> x_, y_;
  bool fused_;
};

double tree(const Arithmetic& m, std::span<const double> s) {
  if (s.empty()) return 0;
  if (s.size() == 1) return s[0];
  const std::size_t half = (s.size() + 1) / 2;
  return m.add(tree(m, s.first(half)), tree(m, s.subspan(half)));
}

// Neighbours are added two by two until one is left: the association of a butterfly.
double random_tree(const Arithmetic& m, std::vector<double> s, Draw& draw) {
  while (s.size() > 1) {
    const std::int64_t a = draw.below(static_cast<std::int64_t>(s.size()));
    std::swap(s[a], s.back());
    const double last = s.back();
    s.pop_back();
    const std::int64_t b = draw.below(static_cast<std::int64_t>(s.size()));
    s[b] = m.add(s[b], last);
  }
  return s.empty() ? 0 : s[0];
}

}  // namespace

std::int64_t count_of(std::string_view sum) {
  const std::size_t colon = sum.find(':');
  return colon == std::string_view::npos ? 0 : std::atoll(std::string(sum.substr(colon + 1)).c_str());
}

double ordered_sum(const Arithmetic& m, std::span<const double> x, std::span<const double> y,
                   std::string_view sum, bool fused, std::uint64_t seed) {
  const Terms terms(m, x, y, fused);
  const std::int64_t n = terms.size();
  Draw draw(seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const std::string_view word = sum.substr(0, sum.find(':'));
  const std::int64_t count = std::max<std::int64_t>(count_of(sum), 1);
  if (word == "seq") return terms.chain(order);
  if (word == "rev") std::reverse(order.begin(), order.end());
  if (word == "asc" || word == "desc")
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return word == "asc" ? terms.magnitude(a) < terms.magnitude(b)
                           : terms.magnitude(a) > terms.magnitude(b);
    });
  if (word == "perm")
    for (std::int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[draw.below(i + 1)]);
  if (word == "rev" || word == "asc" || word == "desc" || word == "perm") return terms.chain(order);
  std::vector<double> parts;
  if (word == "tree" || word == "random") {
    for (std::int64_t i = 0; i < n; ++i) parts.push_back(terms.term(i));
    return word == "tree" ? tree(m, parts) : random_tree(m, parts, draw);
  }
  if (word == "blocks") {  // each block in its own order, the blocks' sums one after the other
    for (std::int64_t first = 0; first < n; first += count)
      parts.push_back(terms.chain(std::span(order).subspan(first, std::min(count, n - first))));
    double s = parts.empty() ? 0 : parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) s = m.add(s, parts[i]);
    return s;
  }
  const std::int64_t lanes = std::min(count, std::max<std::int64_t>(n, 1)), each = (n + lanes - 1) / lanes;
  for (std::int64_t l = 0; l < lanes; ++l) {
    std::vector<std::int64_t> own;
    for (std::int64_t i = 0; i < each; ++i) {
      const std::int64_t at = word == "strided" ? i * lanes + l : l * each + i;
      if (at < n) own.push_back(at);
    }
    if (!own.empty()) parts.push_back(terms.chain(own));
  }
  return tree(m, parts);
}

std::string order_word(std::string_view sum, bool sharp) {
  if (!sharp) return "any";
  if (sum == "seq") return "sequential";
  if (sum == "tree") return "tree";
  if (sum.starts_with("strided:")) return "lanes:" + std::string(sum.substr(8));
  if (sum.starts_with("lanes:") || sum.starts_with("blocks:")) return std::string(sum);
  return "any";
}

}  // namespace assay::adversary
