#include "reference/ops/admissible.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

void admit_scalar(Truth& truth, const ScalarFormat& to, std::span<const float> values,
                  const Contract& contract) {
  const std::vector<ScalarFormat> codes = admissible_codes(to, contract);
  const EncodePolicy policy = quantise_policy(contract);
  for (std::size_t i = 0; i < values.size(); ++i) {
    truth.value[i] = round_to(codes.front(), values[i], policy);
    truth.limit[i] = 0;
    for (const ScalarFormat& code : codes)
      if (const double other = round_to(code, values[i], policy); !std::isnan(other))
        truth.limit[i] = std::max(truth.limit[i], std::fabs(other - truth.value[i]));
    if (std::isnan(values[i]) && !std::isnan(truth.value[i]) && policy.nan == NanPolicy::propagate)
      set_unclaimed(truth, i);
  }
}

// How the elements are moved: see the head of admissible.hpp.
void admit_block(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                 const Contract& contract) {
  const EncodePolicy policy = quantise_policy(contract);
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
        // A finite number is read as a finite one: moved to Inf it would poison its block, which no kernel does.
        if (std::isfinite(values[i])) moved[i] = std::clamp(moved[i], -kLargest, kLargest);
      }
      const std::vector<double> changed = decode_tensor(encode_tensor(to, shape, moved, policy));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double change = std::fabs(changed[i] - truth.value[i]);
        truth.limit[i] = rotated ? truth.limit[i] + change : std::max(truth.limit[i], change);
      }
      for (std::size_t i = p; i < values.size(); i += block) moved[i] = values[i];
    }
  const bool by_file = contract.text("absmax") == "finite";
  const bool holds_nan = to.name.starts_with("mxfp8") && policy.nan == NanPolicy::propagate;
  for (std::size_t i = 0; i < values.size(); ++i) {
    truth.limit[i] = up(truth.limit[i]);
    const double value = truth.value[i];
    if (finite[i / block] != 0) {
      if (!std::isfinite(value)) set_unclaimed(truth, i);
    } else if (std::isnan(values[i]) && holds_nan) {
      set_special(truth, i, std::nan(""));  // by the element or by the scale
    } else if (!by_file) {
      set_unclaimed(truth, i);
    } else if (!std::isfinite(value)) {
      set_special(truth, i, value);
    }
  }
}

}  // namespace

EncodePolicy quantise_policy(const Contract& contract) {
  EncodePolicy policy;
  const std::string_view round = contract.text("round"), mx = contract.text("mx_scale");
  policy.rounding = round == "nearest_even"   ? Rounding::nearest_even
                    : round == "nearest_away" ? Rounding::nearest_away
                                              : Rounding::toward_zero;
  policy.overflow = contract.text("overflow") == "saturate" ? Overflow::saturate : Overflow::ieee;
  policy.nan = contract.text("nan") == "propagate" ? NanPolicy::propagate : NanPolicy::zero;
  policy.mx_scale = mx == "ceil"    ? MxScale::ceil
                    : mx == "even"  ? MxScale::even
                    : mx == "rceil" ? MxScale::rceil
                                    : MxScale::floor;
  policy.mx_reciprocal = contract.text("scale") == "reciprocal";
  return policy;
}

void admit_quantised(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                     const Contract& contract) {
  if (to.kind == FormatKind::scalar) return admit_scalar(truth, scalar_format(to.element), values, contract);
  if (to.kind == FormatKind::block) return admit_block(truth, to, shape, values, contract);
  admit_scaled(truth, to, shape, values, contract);
}

}  // namespace assay
