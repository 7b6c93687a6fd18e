// ggml's blocks of 256 elements: groups of 16 or 32 with a small integer scale each, under one f16 scale d. A
// Layout has kName, kBytes, kGroup, kScaleAt (of d), kMinimumAt (of a second f16, dmin; -1: none), kTopScale
// and kTopMinimum (the largest integers), kFarCode, and
//   code(in, e), scale(in, g), minimum(in, g)    as the bytes say; scale and code may be negative
//   put_code, put_scale, put_minimum             into zeroed bytes
//   nearest(x)                                   the code that a quotient is nearest to
// value = d scale code - dmin minimum: d scale code and dmin minimum have at most 24 bits, their difference
// is rounded once to f64.
//
// ggml chooses scales by a search over candidates, and files hold what some version of that search found: no
// quantiser is the right one. This one, where such a search begins, serves to make inputs. kFarCode is the
// code of largest magnitude. Per group of range [low, high], 0 included:
//   step = (high - low) / kFarCode, offset = -low            formats with a minimum
//   step = the signed element of largest magnitude / kFarCode   others
// d = largest |step| / kTopScale, dmin = largest offset / kTopMinimum; both rounded to f16, then scales,
// minima and codes to nearest.
#pragma once

#include <algorithm>

#include "reference/formats/blocks/inline_block.hpp"

namespace assay::blocks {

// Nearest integer in [low, high], ties upwards.
inline int nearest_integer(double x, int low, int high) {
  return static_cast<int>(
      std::clamp(std::floor(x + 0.5), static_cast<double>(low), static_cast<double>(high)));
}
// The integer nearest to a / b in [low, high]; 0 where b is 0.
inline int ratio(double a, double b, int low, int high) {
  return b > 0 ? nearest_integer(a / b, low, high) : 0;
}

template <typename Layout>
struct SuperBlock {
  static constexpr std::string_view kName = Layout::kName;
  static constexpr int kElements = 256;
  static constexpr int kBytes = Layout::kBytes;
  static constexpr int kGroups = kElements / Layout::kGroup;
  static constexpr bool kHasMinimum = Layout::kMinimumAt >= 0;

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t) {
    std::array<float, kElements> v;
    if (!load_finite<kElements>(x, v, policy)) return poison(out, kBytes, Layout::kScaleAt);
    std::memset(out, 0, kBytes);
    std::array<double, kGroups> step{}, offset{};
    double largest = 0;
    for (int g = 0; g < kGroups; ++g) {
      double low = 0, high = 0;
      for (int e = g * Layout::kGroup; e < (g + 1) * Layout::kGroup; ++e)
        low = std::min<double>(low, v[e]), high = std::max<double>(high, v[e]);
      offset[g] = kHasMinimum ? -low : 0;
      step[g] = (kHasMinimum ? high - low : high > -low ? high : low) / Layout::kFarCode;
      largest = std::max(largest, std::fabs(step[g]));
    }
    store_f16(out + Layout::kScaleAt, largest / Layout::kTopScale);
    const double d = load_f16(out + Layout::kScaleAt);
    double dmin = 0;
    if constexpr (kHasMinimum) {
      store_f16(out + Layout::kMinimumAt, std::ranges::max(offset) / Layout::kTopMinimum);
      dmin = load_f16(out + Layout::kMinimumAt);
    }
    for (int g = 0; g < kGroups; ++g) {
      const int scale = ratio(step[g], d, kHasMinimum ? 0 : -Layout::kTopScale - 1, Layout::kTopScale),
                minimum = ratio(offset[g], dmin, 0, Layout::kTopMinimum);
      Layout::put_scale(out, g, scale);
      if constexpr (kHasMinimum) Layout::put_minimum(out, g, minimum);
      for (int e = g * Layout::kGroup; e < (g + 1) * Layout::kGroup; ++e)
        Layout::put_code(out, e, Layout::nearest(scale != 0 ? (v[e] + dmin * minimum) / (d * scale) : 0));
    }
  }

  static void factors(const std::byte* in, std::span<Factors> out) {
    const double d = load_f16(in + Layout::kScaleAt);
    for (int e = 0; e < kElements; ++e) {
      const int g = e / Layout::kGroup;
      out[e] = {.code = static_cast<double>(Layout::code(in, e)),
                .scale = d,
                .second = static_cast<double>(Layout::scale(in, g))};
      if constexpr (kHasMinimum) {
        out[e].minimum = Layout::minimum(in, g);
        out[e].minimum_scale = load_f16(in + Layout::kMinimumAt);
      }
    }
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const double d = load_f16(in + Layout::kScaleAt);
    for (int e = 0; e < kElements; ++e) {
      const int g = e / Layout::kGroup;
      double value = d * Layout::scale(in, g) * Layout::code(in, e);
      if constexpr (kHasMinimum) value -= load_f16(in + Layout::kMinimumAt) * Layout::minimum(in, g);
      out[e] = static_cast<Real>(value);
    }
  }
};

inline int bits(const std::byte* in, int at, int shift, int mask) {
  return std::to_integer<int>(in[at]) >> shift & mask;
}
inline void put_bits(std::byte* out, int at, int shift, int value) {
  out[at] |= static_cast<std::byte>(value << shift);
}
// Eight scales and eight minima of 6 bits in 12 bytes at `at` (q4_K, q5_K). Byte j of the first four holds
// scale j and, above it, bits 4 and 5 of scale j + 4; the next four the same of the minima; byte 8 + j bits
// 0..3 of scale j + 4, and above them of minimum j + 4.
inline int six_bits(const std::byte* in, int at, int g, bool minimum) {
  const int first = at + (minimum ? 4 : 0);
  if (g < 4) return bits(in, first + g, 0, 63);
  return bits(in, at + 4 + g, minimum ? 4 : 0, 15) | bits(in, first + g - 4, 6, 3) << 4;
}
inline void put_six_bits(std::byte* out, int at, int g, bool minimum, int value) {
  const int first = at + (minimum ? 4 : 0);
  if (g < 4) return put_bits(out, first + g, 0, value);
  put_bits(out, at + 4 + g, minimum ? 4 : 0, value & 15);
  put_bits(out, first + g - 4, 6, value >> 4);
}

}  // namespace assay::blocks
