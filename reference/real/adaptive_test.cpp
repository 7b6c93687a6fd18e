// Certified arithmetic: the truth never leaves the interval.
#include "reference/real/adaptive.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "reference/real/mp.hpp"

namespace assay {
namespace {

using mp::Interval;

constexpr std::uint64_t kSeed = 271828;

/// A certified value and one truth inside its interval, often at its very end.
struct Pair {
  Certified certified;
  Interval truth;
};

class Pairs {
 public:
  Pair next(int reach) {
    const double value = std::ldexp(unit_(random_), static_cast<int>(random_() % (2 * reach + 1)) - reach);
    const double error =
        random_() % 4 == 0 ? 0 : std::abs(value) * std::ldexp(1.0, -static_cast<int>(random_() % 60) - 1);
    const double at = random_() % 3 == 0 ? 1 : random_() % 2 == 0 ? -1 : unit_(random_);
    return {{value, error}, Interval(value) + Interval(error) * Interval(at)};
  }

 private:
  std::mt19937_64 random_{kSeed};
  std::uniform_real_distribution<double> unit_{-1, 1};
};

void expect_inside(const char* what, Certified got, const Interval& truth) {
  ASSERT_LE((Interval(got.value) - truth).magnitude(), got.error) << what << " value " << got.value;
}

TEST(certified, every_operation_keeps_the_truth_inside) {
  Pairs pairs;
  for (int i = 0; i < 20000; ++i) {
    const int reach = i % 3 == 0 ? 1 : i % 3 == 1 ? 30 : 500;
    const Pair a = pairs.next(reach);
    const Pair b = pairs.next(reach);
    expect_inside("+", a.certified + b.certified, a.truth + b.truth);
    expect_inside("-", a.certified - b.certified, a.truth - b.truth);
    expect_inside("*", a.certified * b.certified, a.truth * b.truth);
    if (b.certified.value != 0) expect_inside("/", a.certified / b.certified, a.truth / b.truth);
    expect_inside("sqrt", sqrt(abs(a.certified)), sqrt(abs(a.truth)));
    const Pair x = pairs.next(8);
    expect_inside("exp", exp(x.certified), exp(x.truth));
  }
}

TEST(certified, the_bounds_are_not_generous) {
  constexpr double kError =
      0x1p-60;  // of each argument; the rest is calculus, and one rounding of the result
  const Certified a{1.5, kError};
  const Certified b{0.75, kError};
  EXPECT_LE((a * b).error, kError * 2.25 * 1.0001 + 1.125 * 0x1p-53 * 1.0001);
  EXPECT_LE((a / b).error, (kError + 2 * kError) / 0.75 * 1.0001 + 2 * 0x1p-53 * 1.0001);
  EXPECT_LE(exp(Certified::exact(1.25)).error, std::exp(1.25) * kExpRelativeError * 1.0001);
  EXPECT_LE((a + b).error, 2 * kError * 1.0001 + 2.25 * 0x1p-53 * 1.0001);
}

TEST(certified, subnormal_results_are_covered) {
  const Certified tiny = Certified::exact(0x1p-540);
  expect_inside("*", tiny * tiny, Interval(0x1p-540) * Interval(0x1p-540));
  const Certified odd = Certified::exact(0x1.8p-537);
  expect_inside("*", odd * odd, Interval(0x1.8p-537) * Interval(0x1.8p-537));
}

TEST(certified, what_is_undefined_certifies_nothing) {
  const Certified wide{1, 2};
  for (const Certified c :
       {Certified::exact(1) / wide, sqrt(-Certified::exact(1)), sqrt(wide), exp(Certified::exact(800)),
        exp(Certified{0, 3}), Certified::exact(NAN) + wide, Certified::exact(INFINITY) * wide}) {
    EXPECT_FALSE(c.error <= 1e300) << c.value;
  }
}

}  // namespace
}  // namespace assay
