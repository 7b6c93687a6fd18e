#include "reference/ops/sharpness.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace assay {
namespace {

Sharpness sharpness_of(const Truth& truth) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> ratios;
  ratios.reserve(truth.value.size());
  bool claims = false;
  double some = kNever, loosest = 0;
  for (std::size_t i = 0; i < truth.value.size(); ++i) {
    const double value = truth.value[i], limit = truth.limit[i];
    const bool claimed = limit < kNever;
    claims = claims || claimed;
    if (claimed && (value == 0 || !std::isfinite(value))) continue;
    const double ratio = claimed ? limit / std::fabs(value) : kNever;
    ratios.push_back(ratio);
    some = std::min(some, ratio);
    if (claimed) loosest = std::max(loosest, ratio);
  }
  if (ratios.empty()) return claims ? Sharpness{0, 0, 0, 0} : Sharpness{};
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>((ratios.size() - 1) / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return {ratios.size(), some, *middle, some < kNever ? loosest : kNever};
}

}  // namespace

Sharpness sharpness(std::span<const Truth> truths) {
  if (truths.empty()) return {};
  Sharpness least = sharpness_of(truths.front());
  for (const Truth& truth : truths.subspan(1)) {
    const Sharpness s = sharpness_of(truth);
    least = {least.elements + s.elements, std::max(least.some, s.some), std::max(least.half, s.half),
             std::max(least.loosest, s.loosest)};
  }
  return least;
}

}  // namespace assay
