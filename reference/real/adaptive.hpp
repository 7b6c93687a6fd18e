// Certified values (a double and a proven bound on its distance from the truth) and their arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "reference/real/exp.hpp"

namespace assay {

inline constexpr double kUnitRoundoff = 0x1p-53;  // u of double, round to nearest

/// Rounds a bound upward: at least the exact value of any expression of at most six nonnegative double
/// operations whose computed value is x. Six roundings lose at most a factor (1 - 2^-53)^6, and 2^-1075 each
/// where they are subnormal; x (1 + 2^-49) + 2^-1071 outweighs both, and the two roundings here. NaN stays
/// NaN.
inline double outward(double x) { return std::fma(x, 0x1p-49, x) + 0x1p-1071; }

/// |truth - value| <= error. A NaN or infinite error certifies nothing; comparisons written as error <= limit
/// fail.
struct Certified {
  double value = 0;
  double error = std::numeric_limits<double>::infinity();

  static constexpr Certified exact(double x) { return {x, 0.0}; }
  /// Bounds of the truth, rounded outward.
  double lower() const { return std::nextafter(value - error, -std::numeric_limits<double>::infinity()); }
  double upper() const { return std::nextafter(value + error, std::numeric_limits<double>::infinity()); }
};

/// The rounding error of a double operation with result x: u |x|, or half the subnormal spacing.
inline double rounding_of(double x) { return std::fma(kUnitRoundoff, std::abs(x), 0x1p-1074); }

inline Certified operator+(Certified a, Certified b) {
  const double value = a.value + b.value;
  return {value, outward(a.error + b.error + rounding_of(value))};
}
inline Certified operator-(Certified a) { return {-a.value, a.error}; }
inline Certified operator-(Certified a, Certified b) { return a + -b; }
/// |ab - a'b'| <= |a'| e_b + |b'| e_a + e_a e_b, and one rounding.
inline Certified operator*(Certified a, Certified b) {
  const double value = a.value * b.value;
  return {value, outward(std::fma(std::abs(a.value), b.error, (std::abs(b.value) + b.error) * a.error) +
                         rounding_of(value))};
}
/// With q = a'/b': |a/b - q| <= (e_a + |q| e_b) / (|b'| - e_b). A divisor that may be 0 certifies nothing.
inline Certified operator/(Certified a, Certified b) {
  const double value = a.value / b.value;
  // Shrunk by 2^-50 against the rounding of the difference; positive, or nothing is known.
  const double least = (std::abs(b.value) - b.error) * (1 - 0x1p-50);
  if (!(least > 0) || !std::isfinite(value)) return {value, std::numeric_limits<double>::infinity()};
  const double rounding = rounding_of(value);
  return {value, outward((a.error + (std::abs(value) + rounding) * b.error) / least + rounding)};
}
/// |sqrt a - sqrt a'| = |a - a'| / (sqrt a + sqrt a') <= e_a / sqrt a'. An a that may be negative certifies
/// nothing.
inline Certified sqrt(Certified a) {
  const double value = std::sqrt(a.value);
  if (!(a.error <= a.value)) return {value, std::numeric_limits<double>::infinity()};
  return {value, a.value == 0 ? 0.0 : outward(a.error / value * (1 + 0x1p-50) + rounding_of(value))};
}
/// |exp a - exp a'| <= exp(a') (exp(e_a) - 1) and exp(e) - 1 <= e (1 + e) for e <= 1 (the series' tail is
/// below e/2).
inline Certified exp(Certified a) {
  const double value = certified_exp(a.value);
  if (!(a.error <= 1) || !(a.value <= kExpMax)) return {value, std::numeric_limits<double>::infinity()};
  if (a.value < kExpMin) return {value, outward(kExpFlushError * 3)};  // e^1 < 3
  const double relative = std::fma(a.error, 1 + a.error, kExpRelativeError);
  return {value, outward(value * (1 + kExpRelativeError * 2) * relative)};
}
inline Certified abs(Certified a) { return {std::abs(a.value), a.error}; }

}  // namespace assay
