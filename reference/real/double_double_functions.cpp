// Error derivations; units u^2 = 2^-106 relative unless said otherwise, higher powers of u below 1 % of a
// unit.
//
//   exp     hi - k L is exact (exp.hpp, step 1) and k M is an exact pair, so r carries two additions, 6.01
//           |r|, and the rounding of k N; Horner of degree 24 and the Taylor remainder |r|^25/25!: evaluated
//           by the proof test.
//   expm1   |x| <= 0.34: the same Horner without its leading 1: by the proof test. Otherwise e^x - 1:
//             16 e^x/|e^x - 1| + 3 <= 16 * 3.47 + 3 < 59.
//   log1p   y0 is any double with |e| <= 2^-40 |y0|, e = (x - E)/(1 + E), E = expm1(y0):
//             log1p(x) = y0 + log1p(e)
//           whatever the C library returned for y0. The error of e is 72 |x|/(1 + x) and 21 |e|; log1p(e) = e
//           - e^2/2 up to |e|^3/3 < 2^-121 |y0| and the rounding of e^2/2, 2^-133. |x|/((1 + x) |ln(1 + x)|)
//           <= 1.443 on [-1/2, 1]:
//             72 * 1.443 + 2 * 3 + 1 < 111.
//   log     x in [1/2, 2): log1p(x - 1),
//             3 * 1.443 + 128 < 133.
//           Otherwise y0 + log1p(e), e = x exp(-y0) - 1 with an absolute error of (16 + 5 + 3 |e|):
//             (22 / 0.69) + 3 < 35.
//   tanh    t/(t + 2), t = expm1(2|x|):
//             72 * 2/(t + 2) + 3 + 15 < 91;
//           beyond 40 it is 1 - 2^-114.
#include "reference/real/double_double_functions.hpp"

#include <cmath>
#include <limits>

namespace assay {
namespace {

using namespace double_double_detail;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallExpm1 = 0.34;
constexpr double kNewtonDone = 0x1p-40;

/// e^r - 1 for |r| <= 0.3466 by r sum_{i >= 1} r^(i-1)/i!.
DoubleDouble expm1_reduced(DoubleDouble r) {
  DoubleDouble p = kInverseFactorial[kExpDegree];
  for (int i = kExpDegree - 1; i >= 1; --i) p = p * r + kInverseFactorial[i];
  return r * p;
}

/// y0 + ln(1 + e) for |e| <= 2^-40 max(|y0|, 1/2).
DoubleDouble corrected(double y0, DoubleDouble e) {
  return DoubleDouble(y0) + (e - DoubleDouble(0.5 * e.hi * e.hi));
}

}  // namespace

DoubleDouble exp(DoubleDouble x) {
  if (std::isnan(x.hi)) return x;
  if (x.hi > kExpMax) return kInfinity;
  if (x.hi < -746) return 0.0;
  using namespace exp_detail;
  const double k = std::fma(x.hi, kLog2E, kRoundToInteger) - kRoundToInteger;
  const DoubleDouble high = DoubleDouble::sum_of(std::fma(-k, kLn2High, x.hi), x.lo);
  const DoubleDouble r = (high - DoubleDouble::product_of(k, kLn2Low)) - DoubleDouble(k * kLn2Third);
  return scale_by_power_of_2(DoubleDouble(1.0) + expm1_reduced(r), static_cast<int>(k));
}

DoubleDouble expm1(DoubleDouble x) {
  if (x.hi == 0) return x;
  return std::abs(x.hi) <= kSmallExpm1 ? expm1_reduced(x) : exp(x) - DoubleDouble(1.0);
}

DoubleDouble log1p(DoubleDouble x) {
  if (x.hi == 0) return x;
  double y = std::log1p(x.hi);
  for (int round = 0; round < 4; ++round) {
    const DoubleDouble grown = expm1(y);
    const DoubleDouble e = (x - grown) / (DoubleDouble(1.0) + grown);
    if (std::abs(e.hi) <= kNewtonDone * std::abs(y)) return corrected(y, e);
    y += e.hi;
  }
  return kNan;  // only if the C library's log1p is broken or x is outside the domain
}

DoubleDouble log(DoubleDouble x) {
  if (!(x.hi > 0)) return x.hi == 0 ? -kInfinity : kNan;
  if (x.hi == kInfinity) return kInfinity;
  if (x.hi >= 0.5 && x.hi < 2) return log1p(x - DoubleDouble(1.0));
  double y = std::log(x.hi);
  for (int round = 0; round < 4; ++round) {
    const DoubleDouble e = x * exp(DoubleDouble(-y)) - DoubleDouble(1.0);
    if (std::abs(e.hi) <= kNewtonDone * 0.5) return corrected(y, e);
    y += e.hi;
  }
  return kNan;  // as above
}

DoubleDouble tanh(DoubleDouble x) {
  if (x.hi == 0 || std::isnan(x.hi)) return x;
  const bool negative = x.hi < 0;
  DoubleDouble result = 1.0;
  if (std::abs(x.hi) <= 40) {
    const DoubleDouble t = expm1(scale_by_power_of_2(abs(x), 1));
    result = t / (t + DoubleDouble(2.0));
  }
  return negative ? -result : result;
}

Certified certified(DoubleDouble x, double relative_error) {
  return {x.hi, outward(std::abs(x.lo) + relative_error * std::abs(x.hi))};
}

namespace {

constexpr double kTiny = 0x1p-200;

/// f(x) = x (1 + d), |d| <= |x|: tanh near 0.
Certified nearly_identity(double x) { return {x, x == 0 ? 0.0 : outward(std::abs(x) * kTiny)}; }

Certified nothing(double value) { return {value, kInfinity}; }

}  // namespace

Certified certified_log(double x) {
  if (!(x > 0) || !std::isfinite(x)) return nothing(std::log(x));
  if (x == 1) return Certified::exact(0);
  if (x >= 0x1p-480 && x <= 0x1p480) return certified(log(DoubleDouble(x)), kLogError);
  // ln(x 2^-+512) +- 512 ln 2 = 333 .. 746; the parts are at most 378 and 355, so that their errors, 160 and
  // 2, and the sum's 3 come to less than 160 * 378/332 + 2 * 355/332 + 3 < 188.
  const int shift = x > 1 ? 512 : -512;
  const DoubleDouble ln2_shift = scale_by_power_of_2({exp_detail::kLn2High, exp_detail::kLn2Low}, 9);
  const DoubleDouble part = log(DoubleDouble(std::ldexp(x, -shift)));
  return certified(part + (x > 1 ? ln2_shift : -ln2_shift), 188 * kDoubleDoubleUnit);
}

Certified certified_tanh(double x) {
  if (std::isnan(x)) return nothing(x);
  if (std::abs(x) < kTiny) return nearly_identity(x);
  return certified(tanh(DoubleDouble(x)), kTanhError);
}

}  // namespace assay
