// The OCP microscaling formats (OCP MX 1.0, section 5 and 6.3): 32 elements along the innermost axis share an
// e8m0 scale.
//   plane ""        codes of the element format in row-major order
//   plane ".scale"  e8m0 [.., inner / 32]
// value = element * 2^(scale - 127), exact in f64; scale 0xFF makes its block NaN.
// Quantiser:
//   shared exponent, clamped to e8m0, by the policy's rule; emax = floor(log2(largest element)):
//     floor  floor(log2(absmax)) - emax, the rule of OCP MX: an absmax in the last part of its binade is
//            clipped
//     ceil   ceil(log2(absmax)) - emax: nothing is clipped
//     even   floor(log2(absmax rounded to the element's fraction bits, halves up)) - emax
//     rceil  ceil(log2(f32 quotient absmax / largest element)), the quotient a division or a product with the
//            rounded reciprocal: the smallest scale that clips nothing. cuBLAS and Transformer Engine round
//            so.
//   (the four modes that torchao names so, each there on the bits of an f32, hence exact.)
//   code            = rounding of the exact quotient, saturating at the largest element
// An all-zero block has scale code 0. NaN under NanPolicy::propagate: the element's NaN where the element has
// one, otherwise scale 0xFF and codes 0. Inf does not count towards absmax; it saturates, or under
// Overflow::ieee becomes what the element has for it, or poisons the scale where it has nothing.
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

  static int shared_exponent(float absmax, const ScalarFormat& format, const EncodePolicy& policy) {
    if (!(absmax > 0)) return -127;
    const int largest_exponent = std::ilogb(format.max_finite);
    const auto ceil_log2 = [](double x) {
      return std::ilogb(x) + (x > std::ldexp(1.0, std::ilogb(x)) ? 1 : 0);
    };
    int exponent = std::ilogb(absmax) - largest_exponent;
    if (policy.mx_scale == MxScale::ceil) exponent = ceil_log2(absmax) - largest_exponent;
    if (policy.mx_scale == MxScale::even) {
      // Half a unit of the last kept fraction bit carries into the next binade, or does not: exact in f64.
      const double half = std::ldexp(0.5, std::ilogb(absmax) - format.fraction_bits);
      const int rounded = std::ilogb(static_cast<double>(absmax) + half);
      exponent =
          rounded < 128 ? rounded - largest_exponent : 128;  // beyond f32: the scale is NaN, as in torchao
    }
    if (policy.mx_scale == MxScale::rceil) {
      const auto largest = static_cast<float>(format.max_finite);
      const float quotient = policy.mx_reciprocal ? absmax * (1.0F / largest) : absmax / largest;
      exponent = quotient > 0 ? ceil_log2(quotient) : -127;
    }
    return std::max(exponent, -127);
  }

  static void encode(std::span<const float> values, const EncodePolicy& policy, Encoded& into) {
    const ScalarFormat& format = element();
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
      const int exponent = shared_exponent(absmax, format, policy);
      into.planes[1].bytes[first / kElements] = static_cast<std::byte>(poisoned ? 0xFF : exponent + 127);
      for (std::size_t e = 0; e < kElements; ++e) {
        const double scaled = std::ldexp(static_cast<double>(block[e]), -exponent);  // exact
        const std::uint32_t code = poisoned ? 0U : assay::encode(format, scaled, policy, first + e);
        store_code(format, codes, static_cast<std::int64_t>(first + e), code);
      }
    }
  }

  template <typename Real>
  static void decoded(const Encoded& tensor, std::int64_t first, std::span<Real> out) {
    static const double* const scales = decode_table(scalar_format("e8m0")).data();
    std::array<double, kElements> block;
    for (std::size_t i = 0; i < out.size(); i += kElements) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      decode_plane(element(), tensor.planes[0].bytes, at, std::span<double>(block));
      const double scale = scales[static_cast<unsigned>(tensor.planes[1].bytes[at / kElements])];
      for (std::size_t e = 0; e < kElements; ++e) out[i + e] = static_cast<Real>(block[e] * scale);
    }
  }

  static void factors(const Encoded& tensor, std::int64_t first, std::span<Factors> out) {
    std::vector<double> codes(out.size());
    decode_plane(element(), tensor.planes[0].bytes, first, std::span<double>(codes));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto block = (static_cast<std::size_t>(first) + i) / kElements;
      out[i] = {.code = codes[i],
                .scale = assay::decode(scalar_format("e8m0"),
                                       static_cast<std::uint32_t>(tensor.planes[1].bytes[block]))};
    }
  }
};

}  // namespace assay::blocks
