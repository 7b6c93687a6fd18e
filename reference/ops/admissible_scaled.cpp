// Scaled formats: every scale, every quotient and every code that the contract admits, computed as kernels do.
#include <algorithm>
#include <cmath>
#include <optional>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr double kMostUlps = 8;  // every neighbour is tried

// One rounding to nearest even in f32, f16 or bf16.
float rounded_in(std::string_view format, float x) {
  if (format == "f16") return static_cast<float>(round_f16(x));
  if (format == "bf16") return static_cast<float>(round_bf16(x));
  return x;
}

// Groups with a NaN or Inf under absmax=any.
void claim_under_some_scale(Truth& truth, std::size_t i, float x, const Coder& coder,
                            const Contract& contract) {
  if (std::isfinite(x) && x != 0 && coder.policy().rounding == Rounding::stochastic) {
    set_unclaimed(truth, i);
  } else if (std::isfinite(x)) {
    truth.value[i] = x;
    truth.limit[i] = coder.some_scale_error(x);
    if (contract.text("scale_format") != "f32") truth.limit[i] = 2 * truth.limit[i] + std::fabs(x);
    // A scale below 2^-126 has no reciprocal in f32: the code may be the largest, times such a scale.
    truth.limit[i] = rule(Rule::some_scale, up(truth.limit[i] + coder.largest() * 0x1p-126));
  } else if (std::isnan(x) && coder.policy().nan == NanPolicy::propagate && has_nan(coder.element())) {
    set_special(truth, i, std::nan(""));
  } else if (std::isnan(x) && coder.policy().nan == NanPolicy::zero) {
    set_special(truth, i, 0.0);
  } else {
    set_unclaimed(truth, i);
  }
}

}  // namespace

std::vector<AdmissibleScale> admissible_scales(float absmax, double divisor, const Contract& contract) {
  if (absmax == 0) return {kUnitScale};
  const double ulps = contract.number("scale_ulp");
  if (ulps > kMostUlps || ulps != std::floor(ulps))
    throw InputError(InputErrorKind::bad_value, "scale_ulp: a whole number of 0..8 is allowed");
  const std::string_view how = contract.text("scale"), format = contract.text("scale_format");
  const std::string_view from = contract.text("code_scale");
  // The f32 quotient of two f32 numbers is that of f64 rounded (53 >= 2 24 + 2 bits); a divisor in f64 is met by one of f64.
  const auto multiplier = static_cast<float>(divisor / absmax);
  std::vector<AdmissibleScale> list;
  const auto admit = [&](float exact) {
    const float stored = rounded_in(format, exact);
    if (from != "exact" || stored == exact) list.push_back({stored, stored, multiplier});
    if (from != "stored" && stored != exact) list.push_back({stored, exact, multiplier});
  };
  const auto formed = [&](float scale) {
    admit(scale);
    float below = scale, above = scale;
    for (int i = 0; i < static_cast<int>(ulps); ++i) {
      admit(below = std::nextafter(below, 0.0F));
      if (below == 0) admit(1.0F);  // that quotient is 0 here
      admit(above = std::nextafter(above, INFINITY));
    }
  };
  // The formats store 1 for a quotient that underflows to 0.
  const auto or_one = [](float scale) { return scale == 0 ? 1.0F : scale; };
  if (how == "divide" || how == "any") formed(or_one(static_cast<float>(absmax / divisor)));
  if (how == "reciprocal" || how == "any") formed(or_one(absmax * static_cast<float>(1.0 / divisor)));
  // Where D / absmax is Inf its reciprocal is 0: a kernel stores that, or 1.
  const float inverse = 1.0F / multiplier;
  if (how == "inverse" || how == "any") formed(inverse);
  if ((how == "inverse" || how == "any") && inverse == 0) formed(1.0F);
  return list;
}

double declared_divisor(double divisor, const Contract& contract) {
  const bool integers = divisor == 127 || divisor == 7;
  return contract.text("divisor") == "half_more" && integers ? divisor + 0.5 : divisor;
}

std::vector<float> group_absmax(const Format& to, const Shape& shape, std::span<const float> values) {
  const Axes axes = axes_of(shape);
  std::vector<float> absmax(static_cast<std::size_t>(element_count(scale_shape(to, shape))), 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& group = absmax[scale_index(to.axis, axes, static_cast<std::int64_t>(i))];
    if (std::isfinite(values[i])) group = std::max(group, std::fabs(values[i]));
  }
  return absmax;
}

void admit_quantised_with_scales(Truth& truth, const Format& to, const Shape& shape,
                                 std::span<const float> values,
                                 const std::vector<std::vector<AdmissibleScale>>& scales,
                                 const Contract& contract) {
  const Coder coder(to, contract);
  const Axes axes = axes_of(shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& group = scales[scale_index(to.axis, axes, static_cast<std::int64_t>(i))];
    std::optional<double> first;
    double limit = 0, largest = 0;
    bool number = true, same = true;
    for (const AdmissibleScale& s : group) {
      coder.each(values[i], s, [&](double admitted) {
        if (!first) first = admitted;
        number = number && std::isfinite(admitted);
        same = same && (admitted == *first || (std::isnan(admitted) && std::isnan(*first)));
        if (!(admitted == *first)) limit = std::max(limit, up(std::fabs(admitted - *first)));
      });
      largest = std::max(largest, static_cast<double>(s.stored));
    }
    truth.value[i] = *first;
    truth.limit[i] = limit;
    if (std::isnan(values[i]) && coder.policy().nan == NanPolicy::propagate) {
      if (has_nan(coder.element())) {
        set_special(truth, i, std::nan(""));
      } else if (std::isfinite(largest)) {  // some code
        truth.value[i] = 0;
        truth.limit[i] = up(coder.largest() * largest);
      } else {
        set_unclaimed(truth, i);
      }
    } else if (!number) {
      if (std::isinf(values[i]) && same) {
        set_special(truth, i, *first);  // overflow=ieee: the format's Inf, or its NaN
      } else {
        set_unclaimed(truth, i);
      }
    }
  }
}

void admit_scaled(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                  const Contract& contract) {
  std::vector<std::vector<AdmissibleScale>> scales;
  const std::vector<float> absmax = group_absmax(to, shape, values);
  for (const float each : absmax)
    scales.push_back(admissible_scales(each, declared_divisor(to.scale_divisor, contract), contract));
  admit_quantised_with_scales(truth, to, shape, values, scales, contract);
  const Axes axes = axes_of(shape);
  const auto group_of = [&](std::size_t i) {
    return static_cast<std::size_t>(scale_index(to.axis, axes, static_cast<std::int64_t>(i)));
  };
  if (contract.text("absmax") == "finite") {
    // A group of zeros may store any scale: nothing is known of what an Inf saturates to.
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isinf(values[i]) && absmax[group_of(i)] == 0) set_unclaimed(truth, i);
    return;
  }
  std::vector<char> finite(scales.size(), 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) finite[group_of(i)] = 0;
  const Coder coder(to, contract);
  // Of an absmax this small D / absmax overflows, and 0 Inf is NaN.
  const auto least_absmax = static_cast<float>(coder.largest() * 0x1p-126);
  std::vector<char> overflows(scales.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0 && std::fabs(values[i]) < least_absmax) overflows[group_of(i)] = 1;
  // An absmax that was clamped to the largest f32 makes a scale that is Inf in f16: no decoder takes it.
  if (contract.text("scale_format") == "f16") overflows.assign(overflows.size(), 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (finite[group_of(i)] != 0) continue;
    // A NaN that becomes the code 0 is NaN under an infinite scale.
    const bool is_scaled = std::isfinite(values[i]) ||
                           (contract.text("scale_format") == "f16" && coder.policy().nan == NanPolicy::zero);
    if (overflows[group_of(i)] != 0 && is_scaled)
      set_unclaimed(truth, i);
    else
      claim_under_some_scale(truth, i, values[i], coder, contract);
  }
}

}  // namespace assay
