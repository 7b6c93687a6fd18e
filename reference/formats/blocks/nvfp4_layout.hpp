// What nvfp4 and nvfp4_swizzled share: everything but where a block scale lies.
//   plane ""               e2m1 codes, row-major, two to a byte, the earlier element in the low nibble
//   plane ".block_scale"   e4m3fn, one per 16 elements along the innermost axis, in the order that the file
//                          says
//   plane ".global_scale"  f32 [1]
// value = e2m1 * block_scale / global_scale: the stored global scale is the quantising one, so decoding
// DIVIDES. The product is exact, the quotient is the nearest f64 (and as float the nearest f32: 24 + 25 bits
// leave no false tie). Quantiser:
//   global_scale = 448 * 6 / absmax of the tensor's finite elements (1 when that is 0, at most the largest
//   f32)
//   block_scale  = nearest-even e4m3fn of block absmax * global_scale / 6, saturating
//   code         = the policy's rounding of the real x * global_scale / block_scale, or 0 where the block
//                scale is 0
// NaN under NanPolicy::propagate, and Inf under Overflow::ieee, make their block scale NaN and its codes 0;
// otherwise Inf saturates.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"

namespace assay::blocks {

// Order: shape(tensor shape) of the scale plane; index(tensor shape, row, column) of a scale in it.
template <typename Order>
struct Nvfp4 {
  static constexpr int kElements = 16;

  static std::vector<PlaneSpec> planes(const Shape& shape) {
    return {scalar_plane("", "e2m1", shape), scalar_plane(".block_scale", "e4m3fn", Order::shape(shape)),
            scalar_plane(".global_scale", "f32", {1})};
  }

  static std::int64_t scale_index(const Shape& shape, std::int64_t block) {
    const std::int64_t columns = shape.back() / kElements;
    return Order::index(shape, block / columns, block % columns);
  }

  static void encode(std::span<const float> values, const EncodePolicy& policy, Encoded& into) {
    static const ScalarFormat& e2m1 = scalar_format("e2m1");
    static const ScalarFormat& e4m3fn = scalar_format("e4m3fn");
    float tensor_absmax = 0;
    for (const float x : values) {
      if (std::isfinite(x)) tensor_absmax = std::max(tensor_absmax, std::fabs(x));
    }
    float global = tensor_absmax > 0 ? 448.0F * 6.0F / tensor_absmax : 1.0F;
    global = std::min(global, std::numeric_limits<float>::max());
    std::memcpy(into.planes[2].bytes.data(), &global, sizeof global);
    for (std::size_t first = 0; first < values.size(); first += kElements) {
      const auto block = values.subspan(first, kElements);
      float absmax = 0;
      bool poisoned = false;
      for (const float x : block) {
        if (std::isfinite(x)) absmax = std::max(absmax, std::fabs(x));
        poisoned = poisoned || (std::isnan(x) && policy.nan == NanPolicy::propagate) ||
                   (std::isinf(x) && policy.overflow == Overflow::ieee);
      }
      const std::uint32_t scale_code =
          poisoned ? nan_code(e4m3fn) : assay::encode(e4m3fn, static_cast<double>(absmax) * global / 6.0);
      const double scale = decode(e4m3fn, scale_code);
      into.planes[1].bytes[scale_index(into.shape, static_cast<std::int64_t>(first) / kElements)] =
          static_cast<std::byte>(scale_code);
      for (std::size_t e = 0; e < kElements; ++e) {
        const double quotient = static_cast<double>(block[e]) * global / scale;
        const std::uint32_t code = scale > 0 ? assay::encode(e2m1, quotient, policy, first + e) : 0U;
        store_code(e2m1, into.planes[0].bytes, static_cast<std::int64_t>(first + e), code);
      }
    }
  }

  template <typename Real>
  static void decoded(const Encoded& tensor, std::int64_t first, std::span<Real> out) {
    static const double* const elements = decode_table(scalar_format("e2m1")).data();
    static const double* const scales = decode_table(scalar_format("e4m3fn")).data();
    float stored;
    std::memcpy(&stored, tensor.planes[2].bytes.data(), sizeof stored);
    const double global = checked_scale(stored, ".global_scale", 0);
    const std::byte* payload = tensor.planes[0].bytes.data() + first / 2;
    std::array<Real, 16> value;
    for (std::size_t i = 0; i < out.size(); i += kElements, payload += kElements / 2) {
      const std::int64_t block = (first + static_cast<std::int64_t>(i)) / kElements;
      const double scale =
          scales[static_cast<unsigned>(tensor.planes[1].bytes[scale_index(tensor.shape, block)])];
      for (std::size_t code = 0; code < 16; ++code)
        value[code] = static_cast<Real>(elements[code] * scale / global);
      for (std::size_t e = 0; e < kElements; e += 2) {
        const auto pair = static_cast<unsigned>(payload[e / 2]);
        out[i + e] = value[pair & 0xFU];
        out[i + e + 1] = value[pair >> 4];
      }
    }
  }

  static void factors(const Encoded& tensor, std::int64_t first, std::span<Factors> out) {
    static const double* const scales = decode_table(scalar_format("e4m3fn")).data();
    float global;
    std::memcpy(&global, tensor.planes[2].bytes.data(), sizeof global);
    std::vector<double> codes(out.size());
    decode_plane(scalar_format("e2m1"), tensor.planes[0].bytes, first, std::span<double>(codes));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = scale_index(tensor.shape, (first + static_cast<std::int64_t>(i)) / kElements);
      out[i] = {.code = codes[i],
                .scale = scales[static_cast<unsigned>(tensor.planes[1].bytes[at])],
                .second = global,
                .divides = true};
    }
  }
};

}  // namespace assay::blocks
