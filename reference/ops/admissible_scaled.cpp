// Scaled formats: every scale, every quotient and every code that the contract admits, computed as kernels
// do.
#include <algorithm>
#include <cmath>
#include <optional>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/formats/scaled.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

constexpr double kMostUlps = 8;  // every neighbour is tried

// One rounding to nearest even in f32, f16 or bf16.
float rounded_in(std::string_view format, float x) {
  if (format == "f16") return static_cast<float>(round_f16(x));
  if (format == "bf16") return static_cast<float>(round_bf16(x));
  return x;
}

}  // namespace

std::vector<AdmissibleScale> admissible_scales(float absmax, double divisor, const Contract& contract) {
  if (absmax == 0) return {kUnitScale};
  const double ulps = contract.number("scale_ulp");
  if (ulps > kMostUlps || ulps != std::floor(ulps))
    throw InputError(InputErrorKind::bad_value, "scale_ulp: a whole number of 0..8 is allowed");
  const std::string_view how = contract.text("scale"), format = contract.text("scale_format");
  const std::string_view from = contract.text("code_scale");
  // The f32 quotient of two f32 numbers is that of f64 rounded (53 >= 2 24 + 2 bits); a divisor in f64 is met
  // by one of f64.
  const auto multiplier = static_cast<float>(divisor / absmax);
  std::vector<AdmissibleScale> list;
  const auto admit = [&](float exact) {
    const float stored = rounded_in(format, exact);
    if (from != "exact" || stored == exact) list.push_back({stored, stored, multiplier});
    if (from != "stored" && stored != exact) list.push_back({stored, exact, multiplier});
  };
  // A quotient that rounds to 0 is stored as 1; with an error of ulps it may be a few steps instead.
  const auto formed = [&](float scale) {
    admit(scale == 0 ? 1.0F : scale);
    // A unit in the last place of the scale: two neighbours below a power of two.
    const float unit = std::nextafter(scale, INFINITY) - scale;
    const double least = scale - ulps * unit;
    float below = scale, above = scale;
    for (int i = 0; i < 2 * static_cast<int>(ulps) && below > 0 && below > least; ++i) {
      admit(below = std::nextafter(below, 0.0F));
      if (below == 0) admit(1.0F);  // that quotient is 0 here
    }
    for (int i = 0; i < static_cast<int>(ulps); ++i) admit(above = std::nextafter(above, INFINITY));
  };
  if (how == "divide" || how == "any") formed(static_cast<float>(absmax / divisor));
  if (how == "reciprocal" || how == "any") formed(absmax * static_cast<float>(1.0 / divisor));
  // Where D / absmax is Inf its reciprocal is 0: a kernel stores that, or 1.
  const float inverse = 1.0F / multiplier;
  if (how == "inverse" || how == "any") formed(inverse);
  if ((how == "inverse" || how == "any") && inverse == 0) admit(inverse);
  return list;
}

double declared_divisor(double divisor, const Contract& contract) {
  const bool integers = divisor == 127 || divisor == 7;
  return contract.text("divisor") == "half_more" && integers ? divisor + 0.5 : divisor;
}

std::vector<char> groups_not_finite(const Format& to, const Shape& shape, std::span<const float> values) {
  const Axes axes = axes_of(shape);
  std::vector<char> found(static_cast<std::size_t>(element_count(scale_shape(to, shape))), 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      found[static_cast<std::size_t>(scale_index(to.axis, axes, static_cast<std::int64_t>(i)))] = 1;
  return found;
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
  const auto of_element = [&](std::size_t i) {
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
  };
  parallel_rows(values.size(), 1, of_element);
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
  const std::vector<char> undefined = groups_not_finite(to, shape, values);
  // Undefined, the scale included: any number, or NaN under a scale that no decoder takes. A NaN of the
  // element's own is NaN under every scale.
  const Coder coder(to, contract);
  const bool holds_nan = coder.policy().nan == NanPolicy::propagate && has_nan(coder.element());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (undefined[group_of(i)] == 0) continue;
    if (std::isnan(values[i]) && holds_nan)
      set_special(truth, i, std::nan(""));
    else
      set_unclaimed(truth, i);
  }
}

}  // namespace assay
