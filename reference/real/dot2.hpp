// Dot2: a dot product as if computed in twice the working precision, with a bound computed from the data.
//
// Algorithm (Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26(6), 2005, algorithms 5.3 and 5.8), here with L
// independent lanes:
//   h_i + r_i = x_i y_i             two_prod
//   p        <- p + h_i             two_sum, with remainder q_i
//   t_i       = fl(q_i + r_i)
//   s        <- fl(s + t_i)
//   e        <- fl(e + |t_i|)
// The lanes' p are then added by two_sum, whose remainders are more terms t_i.
//
// Bound. m = n + (number of lanes) terms t_i in all; u = 2^-53; P the sum of the lanes' p.
//   x.y = P + sum (q_i + r_i) + U               exactly; |U| <= n 2^-1075, where a remainder r_i is subnormal
//   |t_i - (q_i + r_i)| <= u |t_i|              one rounding
//   |s - sum t_i|  <= gamma_(m-1) sum |t_i|     any order of summation
//   sum |t_i|      <= e / (1 - m u)             e is a computed sum of nonnegative terms
// hence
//   |P + s - x.y|  <= (u + gamma_(m-1)) e / (1 - m u) + |U|
//                  <= m u / (1 - m u)^2 e + n 2^-1075.
// `value` + `tail` is P + s renormalised by fast_two_sum's safe form, exactly. All of it evaluated upward. If
// a product overflows or is not finite, error is NaN or +inf and certifies nothing.
#pragma once

#include <span>

#include "reference/real/adaptive.hpp"

namespace assay {

struct Dot2Result {
  double value = 0;  // x.y rounded
  double tail = 0;   // value + tail is closer still; |tail| <= u |value|
  double error = 0;  // |value + tail - x.y| <= error

  /// The same as one double: |value - x.y| <= |tail| + error.
  Certified certified() const { return {value, outward(std::abs(tail) + error)}; }
};

/// Shapes x [n], y [n]; n <= 2^40. A size mismatch is an InputError. Vectorised with run-time dispatch; L =
/// 16 on every machine, and all agree in every bit.
Dot2Result dot2(std::span<const double> x, std::span<const double> y);

}  // namespace assay
