// Error-free transformations: a rounded result together with what the rounding threw away, as two doubles.
//
// Arithmetic: IEEE 754 binary64, round to nearest, -ffp-contract=off (the self-test refuses anything else).
// Sources: Knuth, TAOCP 2, 4.2.2 (two_sum); Dekker, Numer. Math. 18 (1971) (fast_two_sum); Muller et al.,
// Handbook of Floating-Point Arithmetic, 2nd ed., sections 4.3 and 4.4.
#pragma once

#include <cmath>

namespace assay {

/// The rounded result `value` and the exact remainder `error`: exact result = value + error.
struct TwoDoubles {
  double value = 0;
  double error = 0;
};

/// value = fl(a + b), value + error = a + b exactly, for all finite a and b in any order.
/// Condition: a + b does not overflow. Underflow does no harm: a sum of doubles that is subnormal is exact.
inline TwoDoubles two_sum(double a, double b) {
  const double sum = a + b;
  const double b_seen = sum - a;
  const double a_seen = sum - b_seen;
  return {sum, (a - a_seen) + (b - b_seen)};
}

/// Like two_sum in three operations. Condition: |a| >= |b| or a == 0 (more precisely: the exponent of a is
/// not below that of b), and a + b does not overflow.
inline TwoDoubles fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// value = fl(a b), value + error = a b exactly.
/// Condition: a b does not overflow, and a b is 0 or the exponents satisfy e_a + e_b >= -1022 + 52, for
/// example |a b| >= 2^-968; below that the remainder may not be representable and is off by at most 2^-1075.
inline TwoDoubles two_prod(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

}  // namespace assay
