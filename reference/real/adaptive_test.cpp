// Certified arithmetic: the truth never leaves the interval, and escalation stops at the first path that
// decides.
#include "reference/real/adaptive.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "reference/real/adaptive_dot.hpp"
#include "reference/real/double_double_functions.hpp"
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
  const Certified a{1.5, 0x1p-60};
  const Certified b{0.75, 0x1p-60};
  EXPECT_LE((a * b).error, 0x1p-60 * 2.25 * 1.0001 + 1.125 * 0x1p-53 * 1.0001);
  EXPECT_LE((a / b).error, (0x1p-60 + 2 * 0x1p-60) / 0.75 * 1.0001 + 2 * 0x1p-53 * 1.0001);
  EXPECT_LE(exp(Certified::exact(1.25)).error, std::exp(1.25) * kExpRelativeError * 1.0001);
  EXPECT_LE((a + b).error, 0x1p-59 * 1.0001 + 2.25 * 0x1p-53 * 1.0001);
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
    EXPECT_EQ(at_most(c, 5), Answer::unknown);
  }
}

TEST(certified, at_most_answers_only_what_it_knows) {
  EXPECT_EQ(at_most({1, 0x1p-10}, 2), Answer::yes);
  EXPECT_EQ(at_most({3, 0x1p-10}, 2), Answer::no);
  EXPECT_EQ(at_most({2, 0x1p-10}, 2), Answer::unknown);
}

bool sign_known(Certified c) { return at_most(c, 0) != Answer::unknown; }

/// Is e^x <= limit? The sign of e^x - limit by double, double-double or a 320-bit interval, whichever first
/// suffices.
Escalated exp_minus(double x, double limit) {
  return escalate(
      sign_known, [&] { return exp(Certified::exact(x)) - Certified::exact(limit); },
      [&] {
        const DoubleDouble value = exp(DoubleDouble(x));
        const DoubleDouble difference = value - DoubleDouble(limit);
        const double error =
            kExpErrorDoubleDouble * value.hi * 1.01 + kAddError * std::abs(difference.hi) * 1.01;
        return Certified{difference.hi, outward(std::abs(difference.lo) + error)};
      },
      [&] { return (exp(Interval(x)) - Interval(limit)).certified(); });
}

TEST(escalation, the_cheapest_path_that_decides_is_the_last_to_run) {
  int ran = 0;
  const auto path = [&](double error) { return [&ran, error] { return ++ran, Certified{1, error}; }; };
  const auto below = [](double limit) { return [limit](Certified c) { return c.error <= limit; }; };
  const Escalated first = escalate(below(1), path(0.5), path(0.1), path(0.01));
  EXPECT_TRUE(first.decided && first.level == 0 && ran == 1);
  ran = 0;
  const Escalated third = escalate(below(0.05), path(0.5), path(0.1), path(0.01));
  EXPECT_TRUE(third.decided && third.level == 2 && ran == 3);
  const Escalated none = escalate(below(0.001), path(0.5), path(NAN));
  EXPECT_FALSE(none.decided);
  EXPECT_EQ(none.level, 1);
}

TEST(escalation, a_close_exp_needs_the_wider_path_and_a_distant_one_does_not) {
  const double x = 1.25;
  const double value = certified_exp(x);
  EXPECT_EQ(exp_minus(x, 2 * value).level, 0);
  EXPECT_EQ(exp_minus(x, value * (1 + 0x1p-50)).level, 0);
  EXPECT_EQ(exp_minus(x, value).level, 1);
  // e^x - 1 ~ x: 2^-70 is above the error of double-double, 2^-120 is below it.
  EXPECT_EQ(exp_minus(0x1p-70, 1).level, 1);
  const Escalated widest = exp_minus(0x1p-120, 1);
  EXPECT_EQ(widest.level, 2);
  EXPECT_EQ(at_most(widest.certified, 0), Answer::no);
}

TEST(escalation, a_dot_that_cancels_beyond_dot2_goes_to_intervals) {
  const std::vector<double> x = {0x1p100, 1, -0x1p100, 0x1p-60, 3, -1};
  const std::vector<double> y = {0x1p100, 1, 0x1p100, 0x1p-60, 0x1p-150, 1};
  const Escalated near = adaptive_dot(x, y, sign_known);
  EXPECT_TRUE(near.decided);
  EXPECT_EQ(near.level, 1);
  EXPECT_EQ(near.certified.value, 0x1p-120 + 0x1.8p-149);
  const Escalated far = adaptive_dot(y, y, sign_known);
  EXPECT_EQ(far.level, 0);
  EXPECT_EQ(at_most(far.certified, 0), Answer::no);
}

}  // namespace
}  // namespace assay
