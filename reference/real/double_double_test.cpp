// Double-double: every bound against MPFR intervals on adversarial operands, and the interval proof of exp's
// core.
#include "reference/real/double_double.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reference/real/double_double_functions.hpp"
#include "reference/real/mp.hpp"

namespace assay {
namespace {

using mp::Interval;

constexpr std::uint64_t kSeed = 31337;

Interval interval(DoubleDouble x) { return Interval(x.hi) + Interval(x.lo); }

/// |got / exact - 1|, rounded up; 0 when both are 0.
double relative_error(DoubleDouble got, const Interval& exact) {
  if (exact.magnitude() == 0) return got.hi == 0 && got.lo == 0 ? 0 : INFINITY;
  return ((interval(got) - exact) / exact).magnitude();
}

/// Random double-doubles whose significands are extreme: all ones, a single one, low words at the half-ulp
/// limit.
class Operands {
 public:
  DoubleDouble next(int exponent_reach) {
    std::uniform_int_distribution<int> exponent(-exponent_reach, exponent_reach);
    const double hi = std::ldexp(significand(), exponent(random_));
    const double ulp = std::ldexp(1.0, std::ilogb(hi) - 53);
    const double lo = random_() % 8 == 0 ? 0.0
                                         : (random_() % 8 == 0 ? ulp : ulp * (significand() - 1)) *
                                               std::ldexp(1.0, -static_cast<int>(random_() % 3) * 20);
    const double sign = random_() % 2 == 0 ? 1 : -1;
    return DoubleDouble::sum_of(random_() % 2 == 0 ? hi : -hi, sign * lo * 0.999);
  }
  std::uint64_t bits() { return random_(); }

 private:
  double significand() {
    switch (random_() % 4) {
      case 0:
        return 2 - std::ldexp(1.0, -static_cast<int>(random_() % 53));
      case 1:
        return 1 + std::ldexp(1.0, -static_cast<int>(random_() % 53));
      default:
        return 1 + static_cast<double>(random_() >> 12) * 0x1p-52;
    }
  }
  std::mt19937_64 random_{kSeed};
};

TEST(double_double, four_operations_and_the_root_stay_within_their_bounds) {
  Operands operands;
  double worst[4] = {};
  const auto check = [&](int op, DoubleDouble got, const Interval& exact, double limit) {
    const double error = relative_error(got, exact);
    ASSERT_LE(error, limit) << "operation " << op << " got " << got.hi << " + " << got.lo;
    ASSERT_EQ(got.hi, got.hi + got.lo) << "not normalised";
    worst[op] = std::max(worst[op], error);
  };
  for (int i = 0; i < 30000; ++i) {
    const DoubleDouble x = operands.next(i % 2 == 0 ? 2 : 60);
    DoubleDouble y = operands.next(i % 2 == 0 ? 2 : 60);
    if (i % 5 == 0) y = DoubleDouble(-x.hi, operands.next(0).lo * 0x1p-4 * std::abs(x.hi));
    y = DoubleDouble::sum_of(y.hi, y.lo);
    check(0, x + y, interval(x) + interval(y), kAddError);
    check(1, x * y, interval(x) * interval(y), kMulError);
    check(2, x / y, interval(x) / interval(y), kDivError);
    check(3, sqrt(abs(x)), sqrt(interval(abs(x))), kSqrtError);
  }
  for (int op = 0; op < 4; ++op) {
    EXPECT_GE(worst[op], kDoubleDoubleUnit) << "operation " << op << ": operands too tame to test a bound";
  }
}

TEST(double_double, the_sloppy_addition_would_break_the_bound) {
  // Leaving out the second two_sum is the classic shortcut; cancellation exposes it, and this check sees it.
  const DoubleDouble x(1.0, 0x1.fffffffffffffp-54);
  const DoubleDouble y(-1.0 + 0x1p-53, -0x1.8p-108);
  const TwoDoubles s = two_sum(x.hi, y.hi);
  const TwoDoubles sloppy = fast_two_sum(s.value, s.error + (x.lo + y.lo));
  const Interval exact = interval(x) + interval(y);
  EXPECT_FALSE(relative_error({sloppy.value, sloppy.error}, exact) <= kAddError);
  EXPECT_LE(relative_error(x + y, exact), kAddError);
}

struct Function {
  const char* name;
  DoubleDouble (*ours)(DoubleDouble);
  Interval (*exact)(const Interval&);
  Certified (*certified)(double);
  double limit;
  double low, high;
};

Interval exact_exp(const Interval& x) { return exp(x); }
Interval exact_expm1(const Interval& x) { return expm1(x); }
Interval exact_log(const Interval& x) { return log(x); }
Interval exact_log1p(const Interval& x) { return log1p(x); }
Interval exact_tanh(const Interval& x) { return tanh(x); }

const Function kFunctions[] = {
    {"exp", exp, exact_exp, nullptr, kExpErrorDoubleDouble, -600, 709},
    {"exp near 0", exp, exact_exp, nullptr, kExpErrorDoubleDouble, -0.5, 0.5},
    {"expm1", expm1, exact_expm1, nullptr, kExpm1Error, -600, 709},
    {"expm1 near 0", expm1, exact_expm1, nullptr, kExpm1Error, -0.5, 0.5},
    {"log1p", log1p, exact_log1p, nullptr, kLog1pError, -0.5, 1},
    {"log1p tiny", log1p, exact_log1p, nullptr, kLog1pError, -0x1p-60, 0x1p-60},
    {"log", log, exact_log, certified_log, kLogError, 0x1p-40, 5},
    {"log large", log, exact_log, certified_log, kLogError, 1, 0x1p470},
    {"tanh", tanh, exact_tanh, certified_tanh, kTanhError, -50, 50},
    {"tanh near 0", tanh, exact_tanh, certified_tanh, kTanhError, -0.4, 0.4},
};

// A double-double rounded to double: half a unit in the last place, 1 % for its own error, and where that
// underflows.
double half_an_ulp(double value) { return std::ldexp(std::abs(value), -53) * 1.01 + 0x1p-1060; }

TEST(double_double, functions_stay_within_their_bounds) {
  std::mt19937_64 random(kSeed);
  for (const Function& f : kFunctions) {
    std::uniform_real_distribution<double> uniform(f.low, f.high);
    for (int i = 0; i < 1500; ++i) {
      const double hi = i == 0 ? f.low : i == 1 ? f.high : uniform(random);
      const double lo =
          i < 2 ? 0.0 : std::ldexp(hi, -54) * (static_cast<double>(random() % 2001) / 1000.0 - 1);
      const DoubleDouble x = DoubleDouble::sum_of(hi, lo);
      ASSERT_LE(relative_error(f.ours(x), f.exact(interval(x))), f.limit)
          << f.name << " at " << hi << " + " << lo;
      if (f.certified == nullptr) continue;
      const Certified got = f.certified(hi);
      const double error = (Interval(got.value) - f.exact(Interval(hi))).magnitude();
      ASSERT_LE(error, got.error) << f.name << " at " << hi;
      ASSERT_LE(got.error, half_an_ulp(got.value)) << f.name << " at " << hi;
    }
  }
}

TEST(double_double, certified_functions_cover_every_finite_double) {
  std::mt19937_64 random(kSeed);
  std::vector<double> xs = {5e-324,  1e-310, 0x1p-1022, 0x1p-401, 1.7976931348623157e308,
                            0x1p481, 0.5,    1,         2,        1e-300};
  for (int i = 0; i < 1000; ++i) xs.push_back(std::abs(std::bit_cast<double>(random())));
  for (const double x : xs) {
    if (!std::isfinite(x) || x == 0) continue;
    const auto check = [&](const char* name, Certified got, const Interval& exact) {
      ASSERT_LE((Interval(got.value) - exact).magnitude(), got.error) << name << " at " << x;
      ASSERT_LE(got.error, half_an_ulp(got.value)) << name << " at " << x;
    };
    check("log", certified_log(x), log(Interval(x)));
    check("tanh", certified_tanh(-x), tanh(Interval(-x)));
  }
}

TEST(double_double, special_values_certify_nothing_or_are_exact) {
  EXPECT_EQ(certified_log(1).error, 0);
  EXPECT_EQ(certified_tanh(0).error, 0);
  for (const Certified c : {certified_log(0), certified_log(-1), certified_log(NAN), certified_tanh(NAN)}) {
    EXPECT_FALSE(c.error <= 1e300);
  }
  EXPECT_LE(std::abs(certified_tanh(INFINITY).value - 1), certified_tanh(INFINITY).error);
}

TEST(double_double, the_core_of_exp_is_proven_by_interval_evaluation_of_every_operation) {
  using namespace double_double_detail;
  const Interval unit(kDoubleDoubleUnit);
  const auto symmetric = [](const Interval& x) { return Interval(-x.magnitude(), x.magnitude()); };
  constexpr int kPieces = 512;
  double worst_core = 0;
  double worst_exp = 0;
  for (int i = 0; i < kPieces; ++i) {
    const double a = exp_detail::kReducedMax * (2.0 * i / kPieces - 1);
    const double b = exp_detail::kReducedMax * (2.0 * (i + 1) / kPieces - 1);
    const Interval r(a, b);
    // Horner with exact 1/i!; each step adds the coefficient's error, one multiplication and one addition.
    Interval inverse_factorial(1.0);
    for (int j = 2; j <= kExpDegree; ++j)
      inverse_factorial = inverse_factorial / Interval(static_cast<double>(j));
    Interval p = inverse_factorial;
    Interval error = abs(interval(kInverseFactorial[kExpDegree]) - inverse_factorial);
    for (int j = kExpDegree - 1; j >= 1; --j) {
      inverse_factorial = inverse_factorial * Interval(j + 1.0);
      const Interval product = (p + symmetric(error)) * r;
      const Interval product_error = abs(error) * abs(r) + Interval(kMulError) * abs(product);
      p = p * r + inverse_factorial;
      error = product_error + abs(interval(kInverseFactorial[j]) - inverse_factorial);
      error = error + Interval(kAddError) * abs(p + symmetric(error));
    }
    // The series after degree 24, divided by r: |r|^24/25! (1 + |r| + ...) and 1/(1 - |r|) < 2.
    Interval tail = Interval(2.0) * abs(r);
    for (int j = 2; j <= kExpDegree; ++j) tail = tail * abs(r) / Interval(static_cast<double>(j));
    tail = tail / Interval(kExpDegree + 1.0);
    const Interval total = abs(error) + abs(tail);
    const double core = (total / (p - total) + Interval(kMulError) * Interval(1.001)).magnitude();
    worst_core = std::max(worst_core, core);
    // exp: the core's error relative to e^r, the final addition, and the reduction's error in r (two
    // additions, the rounding of k N, and ln 2 - L - M - N).
    const Interval missing =
        mp::ln2() - Interval(exp_detail::kLn2High) - Interval(exp_detail::kLn2Low) - Interval(kLn2Third);
    const Interval in_r = Interval(2.001 * kAddError) * abs(r) + Interval(1023.0) * abs(missing) +
                          Interval(1023.0 * 0x1p-53) * Interval(kLn2Third);
    const Interval whole = Interval(core) * abs(r * p) / exp(r) + Interval(kAddError) * Interval(1.001) +
                           abs(in_r) * Interval(1.001);
    worst_exp = std::max(worst_exp, whole.magnitude());
  }
  RecordProperty("core_in_units", std::to_string(worst_core / kDoubleDoubleUnit));
  RecordProperty("exp_in_units", std::to_string(worst_exp / kDoubleDoubleUnit));
  EXPECT_LE(worst_core, kExpErrorDoubleDouble) << worst_core / kDoubleDoubleUnit;
  EXPECT_LE(worst_exp, kExpErrorDoubleDouble) << worst_exp / kDoubleDoubleUnit;
  EXPECT_GE(worst_exp, kAddError);
}

}  // namespace
}  // namespace assay
