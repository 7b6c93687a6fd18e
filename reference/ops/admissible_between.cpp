// Quantisers of numbers that are not exact: each x somewhere in [low, high], on its own.
//
// Scaled formats. absmax is somewhere in [largest least |x|, largest most |x|], and with it every admissible
// scale s between the least of the lower end's and the largest of the upper end's; codes are monotone in x
// and in the scale, so they lie between the least and the largest of the codes at the ends; a stored number
// is such a code times such a scale:
//   limit = the largest |c s - value| over both ends of c and of s,  value of the middle numbers.
// Scalar formats: between the codes of both ends. Block formats: every move is by the radius besides
// (admissible.hpp). nvfp4: the largest relative radius r moves A, a and x. int4 of FP8: e is between the ends
// under any scale_2. Searched formats: nothing is claimed.
#include <algorithm>
#include <cmath>

#include "reference/formats/block.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

struct Range {
  double low = kInfinity, high = -kInfinity;
  bool number = true;
  void add(double x) {
    number = number && std::isfinite(x);
    low = std::min(low, x), high = std::max(high, x);
  }
};

void widen(Truth& truth, std::size_t i, const Range& codes, const Range& scales) {
  if (!codes.number || !scales.number || !std::isfinite(truth.value[i])) return set_unclaimed(truth, i);
  for (const double c : {codes.low, codes.high})
    for (const double s : {scales.low, scales.high})
      truth.limit[i] = std::max(truth.limit[i], up(std::fabs(c * s - truth.value[i])));
}

// Of the elements that share a scale, what it may be.
std::vector<std::vector<AdmissibleScale>> scales_between(const Format& to, const Shape& shape,
                                                         std::span<const Enclosure> values, bool ones,
                                                         const Contract& contract) {
  const Axes axes = axes_of(shape);
  const auto groups = static_cast<std::size_t>(element_count(scale_shape(to, shape)));
  if (ones) return {groups, {kUnitScale}};
  std::vector<double> least(groups, 0), most(groups, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto g = static_cast<std::size_t>(scale_index(to.axis, axes, static_cast<std::int64_t>(i)));
    if (!std::isfinite(values[i].value)) continue;
    most[g] = std::max(most[g], values[i].magnitude());
    least[g] = std::max(least[g], std::fabs(values[i].value) - up(values[i].error));
  }
  const double divisor = declared_divisor(to.scale_divisor, contract);
  std::vector<std::vector<AdmissibleScale>> all;
  for (std::size_t g = 0; g < groups; ++g) {
    all.push_back(admissible_scales(static_cast<float>(std::max(least[g], 0.0)), divisor, contract));
    for (const AdmissibleScale& s : admissible_scales(static_cast<float>(most[g]), divisor, contract))
      all.back().push_back(s);
  }
  return all;
}

}  // namespace

void admit_quantised_between(Truth& truth, const Format& to, const Shape& shape,
                             std::span<const Enclosure> values, bool ones, const Contract& contract) {
  std::vector<float> middle, low, high;
  std::vector<double> radius;
  double relative = 0;
  bool known = true;
  for (const Enclosure& each : values) {
    known = known && (each.error < kInfinity || !std::isfinite(each.value));
    middle.push_back(static_cast<float>(each.value));
    low.push_back(static_cast<float>(each.low()));
    high.push_back(static_cast<float>(each.high()));
    radius.push_back(each.error);
    if (each.error > 0) relative = std::max(relative, each.error / std::fabs(each.value));
  }
  if (!known || (to.block != nullptr && to.block->searched)) {
    for (std::size_t i = 0; i < values.size(); ++i) set_unclaimed(truth, i);
    return;
  }
  if (to.name == "int4_ch_tensor" || to.name == "int4_g32_tensor")
    return admit_two_scales(truth, to, shape, low, high, contract);
  if (to.name.starts_with("nvfp4")) return admit_nvfp4(truth, middle, contract, relative);
  const bool groups = to.name == "int4_g32_bf16" || to.name == "int4_g32_packed";
  if (to.kind == FormatKind::block && !groups) return admit_block(truth, to, middle, radius, contract);
  if (groups)
    return admit_quantised_between(truth, format("int4_g32"), shape, values, ones,
                                   contract.with("scale_format", "bf16"));
  const Coder coder(to, contract);
  if (to.kind == FormatKind::scalar) {
    admit_quantised(truth, to, shape, middle, contract);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i].value)) continue;
      Range codes;
      for (const float x : {low[i], high[i]}) coder.codes(x, false, [&](double code) { codes.add(code); });
      widen(truth, i, codes, {1, 1});
    }
    return;
  }
  const auto scales = scales_between(to, shape, values, ones, contract);
  if (ones)
    admit_quantised_with_scales(truth, to, shape, middle, scales, contract);
  else
    admit_scaled(truth, to, shape, middle, contract);
  const Axes axes = axes_of(shape);
  std::vector<char> finite(scales.size(), 1);
  const auto group_of = [&](std::size_t i) {
    return static_cast<std::size_t>(scale_index(to.axis, axes, static_cast<std::int64_t>(i)));
  };
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(middle[i])) finite[group_of(i)] = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (finite[group_of(i)] == 0) continue;  // claimed under some scale, if at all
    Range codes, factors;
    for (const AdmissibleScale& s : scales[group_of(i)]) {
      factors.add(static_cast<double>(s.stored));
      // What is visited is code times stored scale, whose quotient by that scale is the code again.
      for (const float x : {low[i], high[i]})
        coder.each(x, s, [&](double number) { codes.add(number / static_cast<double>(s.stored)); });
    }
    widen(truth, i, codes, factors);
  }
}

}  // namespace assay
