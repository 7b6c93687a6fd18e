// The one codec behind scalar.hpp, inline so that batch loops resolve format and rounding outside the loop.
// Everything is integer arithmetic on the bits of an f64, so there is no rounding but the one that is meant.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"

namespace assay::codec {

constexpr double pow2(int exponent) {  // -1022 <= exponent <= 1023
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

constexpr std::uint32_t low_bits(int count) { return count >= 32 ? 0xFFFFFFFFU : (1U << count) - 1U; }

constexpr std::uint32_t magnitude_mask(const ScalarFormat& f) {
  return low_bits(f.exponent_bits + f.fraction_bits);
}

constexpr std::uint32_t sign_bit(const ScalarFormat& f) { return f.is_signed ? 1U << (f.bits - 1) : 0U; }

// Code of +max_finite.
constexpr std::uint32_t row_max_code(const ScalarFormat& f) {
  if (f.kind == ScalarKind::integer)
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(f.integer_max));
  switch (f.specials) {
    case Specials::ieee:
      return (low_bits(f.exponent_bits) << f.fraction_bits) - 1U;
    case Specials::nan_all_ones:
      return magnitude_mask(f) - 1U;
    case Specials::nan_minus_zero:
    case Specials::none:
      break;
  }
  return magnitude_mask(f);
}

constexpr bool row_has_nan(const ScalarFormat& f) {
  return f.kind != ScalarKind::integer && f.specials != Specials::none;
}

constexpr std::uint32_t row_nan_code(const ScalarFormat& f) {
  if (!row_has_nan(f)) return row_max_code(f);
  switch (f.specials) {
    case Specials::ieee:
      return row_max_code(f) + 1U + (1U << (f.fraction_bits - 1));
    case Specials::nan_all_ones:
      return magnitude_mask(f);
    case Specials::nan_minus_zero:
      return 1U << (f.bits - 1);
    case Specials::none:
      break;
  }
  return row_max_code(f);
}

constexpr double decode_floating(const ScalarFormat& f, std::uint32_t code) {
  const bool negative = (code & sign_bit(f)) != 0;
  const std::uint32_t magnitude = code & magnitude_mask(f);
  const double sign = negative ? -1.0 : 1.0;
  if (magnitude > row_max_code(f)) {
    const bool infinite = f.specials == Specials::ieee && magnitude == row_max_code(f) + 1U;
    return infinite ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  if (f.specials == Specials::nan_minus_zero && negative && magnitude == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const int exponent = static_cast<int>(magnitude >> f.fraction_bits);
  const std::uint32_t fraction = magnitude & low_bits(f.fraction_bits);
  const std::uint32_t significand = exponent == 0 ? fraction : fraction + (1U << f.fraction_bits);
  return sign * significand * pow2(std::max(exponent, 1) - f.bias - f.fraction_bits);
}

constexpr double decode_code(const ScalarFormat& f, std::uint32_t raw) {
  const std::uint32_t code = raw & low_bits(f.bits);
  switch (f.kind) {
    case ScalarKind::floating:
      return decode_floating(f, code);
    case ScalarKind::power_of_two:
      return code > row_max_code(f) ? std::numeric_limits<double>::quiet_NaN()
                                    : pow2(static_cast<int>(code) - f.bias);
    case ScalarKind::integer:
      break;
  }
  const bool negative = f.is_signed && (code >> (f.bits - 1)) != 0;
  return static_cast<double>(code) - (negative ? std::ldexp(1.0, f.bits) : 0.0);
}

constexpr std::uint64_t draw(std::uint64_t seed, std::uint64_t index) { return mix(mix(seed) ^ index); }

// Whether a magnitude with `rest` < 2^shift discarded moves away from zero.
template <Rounding R>
constexpr bool moves_away(std::uint64_t rest, int shift, bool odd, bool negative, std::uint64_t seed,
                          std::uint64_t index) {
  if constexpr (R == Rounding::toward_zero) {
    return false;
  } else if constexpr (R == Rounding::toward_negative) {
    return negative && rest != 0;
  } else if constexpr (R == Rounding::stochastic) {
    const std::uint64_t part = shift <= 64 ? rest << (64 - shift) : shift < 128 ? rest >> (shift - 64) : 0;
    return draw(seed, index) < part;
  } else {
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    if constexpr (R == Rounding::nearest_away) return rest >= half;
    return rest > half || (rest == half && odd);
  }
}

template <Rounding R>
constexpr std::uint32_t encode_floating(const ScalarFormat& f, double x, const EncodePolicy& policy,
                                        std::uint64_t index) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const bool negative = (bits >> 63) != 0;
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  constexpr std::uint64_t kInf = std::uint64_t{0x7FF} << 52;
  const std::uint32_t sign = negative ? sign_bit(f) : 0U;
  if (magnitude > kInf) return policy.nan == NanPolicy::propagate ? row_nan_code(f) : 0U;

  std::uint64_t code = std::uint64_t{row_max_code(f)} + 1U;  // what overflow looks like
  if (magnitude != kInf) {
    const int raw_exponent = static_cast<int>(magnitude >> 52);
    const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << 52) - 1);
    const std::uint64_t significand = raw_exponent == 0 ? fraction : fraction | (std::uint64_t{1} << 52);
    const int exponent = std::max(raw_exponent, 1) - 1023;
    const int quantum_exponent = std::max(exponent, 1 - f.bias);  // of the leading bit
    int shift = 52 - f.fraction_bits + (quantum_exponent - exponent);
    std::uint64_t kept = 0;
    std::uint64_t rest = significand;
    if (shift < 60) {
      kept = significand >> shift;
      rest = significand & ((std::uint64_t{1} << shift) - 1);
    } else if (R != Rounding::stochastic) {
      shift = 60;  // significand < 2^53: all of it is discarded, and it is less than half
    }
    // `kept` has its leading bit in place for a normal number, so the sum carries into the exponent by
    // itself.
    code = (static_cast<std::uint64_t>(quantum_exponent + f.bias - 1) << f.fraction_bits) + kept;
    if (moves_away<R>(rest, shift, (code & 1U) != 0, negative, policy.seed, index)) ++code;
    if (code <= row_max_code(f)) {
      if (code == 0 && f.specials == Specials::nan_minus_zero) return 0U;
      if (negative && !f.is_signed && code != 0) {
        return policy.overflow == Overflow::ieee ? row_nan_code(f) : 0U;
      }
      return static_cast<std::uint32_t>(code) | sign;
    }
    const bool stays = R == Rounding::toward_zero || (R == Rounding::toward_negative && !negative);
    if (stays && (f.is_signed || !negative)) return row_max_code(f) | sign;
  }
  if (!f.is_signed && negative) return policy.overflow == Overflow::ieee ? row_nan_code(f) : 0U;
  if (policy.overflow == Overflow::saturate || f.specials == Specials::none) return row_max_code(f) | sign;
  return f.specials == Specials::ieee ? (row_max_code(f) + 1U) | sign : row_nan_code(f);
}

template <Rounding R>
constexpr std::uint32_t encode_power_of_two(const ScalarFormat& f, double x, const EncodePolicy& policy,
                                            std::uint64_t index) {
  if (!(x <= std::numeric_limits<double>::max())) {
    if (!(x > 0)) return policy.nan == NanPolicy::propagate ? row_nan_code(f) : 0U;
    return policy.overflow == Overflow::ieee ? row_nan_code(f) : row_max_code(f);
  }
  if (x <= 0) return 0U;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  std::int64_t code = static_cast<std::int64_t>(bits >> 52) - 1023 + f.bias;
  if (code < 0) return 0U;  // there is no zero to round to
  const std::uint64_t rest = bits & ((std::uint64_t{1} << 52) - 1);
  if (moves_away<R>(rest, 52, (code & 1) != 0, false, policy.seed, index)) ++code;
  if (code <= static_cast<std::int64_t>(row_max_code(f))) return static_cast<std::uint32_t>(code);
  const bool stays = R == Rounding::toward_zero || R == Rounding::toward_negative;
  return policy.overflow == Overflow::ieee && !stays ? row_nan_code(f) : row_max_code(f);
}

template <Rounding R>
inline std::uint32_t encode_integer(const ScalarFormat& f, double x, const EncodePolicy& policy,
                                    std::uint64_t index) {
  if (!(x == x)) return policy.nan == NanPolicy::propagate ? row_nan_code(f) : 0U;
  const double clamped = std::clamp(x, f.integer_min - 1, f.integer_max + 1);
  const double whole = std::trunc(clamped);
  const double part = std::fabs(clamped - whole);  // exact
  const auto integer = static_cast<std::int64_t>(whole);
  bool away = false;
  if constexpr (R == Rounding::stochastic) {
    away = draw(policy.seed, index) < static_cast<std::uint64_t>(part * 0x1p64);
  } else {
    const std::uint64_t rest = part > 0.5    ? 3
                               : part == 0.5 ? 2
                               : part > 0    ? 1
                                             : 0;  // in quarters of the step
    away = moves_away<R>(rest, 2, (integer & 1) != 0, std::signbit(clamped), policy.seed, index);
  }
  const double rounded = whole + (away ? (std::signbit(clamped) ? -1.0 : 1.0) : 0.0);
  const auto code = static_cast<std::int64_t>(std::clamp(rounded, f.integer_min, f.integer_max));
  return static_cast<std::uint32_t>(code) & low_bits(f.bits);
}

template <Rounding R>
inline std::uint32_t encode_one(const ScalarFormat& f, double x, const EncodePolicy& policy,
                                std::uint64_t index) {
  switch (f.kind) {
    case ScalarKind::floating:
      return encode_floating<R>(f, x, policy, index);
    case ScalarKind::power_of_two:
      return encode_power_of_two<R>(f, x, policy, index);
    case ScalarKind::integer:
      break;
  }
  return encode_integer<R>(f, x, policy, index);
}

// body.template operator()<R>() with the rounding as a constant.
template <typename Body>
decltype(auto) with_rounding(Rounding rounding, Body&& body) {
  switch (rounding) {
    case Rounding::nearest_even:
      break;
    case Rounding::nearest_away:
      return body.template operator()<Rounding::nearest_away>();
    case Rounding::toward_zero:
      return body.template operator()<Rounding::toward_zero>();
    case Rounding::toward_negative:
      return body.template operator()<Rounding::toward_negative>();
    case Rounding::stochastic:
      return body.template operator()<Rounding::stochastic>();
  }
  return body.template operator()<Rounding::nearest_even>();
}

}  // namespace assay::codec
