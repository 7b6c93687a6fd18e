// Rounding of a real number to a binary precision. The number is a double, or an exact sum integer *
// 2^exponent.
//
// A format here is F(p, emin, emax): values
//   s * 2^(e-p+1)  with |s| < 2^p, emin <= e <= emax;
// below 2^emin the spacing stays 2^(emin-p+1) (gradual underflow). Rounding modes are those of
// formats/scalar.hpp; stochastic is not a rounding of machine arithmetic and is refused by returning NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/formats/scalar.hpp"

namespace assay {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

struct Precision {
  int p;     // significant bits, the leading one included
  int emin;  // exponent of the smallest normal number
  int emax;  // exponent of the largest binade
  bool operator==(const Precision&) const = default;
};

inline constexpr Precision kPrecisionF16{11, -14, 15};
inline constexpr Precision kPrecisionBf16{8, -126, 127};
inline constexpr Precision kPrecisionF32{24, -126, 127};
inline constexpr Precision kPrecisionE8m13{14, -126, 127};  // f32 whose last 10 fraction bits are zero
inline constexpr Precision kPrecisionF64{53, -1022, 1023};

// What a result beyond the largest finite number becomes. ieee754: as IEEE 754 section 7.4 (toward_zero stops
// at the largest finite number). infinity: always Inf, which is what matrix units that truncate do.
enum class OverflowTo : std::uint8_t { ieee754, infinity };

// u, the largest relative error of one rounding of a normal number: 2^-p to nearest, 2^(1-p) directed.
constexpr double power_of_two(int e) {  // 2^e for -1074 <= e <= 1023, 0 below, Inf above
  if (e > 1023) return std::numeric_limits<double>::infinity();
  if (e >= -1022) return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
  if (e >= -1074) return std::bit_cast<double>(std::uint64_t{1} << (e + 1074));
  return 0;
}
constexpr double unit_roundoff(const Precision& f, Rounding mode = Rounding::nearest_even) {
  const bool nearest = mode == Rounding::nearest_even || mode == Rounding::nearest_away;
  return power_of_two(nearest ? -f.p : 1 - f.p);
}
// The largest absolute error of one rounding of a number below 2^emin.
constexpr double underflow_unit(const Precision& f, Rounding mode = Rounding::nearest_even) {
  const bool nearest = mode == Rounding::nearest_even || mode == Rounding::nearest_away;
  return power_of_two(f.emin - f.p + (nearest ? 0 : 1));
}
constexpr double largest_finite(const Precision& f) {
  return (2 - power_of_two(1 - f.p)) * power_of_two(f.emax);
}

constexpr int bit_length(UInt128 x) {
  const auto high = static_cast<std::uint64_t>(x >> 64);
  return high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<std::uint64_t>(x));
}

// significand * 2^exponent rounded to `f`, p <= 53. Exact zero gives +0; a non-zero number that rounds to
// zero keeps its sign. A longer sum is handed in cut to its leading bits with the last bit set when anything
// was cut away ("round to odd"): from p + 2 kept bits on, that cannot change the result.
inline double round_exact(Int128 significand, int exponent, const Precision& f, Rounding mode,
                          OverflowTo overflow = OverflowTo::ieee754) {
  if (mode == Rounding::stochastic) return std::numeric_limits<double>::quiet_NaN();
  if (significand == 0) return 0;
  const bool negative = significand < 0;
  const UInt128 magnitude =
      negative ? UInt128{0} - static_cast<UInt128>(significand) : static_cast<UInt128>(significand);
  const int lead = bit_length(magnitude) - 1 + exponent;  // 2^lead <= |x| < 2^(lead+1)
  const int quantum = (lead > f.emin ? lead : f.emin) - f.p + 1;
  const int drop = quantum - exponent;
  enum class Rest { none, below_half, half, above_half } rest = Rest::none;
  UInt128 kept = 0;
  if (drop <= 0) {
    kept = magnitude << -drop;  // fits: kept < 2^p
  } else if (drop > 127) {
    rest = drop == 128 && magnitude == UInt128{1} << 127 ? Rest::half : Rest::below_half;
  } else {
    kept = magnitude >> drop;
    const UInt128 cut = magnitude & ((UInt128{1} << drop) - 1);
    const UInt128 half = UInt128{1} << (drop - 1);
    if (cut != 0) rest = cut < half ? Rest::below_half : cut == half ? Rest::half : Rest::above_half;
  }
  bool up = false;
  switch (mode) {
    case Rounding::nearest_even:
      up = rest == Rest::above_half || (rest == Rest::half && (kept & 1) != 0);
      break;
    case Rounding::nearest_away:
      up = rest == Rest::above_half || rest == Rest::half;
      break;
    case Rounding::toward_zero:
      up = false;
      break;
    case Rounding::toward_negative:
      up = negative && rest != Rest::none;
      break;
    case Rounding::stochastic:
      break;
  }
  if (up) ++kept;
  const int top = kept == 0 ? f.emin - 1 : bit_length(kept) - 1 + quantum;
  double result = 0;
  if (top > f.emax) {
    const bool stops = overflow == OverflowTo::ieee754 &&
                       (mode == Rounding::toward_zero || (mode == Rounding::toward_negative && !negative));
    result = stops ? largest_finite(f) : std::numeric_limits<double>::infinity();
  } else {
    result = std::ldexp(static_cast<double>(static_cast<std::uint64_t>(kept)), quantum);
  }
  return negative ? -result : result;
}

// x rounded to `f`. Zeros, infinities and NaN pass through.
inline double round_to_precision(double x, const Precision& f, Rounding mode = Rounding::nearest_even,
                                 OverflowTo overflow = OverflowTo::ieee754) {
  if (x == 0 || !std::isfinite(x)) return x;
  int e = 0;
  const double s = std::frexp(x, &e);  // x = s * 2^e, 1/2 <= |s| < 1
  return round_exact(static_cast<Int128>(std::ldexp(s, 53)), e - 53, f, mode, overflow);
}

// x + y rounded once to `f` (p <= 51), whatever the cancellation: TwoSum gives the sum exactly as hi + lo,
// and the sign of lo decides what hi alone cannot.
inline double round_sum(double x, double y, const Precision& f, Rounding mode = Rounding::nearest_even) {
  const double hi = x + y;
  if (!std::isfinite(hi)) return hi;
  const double back = hi - x;
  const double lo = (x - (hi - back)) + (y - back);
  if (lo == 0 || hi == 0) return round_to_precision(hi, f, mode);
  // Round to odd at 53 bits: a last bit of 1 stands for "not exact". p <= 51 leaves two bits below the
  // target.
  auto bits = std::bit_cast<std::uint64_t>(hi);
  if ((bits & 1) == 0) bits = (lo > 0) == (hi > 0) ? bits + 1 : bits - 1;
  return round_to_precision(std::bit_cast<double>(bits), f, mode);
}

// Fast paths of the common cases; equal to round_to_precision bit for bit.
inline double round_f32(double x) { return static_cast<double>(static_cast<float>(x)); }
inline float truncate_e8m13(float x) {  // NaN stays NaN: its payload is cut, its quiet bit is not
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~std::uint32_t{0x3ff});
}
namespace detail {
// Nearest-even at a quantum of 2^(max(exponent, emin) - p + 1), by adding and taking away 1.5 * 2^52 quanta.
inline double round_nearest_fast(double x, const Precision& f) {
  const auto biased = static_cast<int>((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff);
  if (biased == 0x7ff) return x;
  const int e = biased - 1023;
  if (e > f.emax) return std::copysign(std::numeric_limits<double>::infinity(), x);
  const double magic = 1.5 * power_of_two((e > f.emin ? e : f.emin) - f.p + 1 + 52);
  const double r = (x + magic) - magic;
  if (std::fabs(r) > largest_finite(f)) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return std::copysign(r, x);
}
}  // namespace detail
inline double round_f16(double x) { return detail::round_nearest_fast(x, kPrecisionF16); }
inline double round_bf16(double x) { return detail::round_nearest_fast(x, kPrecisionBf16); }

}  // namespace assay
