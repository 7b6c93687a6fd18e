#include "reference/ops/sharpness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/formats/scalar.hpp"
#include "reference/ops/enclosure.hpp"

namespace assay {
namespace {

// Of a scalar format of floating numbers; 0 for codes that a scale multiplies.
double least_normal(std::string_view output, std::span<const TensorSpec> tensors) {
  const auto spec = std::ranges::find(tensors, output, &TensorSpec::name);
  const ScalarFormat* format = spec == tensors.end() ? nullptr : find_scalar_format(spec->format);
  return format != nullptr && format->kind == ScalarKind::floating ? smallest_normal(*format) : 0;
}

Sharpness sharpness_of(const Truth& truth, double least) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> ratios;
  ratios.reserve(truth.value.size());
  bool claims = false;
  double some = kNever, loosest = 0;
  for (std::size_t i = 0; i < truth.value.size(); ++i) {
    const double value = truth.value[i], limit = truth.limit[i];
    const bool claimed = limit < kNever;
    claims = claims || claimed;
    if (claimed && (value == 0 || std::fabs(value) < least || !std::isfinite(value))) continue;
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

std::string percent(double ratio, std::string_view never) {
  return std::isfinite(ratio) ? fmt::format("{:.3g} %", 100 * ratio) : std::string(never);
}

Sharpness sharpness(std::span<const Truth> truths, std::span<const TensorSpec> tensors) {
  if (truths.empty()) return {};
  const auto of = [&](const Truth& t) { return sharpness_of(t, least_normal(t.output, tensors)); };
  Sharpness least = of(truths.front());
  for (const Truth& truth : truths.subspan(1)) {
    const Sharpness s = of(truth);
    least = {least.elements + s.elements, std::max(least.some, s.some), std::max(least.half, s.half),
             std::max(least.loosest, s.loosest)};
  }
  return least;
}

}  // namespace assay
