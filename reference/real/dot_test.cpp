// The grid of a row, and Dot2 against MPFR.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "hwy/targets.h"
#include "reference/error.hpp"
#include "reference/real/dot2.hpp"
#include "reference/real/mp.hpp"
#include "reference/real/row_grid.hpp"

namespace assay {
namespace {

using mp::Interval;

constexpr std::uint64_t kSeed = 4711;

/// Runs body once per vector target of this machine and build.
template <class Body>
void on_every_target(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
}

Interval exact_dot(std::span<const double> x, std::span<const double> y) {
  Interval sum(0.0);
  for (std::size_t i = 0; i < x.size(); ++i) sum = sum + Interval(x[i]) * Interval(y[i]);
  return sum;
}

TEST(row_grid, the_grid_of_a_row_is_its_lowest_set_bit) {
  EXPECT_EQ(row_grid(std::vector<double>{1, 0.75, 6}).lsb, 0.25);
  EXPECT_EQ(row_grid(std::vector<double>{1, 0.75, -6}).sum_abs, 7.75);
  EXPECT_EQ(row_grid(std::vector<double>{0, 3 * 0x1p-1074}).lsb, 0x1p-1074);
  EXPECT_EQ(row_grid(std::vector<double>{0x1p-1073, 0}).lsb, 0x1p-1073);
  EXPECT_EQ(row_grid(std::vector<double>{0, -0.0}).lsb, INFINITY);
  EXPECT_TRUE(std::isnan(row_grid(std::vector<double>{1, NAN}).lsb));
  EXPECT_TRUE(std::isnan(row_grid(std::vector<double>{1, INFINITY, 2}).lsb));
  EXPECT_EQ(row_grid(std::vector<double>{0x1p-149}).lsb, 0x1p-149);
}

/// x, y with x.y of condition number about `condition` (the construction of Ogita, Rump and Oishi, section 6:
/// half the terms random with large exponents, the other half chosen to cancel the sum so far).
void ill_conditioned(std::size_t n, double condition, std::mt19937_64& random, std::vector<double>& x,
                     std::vector<double>& y) {
  std::uniform_real_distribution<double> unit(-1, 1);
  const int reach = static_cast<int>(std::log2(condition) / 2);
  x.assign(n, 0);
  y.assign(n, 0);
  for (std::size_t i = 0; i < n / 2; ++i) {
    const int exponent = i == 0 ? reach : i == 1 ? 0 : static_cast<int>(random() % (reach + 1));
    x[i] = std::ldexp(unit(random), exponent);
    y[i] = std::ldexp(unit(random), exponent);
  }
  Interval sum = exact_dot(x, y);
  for (std::size_t i = n / 2; i < n; ++i) {
    const int exponent = static_cast<int>(reach * (n - 1 - i) / (n - n / 2));
    x[i] = std::ldexp(unit(random), exponent);
    if (x[i] == 0) x[i] = 1;
    const double target = std::ldexp(unit(random), exponent);
    y[i] = ((Interval(target) - sum) / Interval(x[i])).upper();
    sum = sum + Interval(x[i]) * Interval(y[i]);
  }
  for (std::size_t i = n - 1; i > 0; --i) {
    const std::size_t j = random() % (i + 1);
    std::swap(x[i], x[j]);
    std::swap(y[i], y[j]);
  }
}

TEST(dot2, its_bound_holds_on_ill_conditioned_dots_and_is_not_vacuous) {
  std::mt19937_64 random(kSeed);
  std::vector<double> x, y;
  double worst_condition = 0;
  int naive_wrong = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t n = 6 + random() % 300;
    ill_conditioned(n, std::pow(10.0, 2 + trial % 29), random, x, y);
    const Interval exact = exact_dot(x, y);
    double sum_abs = 0;
    double naive = 0;
    for (std::size_t i = 0; i < n; ++i) sum_abs += std::abs(x[i] * y[i]), naive += x[i] * y[i];
    worst_condition = std::max(worst_condition, 2 * sum_abs / exact.magnitude());
    on_every_target([&](const char* target) {
      const Dot2Result got = dot2(x, y);
      const double error = (Interval(got.value) + Interval(got.tail) - exact).magnitude();
      ASSERT_LE(error, got.error) << target << " n " << n;
      const Certified certified = got.certified();
      ASSERT_LE((Interval(certified.value) - exact).magnitude(), certified.error) << target;
      // gamma_n^2 |x|.|y| is what the bound may reach: n u * (n u + u) |x|.|y|, with the extra terms of the
      // lanes; 0x1p-1022 for each product that may underflow.
      const double mu = static_cast<double>(n + 2 * 4 * 8) * kUnitRoundoff;
      ASSERT_LE(got.error, 2 * mu * mu * sum_abs + static_cast<double>(n) * 0x1p-1022) << target;
    });
    if (!((Interval(naive) - exact).magnitude() <= dot2(x, y).error)) ++naive_wrong;
  }
  EXPECT_GE(worst_condition, 1e28);
  EXPECT_GE(naive_wrong, 290) << "a plain dot should not satisfy the bound";
}

TEST(dot2, every_target_gives_the_same_bits) {
  std::mt19937_64 random(kSeed);
  std::vector<double> x, y;
  for (int trial = 0; trial < 300; ++trial) {
    ill_conditioned(6 + random() % 300, std::pow(10.0, 2 + trial % 29), random, x, y);
    const Dot2Result first = dot2(x, y);
    on_every_target([&](const char* target) {
      const Dot2Result got = dot2(x, y);
      EXPECT_EQ(got.value, first.value) << target;
      EXPECT_EQ(got.tail, first.tail) << target;
      EXPECT_EQ(got.error, first.error) << target;
    });
  }
}

TEST(dot2, its_bound_holds_for_long_rows_and_under_underflow) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  for (const int exponent : {0, -200, -500, -530, -537}) {
    std::vector<double> x(4096 + 5), y(4096 + 5);
    for (double& v : x) v = std::ldexp(normal(random), exponent);
    for (double& v : y) v = std::ldexp(normal(random), exponent);
    on_every_target([&](const char* target) {
      const Dot2Result got = dot2(x, y);
      const Interval exact = exact_dot(x, y);
      ASSERT_LE((Interval(got.value) + Interval(got.tail) - exact).magnitude(), got.error)
          << target << exponent;
    });
  }
}

TEST(dot2, rows_that_do_not_fit_are_refused) {
  const std::vector<double> x(3), y(4);
  EXPECT_THROW(dot2(x, y), InputError);
}

TEST(dot2, what_is_not_finite_certifies_nothing) {
  for (const double bad : std::vector<double>{NAN, INFINITY, -INFINITY, 1e200}) {
    const std::vector<double> x = {1, bad, 3};
    const std::vector<double> y = {1, bad, 3};
    EXPECT_FALSE(dot2(x, y).certified().error <= 1e300) << bad;
  }
  EXPECT_EQ(dot2({}, {}).value, 0);
}

}  // namespace
}  // namespace assay
