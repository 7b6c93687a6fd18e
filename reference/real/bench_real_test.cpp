// The measuring functions measure: every path ran, and the order of magnitudes that the design relies on
// holds.
#include "reference/real/bench_real.hpp"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(bench_real, dot2_is_far_faster_than_multiprecision) {
  const DotSpeeds speeds = measure_dot_speeds(0.05);
  for (const double speed : {speeds.plain_f64, speeds.dot2, speeds.float128, speeds.mpfr113}) {
    EXPECT_GT(speed, 0);
    EXPECT_LT(speed, 1000);
  }
  EXPECT_GT(speeds.dot2, speeds.mpfr113);
}

TEST(bench_real, a_certified_exp_is_far_faster_than_multiprecision) {
  const ExpSpeeds speeds = measure_exp_speeds(0.05);
  EXPECT_GT(speeds.vector_ns, 0);
  EXPECT_LT(speeds.vector_ns, speeds.mpfr113_ns);
  EXPECT_LT(speeds.double_double_ns, speeds.mpfr113_ns);
}

}  // namespace
}  // namespace assay
