// Speed of the number types, as plain functions for a benchmark program: throughput in one thread, data in
// cache.
#pragma once

namespace assay {

/// Dot products of n = 4096 terms, in 10^9 terms per second. The paths take turns in one loop, so that a
/// change of the machine's clock meets all of them.
struct DotSpeeds {
  double plain_f64 = 0;  // fma, four chains of vectors
  double dot2 = 0;
  double float128 = 0;
  double mpfr113 = 0;  // Boost.Multiprecision over MPFR
};
DotSpeeds measure_dot_speeds(double seconds);

/// Nanoseconds of one certified exp.
struct ExpSpeeds {
  double vector_ns = 0;         // certified_exp over an array of 4096
  double scalar_ns = 0;         // certified_exp one at a time
  double double_double_ns = 0;  // exp(DoubleDouble)
  double mpfr113_ns = 0;
};
ExpSpeeds measure_exp_speeds(double seconds);

}  // namespace assay
