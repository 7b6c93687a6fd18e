// The OCP microscaling formats (OCP MX 1.0, section 5 and 6.3): 32 elements along the innermost axis share an e8m0
// scale.
//   plane ""        codes of the element format in row-major order
//   plane ".scale"  e8m0 [.., inner / 32]
// value = element * 2^(scale - 127), exact in f64; scale 0xFF makes its block NaN.
// Quantiser:
//   shared exponent = floor(log2(absmax)) - emax(element), clamped to e8m0
//   code            = rounding of the exact quotient, saturating at the largest element
// An all-zero block has scale code 0. NaN under NanPolicy::propagate: the element's NaN where the element has one,
// otherwise scale 0xFF and codes 0. Inf does not count towards absmax; it saturates, or under Overflow::ieee becomes
// what the element has for it, or poisons the scale where it has nothing.
#pragma once

#include <array>
#include <cmath>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scalar_codec.hpp"

namespace assay::blocks {

// Element: kName of a scalar format.
template <typename Element>
struct Microscaling {
  static constexpr int kElements = 32;
  static const ScalarFormat& element() {
    static const ScalarFormat& row = scalar_format(Element::kName);
    return row;
  }

  static std::vector<PlaneSpec> planes(const Shape& shape) {
    return {scalar_plane("", Element::kName, shape),
            scalar_plane(".scale", "e8m0", grouped(shape, kElements))};
  }

  static void encode(std::span<const float> values, const EncodePolicy& policy, Encoded& into) {
    const ScalarFormat& format = element();
    const int largest_exponent = std::ilogb(format.max_finite);
    const bool holds_nan = has_nan(format);
    std::vector<std::byte>& codes = into.planes[0].bytes;
    for (std::size_t first = 0; first < values.size(); first += kElements) {
      const auto block = values.subspan(first, kElements);
      float absmax = 0;
      bool poisoned = false;
      for (const float x : block) {
        if (std::isfinite(x)) absmax = std::max(absmax, std::fabs(x));
        if (std::isnan(x)) poisoned = poisoned || (!holds_nan && policy.nan == NanPolicy::propagate);
        if (std::isinf(x)) poisoned = poisoned || (!holds_nan && policy.overflow == Overflow::ieee);
      }
      const int exponent = absmax > 0 ? std::max(std::ilogb(absmax) - largest_exponent, -127) : -127;
      into.planes[1].bytes[first / kElements] = static_cast<std::byte>(poisoned ? 0xFF : exponent + 127);
      for (std::size_t e = 0; e < kElements; ++e) {
        const double scaled = std::ldexp(static_cast<double>(block[e]), -exponent);  // exact
        const std::uint32_t code = poisoned ? 0U : assay::encode(format, scaled, policy, first + e);
        store_code(format, codes, static_cast<std::int64_t>(first + e), code);
      }
    }
  }

  template <typename Real>
  static void decode(const Encoded& tensor, std::int64_t first, std::span<Real> out) {
    static const double* const scales = decode_table(scalar_format("e8m0")).data();
    std::array<double, kElements> block;
    for (std::size_t i = 0; i < out.size(); i += kElements) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      decode_plane(element(), tensor.planes[0].bytes, at, std::span<double>(block));
      const double scale = scales[static_cast<unsigned>(tensor.planes[1].bytes[at / kElements])];
      for (std::size_t e = 0; e < kElements; ++e) out[i + e] = static_cast<Real>(block[e] * scale);
    }
  }

  static constexpr BlockCodec codec() {
    return {.planes = planes, .encode = encode, .decode = decode<double>, .decode_f32 = decode<float>};
  }
};

}  // namespace assay::blocks
