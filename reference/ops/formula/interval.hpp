// An interval of doubles and its steps, each rounded outwards: bound.hpp says what the special ones mean.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/arithmetic/rounding.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/real/eft.hpp"

namespace assay::formula {

struct Interval {
  double low = 0, high = 0;
};

inline constexpr Interval kOpen{-kInfinity, kInfinity};
inline constexpr Interval kPoison{kInfinity, -kInfinity};
inline constexpr Interval kNotANumber{std::numeric_limits<double>::quiet_NaN(),
                                      std::numeric_limits<double>::quiet_NaN()};

inline bool finite(Interval a) { return std::isfinite(a.low) && std::isfinite(a.high); }
inline bool is_open(Interval a) { return a.low == -kInfinity && a.high == kInfinity; }
inline bool is_poison(Interval a) { return a.low == kInfinity && a.high == -kInfinity; }
inline bool is_nan(Interval a) { return std::isnan(a.low) || std::isnan(a.high); }
inline bool is_point(Interval a) { return a.low == a.high; }
inline Interval point(double x) { return {x, x}; }
inline Interval hull(Interval a, Interval b) { return {std::fmin(a.low, b.low), std::fmax(a.high, b.high)}; }

// The neighbours of a finite double.
inline double below(double x) {
  const auto bits = std::bit_cast<std::int64_t>(x);
  if (x == 0) return -std::numeric_limits<double>::denorm_min();
  return std::bit_cast<double>(x > 0 ? bits - 1 : bits + 1);
}
inline double above(double x) { return -below(-x); }

inline double sum_below(double a, double b) {
  const TwoDoubles s = two_sum(a, b);
  return s.error < 0 ? below(s.value) : s.value;
}
inline double sum_above(double a, double b) {
  const TwoDoubles s = two_sum(a, b);
  return s.error > 0 ? above(s.value) : s.value;
}
inline bool is_f32(double x) { return static_cast<double>(static_cast<float>(x)) == x; }
// Of two numbers of f32 the product is a double: 48 bits, no smaller than 2^-298. Among others below 2^-960
// the remainder is no double: outwards whatever it is.
inline constexpr double kExactProduct = 0x1p-960;
inline double product_below(double a, double b) {
  if (is_f32(a) && is_f32(b)) return a * b;
  const TwoDoubles p = two_prod(a, b);
  if (std::fabs(p.value) < kExactProduct) return a == 0 || b == 0 ? p.value : below(p.value);
  return p.error < 0 ? below(p.value) : p.value;
}
inline double product_above(double a, double b) { return -product_below(-a, b); }
inline double quotient_below(double a, double b) {
  const double q = a / b;
  if (std::fabs(q) < kExactProduct || std::fabs(a) < kExactProduct) return a == 0 ? q : below(q);
  const double rest = std::fma(-q, b, a);  // of the sign of a - q b
  return rest != 0 && (rest < 0) == (b > 0) ? below(q) : q;
}
inline double quotient_above(double a, double b) { return -quotient_below(-a, b); }

// A middle and an error that hold the interval.
inline Enclosure enclosure(Interval a) {
  if (a.low == a.high) return {a.low, 0};
  const double middle = a.low / 2 + a.high / 2;
  return {middle, up(std::fmax(a.high - middle, middle - a.low))};
}
inline Interval interval(Enclosure z) {
  if (!(z.error < kInfinity)) return kOpen;
  if (z.error == 0) return point(z.value);
  return {sum_below(z.value, -z.error), sum_above(z.value, z.error)};
}
inline Interval intersection(Interval a, Interval b) {
  const Interval both{std::fmax(a.low, b.low), std::fmin(a.high, b.high)};
  return both.low <= both.high ? both : a;
}

// The least number of a format that is no less than x: what round=stochastic may store beside the one below.
inline double rounded_up(const ScalarFormat& to, double x, EncodePolicy policy) {
  policy.rounding = Rounding::toward_negative;
  if (to.is_signed) return -round_to(to, -x, policy);
  const double down = round_to(to, x, policy);  // codes of formats without a sign ascend
  return down < x ? decode(to, std::min(encode(to, down, policy) + 1, max_finite_code(to))) : down;
}

}  // namespace assay::formula
