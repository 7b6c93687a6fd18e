#include "reference/ops/admissible.hpp"

#include <algorithm>
#include <cmath>

#include "reference/formats/scaled.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;

void admit_scalar(Truth& truth, const ScalarFormat& to, std::span<const float> values,
                  const EncodePolicy& policy) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    truth.value[i] = round_to(to, values[i], policy);
    truth.limit[i] = 0;
    if (std::isnan(values[i]) && !std::isnan(truth.value[i]) && policy.nan == NanPolicy::propagate)
      set_unclaimed(truth, i);
  }
}

// How the elements are moved: see the head of admissible.hpp.
void admit_block(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                 const EncodePolicy& policy) {
  const std::size_t block = static_cast<std::size_t>(to.block_elements);
  const bool rotated = to.name.starts_with("tq3");
  std::vector<float> moved(values.begin(), values.end());
  truth.value = decode_tensor(encode_tensor(to, shape, moved, policy));
  std::fill(truth.limit.begin(), truth.limit.end(), 0.0);
  std::vector<double> size(values.size() / block, 0.0);
  std::vector<char> finite(values.size() / block, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    finite[i / block] = static_cast<char>(finite[i / block] != 0 && std::isfinite(values[i]));
    size[i / block] = std::max(size[i / block], static_cast<double>(std::fabs(values[i])));
  }
  for (std::size_t p = 0; p < block; ++p)
    for (const double sign : {-1.0, 1.0}) {
      for (std::size_t i = p; i < values.size(); i += block) {
        const double by = rotated ? 0x1p-20 * size[i / block] : 0x1p-21 * std::fabs(values[i]);
        moved[i] = static_cast<float>(values[i] + sign * by);
      }
      const std::vector<double> changed = decode_tensor(encode_tensor(to, shape, moved, policy));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double change = std::fabs(changed[i] - truth.value[i]);
        truth.limit[i] = rotated ? truth.limit[i] + change : std::max(truth.limit[i], change);
      }
      for (std::size_t i = p; i < values.size(); i += block) moved[i] = values[i];
    }
  for (std::size_t i = 0; i < values.size(); ++i) {
    truth.limit[i] = up(truth.limit[i]);
    if (finite[i / block] == 0 || !std::isfinite(truth.value[i])) set_unclaimed(truth, i);
  }
}

}  // namespace

EncodePolicy quantise_policy(const Contract& contract) {
  EncodePolicy policy;
  const std::string_view round = contract.text("round");
  policy.rounding = round == "nearest_even"   ? Rounding::nearest_even
                    : round == "nearest_away" ? Rounding::nearest_away
                                              : Rounding::toward_zero;
  policy.overflow = contract.text("overflow") == "saturate" ? Overflow::saturate : Overflow::ieee;
  policy.nan = contract.text("nan") == "propagate" ? NanPolicy::propagate : NanPolicy::zero;
  return policy;
}

std::vector<float> admissible_scales(float absmax, float divisor, const Contract& contract) {
  const std::string_view how = contract.text("scale");
  std::vector<float> list;
  if (how != "reciprocal") list.push_back(absmax / divisor);
  if (how != "divide") list.push_back(absmax * (1.0F / divisor));
  for (float& scale : list)
    if (scale == 0) scale = 1;
  return list;
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
                                 std::span<const float> values, const std::vector<std::vector<float>>& scales,
                                 const Contract& contract) {
  const ScalarFormat& element = scalar_format(to.element);
  const EncodePolicy policy = quantise_policy(contract);
  const std::string_view how = contract.text("code");
  const Axes axes = axes_of(shape);
  const double relative_error = gamma_n(4, kUnit32);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<float>& group = scales[scale_index(to.axis, axes, static_cast<std::int64_t>(i))];
    const double x = values[i];
    double& value = truth.value[i];
    double& limit = truth.limit[i];
    value = round_to(element, x / group.front(), policy) * group.front();
    limit = 0;
    for (const float s : group) {
      const auto admit = [&](double quotient) {
        const double admitted = round_to(element, quotient, policy) * s;
        if (!(admitted == value)) limit = std::max(limit, up(std::fabs(admitted - value)));
      };
      if (how == "divide") {
        admit(static_cast<float>(values[i] / s));
      } else if (how == "reciprocal") {
        admit(static_cast<float>(values[i] * (1.0F / s)));
      } else {
        admit(x / s * (1 - relative_error));
        admit(x / s * (1 + relative_error));
        admit(x / s);
      }
    }
    const bool nan = std::isnan(values[i]) && policy.nan == NanPolicy::propagate;
    if (nan && has_nan(element)) {
      set_special(truth, i, std::nan(""));
    } else if (!std::isfinite(value) || nan) {
      set_unclaimed(truth, i);
    }
  }
}

void admit_quantised(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                     const Contract& contract) {
  const EncodePolicy policy = quantise_policy(contract);
  if (to.kind == FormatKind::scalar) return admit_scalar(truth, scalar_format(to.element), values, policy);
  if (to.kind == FormatKind::block) return admit_block(truth, to, shape, values, policy);
  std::vector<std::vector<float>> scales;
  for (const float absmax : group_absmax(to, shape, values))
    scales.push_back(admissible_scales(absmax, static_cast<float>(to.scale_divisor), contract));
  admit_quantised_with_scales(truth, to, shape, values, scales, contract);
  // A group with a NaN or Inf has no absmax: only its NaN elements are judged.
  const Axes axes = axes_of(shape);
  std::vector<char> finite(scales.size(), 1);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) finite[scale_index(to.axis, axes, static_cast<std::int64_t>(i))] = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (finite[scale_index(to.axis, axes, static_cast<std::int64_t>(i))] == 0 && !std::isnan(truth.value[i]))
      set_unclaimed(truth, i);
}

}  // namespace assay
