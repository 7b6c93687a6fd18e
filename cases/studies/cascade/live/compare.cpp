#include "cases/studies/cascade/live/compare.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace assay::live {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The log-probabilities that a step gives to tokens written as `text`, largest first. Several tokens may be
// written alike: llama.cpp writes each partial character as U+FFFD and special tokens as nothing. The chosen
// token is among those listed, or in front of them.
std::vector<double> values_of(const Step& s, const std::string& text) {
  std::vector<double> values;
  bool chosen_is_listed = false;
  for (const auto& [token, p] : s.top) {
    if (token != text || std::isnan(p)) continue;
    values.push_back(p);
    chosen_is_listed = chosen_is_listed || (s.token == text && p == s.logprob);
  }
  if (s.token == text && !chosen_is_listed && !std::isnan(s.logprob)) values.push_back(s.logprob);
  std::ranges::sort(values, std::greater<>());
  return values;
}

// |difference| for the tokens of `x`, or the least that it can be where `y` does not list one. Tokens written
// alike are compared in the order of their probabilities: equal steps have gap 0, whatever they are written
// as.
double gap(const Step& x, const Step& y) {
  double largest = 0, lowest = kInfinity;
  for (const auto& [t, p] : y.top) lowest = std::fmin(lowest, p);
  std::vector<std::string> texts = {x.token};
  for (const auto& [t, p] : x.top)
    if (std::ranges::find(texts, t) == texts.end()) texts.push_back(t);
  for (const std::string& text : texts) {
    const std::vector<double> a = values_of(x, text), b = values_of(y, text);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i < b.size())
        largest = std::fmax(largest, a[i] == b[i] ? 0.0 : std::fabs(a[i] - b[i]));  // fmax leaves NaN out
      else if (text == x.token && i == 0 && std::isfinite(lowest))
        largest = std::fmax(largest, x.logprob - lowest);
    }
  }
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
    const Step &x = a.steps[d.at], &y = b.steps[d.at];
    if (x.after_withheld || y.after_withheld) {
      // Whole characters show which bytes were read; U+FFFD stands for any.
      d.cut = x.token != y.token || x.token.find("\xEF\xBF\xBD") != std::string::npos;
      d.forked = x.token != y.token;
      if (d.cut) break;
    }
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
