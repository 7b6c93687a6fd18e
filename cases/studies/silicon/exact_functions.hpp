// exp2, exp and tanh of an f32 argument in double, for GPU and CPU: the yardstick of the function tables.
//
// Error. core(r) = e^r - 1 by its Taylor polynomial of degree 14, |r| <= 0.3466 (ln 2 / 2): the remainder is
// below
//   1.5 * 0.3466^14 / 15! |r| < 2^-60 |r|;
// each of Horner's steps s <- 1 + (r / i) s rounds r / i twice and the sum once, the errors before the last
// step shrink by |r| / 2 < 0.18 a step, and the last product rounds once: below 2^-51 |r|.
//   exp2  x = n + t exactly (|t| <= 1/2); r = t ln 2 is off by 2^-52 |r|; e^r = 1 + core(r) rounds once: the
//         relative error is below 2^-50. Scaling by 2^n is exact, results being 2^-512 at least.
//   exp   n = nearest(x / ln 2), |n| < 2^10; n kHigh is exact (41 bits), and so is x - n kHigh (n = 0, or a
//         multiple of 2^-41 below 1/2: an x of 24 bits and at least 0.34 is one of 2^-26); the last fma is
//         off by 2^-53 |r| + |n| 2^-94. The relative error is below 2^-50 again.
//   tanh  m = e^y - 1, y = 2|x|, is core(y) below 0.3466; above, the subtraction multiplies the relative
//         error of exp by e^y / (e^y - 1) < 3.5. m / (m + 2) rounds twice and moves by less than m does:
//         below 2^-47.
// An ulp of f32 is more than 2^-24 of the value, so the tables' ulps are off by less than
//   2^-26 (exp2, exp),  2^-23 (tanh).
#pragma once

#include <cmath>

#if defined(__CUDACC__)
#define ASSAY_HOST_DEVICE __host__ __device__
#else
#define ASSAY_HOST_DEVICE
#endif

namespace assay::silicon {

ASSAY_HOST_DEVICE inline double expm1_core(double r) {
  double sum = 1;
  for (int i = 14; i >= 2; --i) sum = fma(r * (1.0 / i), sum, 1.0);
  return r * sum;
}

ASSAY_HOST_DEVICE inline double exact_exp2(float x) {
  const double wide = static_cast<double>(x);
  if (wide != wide) return wide;
  if (wide >= 512) return HUGE_VAL;
  if (wide <= -512) return 0;
  const double n = rint(wide);
  return ldexp(1.0 + expm1_core((wide - n) * 0x1.62e42fefa39efp-1), static_cast<int>(n));
}

ASSAY_HOST_DEVICE inline double exact_exp(double x) {  // x of 24 significant bits
  if (x != x) return x;
  if (x >= 512) return HUGE_VAL;
  if (x <= -512) return 0;
  constexpr double kHigh = 0x1.62e42fefa2p-1;     // the leading 41 bits of ln 2
  constexpr double kLow = 0x1.9ef35793c7673p-41;  // the rest
  const double n = rint(x * 0x1.71547652b82fep+0);
  const double r = fma(-n, kLow, fma(-n, kHigh, x));
  return ldexp(1.0 + expm1_core(r), static_cast<int>(n));
}

ASSAY_HOST_DEVICE inline double exact_tanh(float x) {
  const double wide = static_cast<double>(x);
  const double y = 2 * fabs(wide);
  if (wide != wide) return wide;
  if (y > 100) return copysign(1.0, wide);
  const double m = y <= 0.3466 ? expm1_core(y) : exact_exp(y) - 1;
  return copysign(m / (m + 2), wide);
}

}  // namespace assay::silicon
