// The referee of the bounds' tests: exact sums of products through MPFR.
#pragma once

#include <gtest/gtest.h>
#include <mpfr.h>

namespace assay::adversarial {

// An exact running sum of products of doubles: 4000 bits span every exponent that occurs here.
class Exact {
 public:
  Exact() {
    mpfr_inits2(4000, sum_, term_, static_cast<mpfr_ptr>(nullptr));
    mpfr_set_zero(sum_, 1);
  }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  ~Exact() { mpfr_clears(sum_, term_, static_cast<mpfr_ptr>(nullptr)); }
  void add(double a, double b = 1, double c = 1, double d = 1) {
    int inexact = mpfr_set_d(term_, a, MPFR_RNDN);
    for (const double x : {b, c, d}) inexact |= mpfr_mul_d(term_, term_, x, MPFR_RNDN);
    inexact |= mpfr_add(sum_, sum_, term_, MPFR_RNDN);
    EXPECT_EQ(inexact, 0);
  }
  double magnitude() {  // rounded up
    mpfr_abs(term_, sum_, MPFR_RNDU);
    return mpfr_get_d(term_, MPFR_RNDU);
  }
  double distance(double x) {  // |sum - x|, rounded up: what a bound must not be below
    mpfr_sub_d(term_, sum_, x, MPFR_RNDA);
    mpfr_abs(term_, term_, MPFR_RNDU);
    return mpfr_get_d(term_, MPFR_RNDU);
  }

 private:
  mpfr_t sum_, term_;
};

}  // namespace assay::adversarial
