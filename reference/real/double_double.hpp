// Double-double ("double word") arithmetic: an unevaluated sum hi + lo of two doubles with hi = fl(hi + lo),
// about 106 bits. Every operation states a proven relative error bound; u = 2^-53.
//
// Sources: Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building blocks of double-word
// arithmetic", ACM TOMS 44(2), 2017 (add, mul, div: algorithms and bounds). sqrt is derived below.
// Conditions of all of them: no overflow, and no underflow of an intermediate remainder; magnitudes of
// operands and results in [2^-480, 2^480], or zero, are sufficient. Arithmetic: round to nearest,
// -ffp-contract=off.
#pragma once

#include <cmath>

#include "reference/real/eft.hpp"

namespace assay {

struct DoubleDouble {
  double hi = 0;
  double lo = 0;

  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double x) : hi(x) {}  // NOLINT: exact, so implicit
  constexpr DoubleDouble(double high, double low) : hi(high), lo(low) {}
  /// Any two doubles, renormalised without error.
  static DoubleDouble sum_of(double a, double b) {
    const TwoDoubles s = two_sum(a, b);
    return {s.value, s.error};
  }
  /// a b without error.
  static DoubleDouble product_of(double a, double b) {
    const TwoDoubles p = two_prod(a, b);
    return {p.value, p.error};
  }
};

inline constexpr double kDoubleDoubleUnit = 0x1p-106;           // u^2
inline constexpr double kAddError = 3.001 * kDoubleDoubleUnit;  // 3 u^2 + 13 u^3
inline constexpr double kMulError = 5 * kDoubleDoubleUnit;      // 5 u^2
// 15 u^2 + 56 u^3; 13 u^2 (1 + 16 u) is derived below.
inline constexpr double kDivError = 15.001 * kDoubleDoubleUnit;
inline constexpr double kSqrtError = 5 * kDoubleDoubleUnit;  // see sqrt

namespace double_double_detail {
inline DoubleDouble renormalise(double a, double b) {  // |a| >= |b|
  const TwoDoubles s = fast_two_sum(a, b);
  return {s.value, s.error};
}
}  // namespace double_double_detail

inline DoubleDouble operator-(DoubleDouble x) { return {-x.hi, -x.lo}; }
/// Algorithm 6 (AccurateDWPlusDW): relative error at most kAddError, for operands of any signs.
inline DoubleDouble operator+(DoubleDouble x, DoubleDouble y) {
  const TwoDoubles s = two_sum(x.hi, y.hi);
  const TwoDoubles t = two_sum(x.lo, y.lo);
  const TwoDoubles v = fast_two_sum(s.value, s.error + t.value);
  return double_double_detail::renormalise(v.value, t.error + v.error);
}
inline DoubleDouble operator-(DoubleDouble x, DoubleDouble y) { return x + -y; }
/// Algorithm 12 (DWTimesDW3): relative error at most kMulError.
inline DoubleDouble operator*(DoubleDouble x, DoubleDouble y) {
  const TwoDoubles c = two_prod(x.hi, y.hi);
  const double low = std::fma(x.lo, y.hi, std::fma(x.hi, y.lo, x.lo * y.lo));
  return double_double_detail::renormalise(c.value, c.error + low);
}
/// Algorithm 17 (DWDivDW2) with the fma form of the product: relative error at most kDivError. y = 0: Inf or
/// NaN. Proof for this form, all terms relative to |x/y| and up to a factor 1 + 16u:
///   |x/y - q|                         3 u      the rounding of q and the two dropped low words
///   r = y q (1 + 2 u^2)               2 u^2    algorithm 9
///   x.hi - r.hi                       0        exact (Sterbenz)
///   rounding of x.lo - r.lo           2 u^2
///   rounding of the sum rest          3 u^2
///   rounding of rest / y.hi           3 u^2
///   dividing by y.hi for y            3 u^2
/// The first is what rest / y.hi corrects; the others add up to 13 u^2.
inline DoubleDouble operator/(DoubleDouble x, DoubleDouble y) {
  const double quotient = x.hi / y.hi;
  // Algorithm 9 (DWTimesFP3): r ~ y quotient.
  const TwoDoubles c = two_prod(y.hi, quotient);
  const DoubleDouble r = double_double_detail::renormalise(c.value, std::fma(y.lo, quotient, c.error));
  const double rest = (x.hi - r.hi) + (x.lo - r.lo);
  return double_double_detail::renormalise(quotient, rest / y.hi);
}
/// sqrt(x), x >= 0; relative error at most kSqrtError.
/// Proof: s = fl(sqrt(hi)) = sqrt(hi) (1 + d), |d| <= u, and hi - s^2 is a double (the fma is exact). With
///   rho = (hi - s^2) + lo,   |rho| <= (3u + 2u^2) hi:
///   sqrt(x) = s + rho/(2s) - rho^2/(8 c^3),   c between s and sqrt(x).
/// The omitted term is below 9/8 u^2 sqrt(x) (1 + 4u); forming rho and dividing by 2s rounds twice, at most
///   (2u + u^2) |rho| / (2s) <= 3 u^2 sqrt(x) (1 + 4u);
/// the final renormalisation is exact. 4.125 u^2 (1 + 4u) < 5 u^2.
inline DoubleDouble sqrt(DoubleDouble x) {
  if (x.hi == 0) return {x.hi, 0};
  const double s = std::sqrt(x.hi);
  const double rho = std::fma(-s, s, x.hi) + x.lo;
  return double_double_detail::renormalise(s, rho / (2 * s));
}
/// x 2^n, without error unless it leaves the range of normal numbers.
inline DoubleDouble scale_by_power_of_2(DoubleDouble x, int n) {
  return {std::ldexp(x.hi, n), std::ldexp(x.lo, n)};
}
inline DoubleDouble abs(DoubleDouble x) { return x.hi < 0 ? -x : x; }

}  // namespace assay
