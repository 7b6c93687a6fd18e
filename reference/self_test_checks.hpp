// The checks behind self_test(), in the namespace ASSAY_SELF_TEST_NAMESPACE, so that the tests can compile
// the same lines once more with the flags that they must refuse (-ffast-math, -ffp-contract=fast). Include
// once per translation unit. Operands are volatile: what counts is what the compiled code does, not what the
// compiler folds.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "reference/self_test.hpp"

#ifndef ASSAY_SELF_TEST_NAMESPACE
#error "define ASSAY_SELF_TEST_NAMESPACE before including this file"
#endif

namespace ASSAY_SELF_TEST_NAMESPACE {

struct Checks {
  std::vector<assay::SelfTestFailure> failures;

  /// got and want are compared by their printed bits, because == is under suspicion itself.
  void expect(const char* name, double got, double want, const char* cause) {
    char text_got[40];
    char text_want[40];
    std::snprintf(text_got, sizeof text_got, "%a", got);
    std::snprintf(text_want, sizeof text_want, "%a", want);
    if (std::string_view(text_got) == text_want) return;
    failures.push_back(
        {name, std::string("got ") + text_got + ", IEEE 754 requires " + text_want + ": " + cause});
  }
  void expect(const char* name, bool ok, const char* cause) {
    if (!ok) failures.push_back({name, cause});
  }
};

inline void check_nan(Checks& checks) {
  volatile double zero = 0.0;
  volatile double infinity = HUGE_VAL;
  const double nan = infinity * zero;
  const char* const cause = "a NaN compares as if it were a number: a finite-math flag (-ffast-math)";
  checks.expect("nan_compare", nan != nan, cause);
  checks.expect("nan_compare", !(nan <= 1.0), cause);
  checks.expect("nan_compare", !(nan > 1.0), cause);
  checks.expect("nan_compare", std::isnan(nan), cause);
  const double difference = infinity - infinity;
  checks.expect("infinity", difference != difference, "inf - inf is not NaN: a finite-math flag");
}

struct Two {
  double first, second;
};
[[gnu::noinline]] inline Two rounded_to_f32(Two z) {
  return {static_cast<double>(static_cast<float>(z.first)),
          static_cast<double>(static_cast<float>(z.second))};
}

inline void check_operations(Checks& checks) {
  volatile double third = 0x1.3333334p-2;
  const Two rounded = rounded_to_f32({third, third});
  checks.expect("two_conversions", rounded.first, 0x1.333334p-2,
                "two roundings to float side by side are dropped: -ftree-slp-vectorize of g++ 12");
  checks.expect("two_conversions", rounded.second, 0x1.333334p-2,
                "two roundings to float side by side are dropped: -ftree-slp-vectorize of g++ 12");
  volatile double one = 1.0;
  volatile double big = 0x1p53;
  const double b = big;
  checks.expect("reassociation", (b + one) - b, 0.0, "(a + b) - a was simplified: -fassociative-math");
  volatile double up = 1 + 0x1p-27;
  volatile double down = 1 - 0x1p-27;
  volatile double minus_one = -1.0;
  // up down = 1 - 2^-54 exactly, which rounds to 1.
  checks.expect("contraction", up * down + minus_one, 0.0,
                "a b + c became one fused operation: -ffp-contract=off");
  checks.expect("fma", std::fma(up, down, minus_one), -0x1p-54,
                "fma rounds twice: the C library's fma is broken");
  volatile double below = 0x1p-60;
  checks.expect("excess_precision", (one + below) + minus_one, 0.0, "sums are kept wider than double (x87)");
  volatile float one_f = 1.0f;
  volatile float below_f = 0x1p-30f;
  checks.expect("excess_precision", static_cast<double>((one_f + below_f) - one_f), 0.0,
                "floats are kept wider");
  volatile double minus_zero = -0.0;
  volatile double plus_zero = 0.0;
  checks.expect("signed_zero", minus_zero + plus_zero, 0.0, "x + 0 was simplified: -fno-signed-zeros");
  const double z = minus_zero;
  checks.expect("signed_zero", z + 0.0, 0.0, "x + 0 was simplified: -fno-signed-zeros");
}

inline void check_rounding(Checks& checks) {
  const char* const cause = "not round-to-nearest-even: the rounding mode was changed in this thread";
  volatile double one = 1.0;
  volatile double half_ulp = 0x1p-53;
  volatile double odd = 1 + 0x1p-52;
  volatile double minus_one = -1.0;
  volatile double minus_half_ulp = -0x1p-53;
  checks.expect("rounding_mode", one + half_ulp, 1.0, cause);
  checks.expect("rounding_mode", odd + half_ulp, 1 + 0x1p-51, cause);
  checks.expect("rounding_mode", minus_one + minus_half_ulp, -1.0, cause);
  volatile double tie = 1 + 0x1p-24;
  volatile double minus_tie = -1 - 0x1p-24 - 0x1p-23;
  checks.expect("rounding_mode", static_cast<float>(tie), 1.0, cause);
  checks.expect("rounding_mode", static_cast<float>(minus_tie), -1 - 0x1p-22, cause);
}

inline void check_denormals(Checks& checks) {
  volatile double smallest_normal = 0x1p-1022;
  volatile double half = 0.5;
  const double halved = smallest_normal * half;
  volatile float smallest_normal_f = 0x1p-126f;
  volatile float half_f = 0.5f;
  const float halved_f = smallest_normal_f * half_f;
  const char* const results = "a subnormal result was flushed to zero: FTZ is on in this thread";
  checks.expect("denormal_results", halved, 0x1p-1023, results);
  // The bits: comparing a subnormal float, or widening it, would read it under DAZ.
  checks.expect("denormal_results", std::bit_cast<std::uint32_t>(halved_f) == 0x00400000u, results);
  volatile double subnormal = 0x1p-1074;
  volatile double lift = 0x1p1000;
  volatile float subnormal_f = 0x1p-149f;
  volatile float lift_f = 0x1p100f;
  const char* const operands = "a subnormal operand was read as zero: DAZ is on in this thread";
  checks.expect("denormal_operands", subnormal * lift, 0x1p-74, operands);
  checks.expect("denormal_operands", static_cast<double>(subnormal_f * lift_f), 0x1p-49, operands);
}

inline std::vector<assay::SelfTestFailure> run() {
  Checks checks;
  check_nan(checks);
  check_operations(checks);
  check_rounding(checks);
  check_denormals(checks);
  return checks.failures;
}

}  // namespace ASSAY_SELF_TEST_NAMESPACE
