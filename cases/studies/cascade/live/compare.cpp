#include "cases/studies/cascade/live/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::live {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// |difference| for the tokens of `x`, or the least that it can be where `y` does not list one.
double gap(const Step& x, const Step& y) {
  double largest = 0;
  const auto of = [](const Step& s, const std::string& token, double& value) {
    if (s.token == token) return value = s.logprob, true;
    for (const auto& [t, p] : s.top)
      if (t == token) return value = p, true;
    return false;
  };
  double lowest = kInfinity;
  for (const auto& [t, p] : y.top) lowest = std::fmin(lowest, p);
  double value = 0;
  if (of(y, x.token, value))
    largest = std::fmax(largest, std::fabs(x.logprob - value));
  else if (std::isfinite(lowest))
    largest = std::fmax(largest, x.logprob - lowest);
  for (const auto& [t, p] : x.top)
    if (of(y, t, value)) largest = std::fmax(largest, std::fabs(p - value));  // fmax leaves NaN out
  return largest;
}

Distance by_text(const Answer& a, const Answer& b) {
  Distance d;
  if (a.text == b.text) return d;
  const std::size_t shorter = std::min(a.text.size(), b.text.size());
  while (d.at < shorter && a.text[d.at] == b.text[d.at]) ++d.at;
  d.forked = true;
  d.value = 1 - static_cast<double>(d.at) / static_cast<double>(std::max(a.text.size(), b.text.size()));
  return d;
}

}  // namespace

bool finite(const Answer& a) {
  return std::all_of(a.steps.begin(), a.steps.end(), [](const Step& s) { return std::isfinite(s.logprob); });
}

Distance distance(const Answer& a, const Answer& b) {
  if (a.steps.empty() || b.steps.empty()) return by_text(a, b);
  Distance d;
  d.by_logprobs = true;
  if (finite(a) != finite(b)) d.value = kInfinity;
  const std::size_t n = std::min(a.steps.size(), b.steps.size());
  for (; d.at < n; ++d.at) {
    d.value = std::max({d.value, gap(a.steps[d.at], b.steps[d.at]), gap(b.steps[d.at], a.steps[d.at])});
    if (a.steps[d.at].token != b.steps[d.at].token) {
      d.forked = true;
      break;
    }
  }
  if (!d.forked && a.steps.size() != b.steps.size()) d.forked = true;  // one ended where the other went on
  if (d.forked && !finite(a) && !finite(b)) d.value = kInfinity;       // no numbers left to tell them apart
  return d;
}

}  // namespace assay::live
