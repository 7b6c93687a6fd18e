// Exact integer dots, the exactness check of double dots, the row-grid split, and Dot2 against MPFR.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "hwy/targets.h"
#include "reference/error.hpp"
#include "reference/real/dot2.hpp"
#include "reference/real/exact_dot.hpp"
#include "reference/real/mp.hpp"

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

/// An integer of n bits in a double (Interval is wide enough for 128), to compare int128 with MPFR.
Interval interval(Int128 x) {
  const auto high = static_cast<std::int64_t>(x >> 64);
  const auto low = static_cast<std::uint64_t>(x);
  return Interval(static_cast<double>(high >> 32)) * Interval(0x1p96) +
         Interval(static_cast<double>(high & 0xFFFFFFFF)) * Interval(0x1p64) +
         Interval(static_cast<double>(low >> 32)) * Interval(0x1p32) +
         Interval(static_cast<double>(low & 0xFFFFFFFF));
}

TEST(exact_dot, int64_equals_int128_for_every_length_and_target) {
  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<std::int32_t> element(-229376, 229376);  // e4m3fn in units of 2^-9
  for (const std::size_t n : {0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 4096, 4099}) {
    std::vector<std::int32_t> a(n), b(n);
    std::generate(a.begin(), a.end(), [&] { return element(random); });
    std::generate(b.begin(), b.end(), [&] { return element(random); });
    if (n == 4096) std::fill(a.begin(), a.end(), -229376), std::fill(b.begin(), b.end(), 229376);
    Int128 want = 0;
    for (std::size_t i = 0; i < n; ++i) want += static_cast<Int128>(a[i]) * b[i];
    on_every_target([&](const char* target) {
      ASSERT_TRUE(static_cast<Int128>(dot_int64(a, b)) == want) << target << " n " << n;
    });
  }
}

TEST(exact_dot, int128_equals_mpfr_at_the_extremes_of_e5m2_and_f16) {
  std::mt19937_64 random(kSeed);
  for (const std::int64_t largest : {std::int64_t{57344} << 16, std::int64_t{65504} << 24}) {
    std::uniform_int_distribution<std::int64_t> element(-largest, largest);
    std::vector<std::int64_t> a(3000), b(3000);
    std::generate(a.begin(), a.end(), [&] { return element(random); });
    std::generate(b.begin(), b.end(), [&] { return element(random); });
    for (int i = 0; i < 1000; ++i) a[i] = b[i] = largest;
    Interval want(0.0);
    for (std::size_t i = 0; i < a.size(); ++i) {
      want = want + Interval(static_cast<double>(a[i])) * Interval(static_cast<double>(b[i]));
    }
    const Int128 got = dot_int128(a, b);
    EXPECT_EQ((interval(got) - want).magnitude(), 0);
    EXPECT_TRUE(want.contains(round_to_double(got, 0)) || want.lower() <= round_to_double(got, 0));
    EXPECT_EQ(round_to_double(got, -48), std::ldexp(round_to_double(got, 0), -48));
  }
}

TEST(exact_dot, rounding_of_an_int128_is_to_nearest_even) {
  const Int128 big = Int128{1} << 100;
  EXPECT_EQ(round_to_double(big + (Int128{1} << 47), 0), 0x1p100);               // tie, to even
  EXPECT_EQ(round_to_double(big + (Int128{1} << 47) + 1, 0), 0x1p100 + 0x1p48);  // above the tie
  EXPECT_EQ(round_to_double(big + (Int128{3} << 47), 0), 0x1p100 + 2 * 0x1p48);  // tie, to even
  EXPECT_EQ(round_to_double(-(big + (Int128{1} << 47) + 1), -100), -(1 + 0x1p-52));
}

TEST(exact_dot, rows_that_do_not_fit_are_refused) {
  std::vector<std::int32_t> three(3), four(4);
  EXPECT_THROW(dot_int64(three, four), InputError);
  std::vector<double> x(3), y(4), bad = {1, INFINITY, 2};
  EXPECT_THROW(dot2(x, y), InputError);
  EXPECT_THROW(split_on_row_grid(x, y, x), InputError);
  std::vector<double> high(3), low(3);
  EXPECT_THROW(split_on_row_grid(bad, high, low), InputError);
}

TEST(exactness_check, the_grid_of_a_row_is_its_lowest_set_bit) {
  EXPECT_EQ(row_grid(std::vector<double>{1, 0.75, 6}).lsb, 0.25);
  EXPECT_EQ(row_grid(std::vector<double>{1, 0.75, -6}).sum_abs, 7.75);
  EXPECT_EQ(row_grid(std::vector<double>{0, 3 * 0x1p-1074}).lsb, 0x1p-1074);
  EXPECT_EQ(row_grid(std::vector<double>{0x1p-1073, 0}).lsb, 0x1p-1073);
  EXPECT_EQ(row_grid(std::vector<double>{0, -0.0}).lsb, INFINITY);
  EXPECT_TRUE(std::isnan(row_grid(std::vector<double>{1, NAN}).lsb));
  EXPECT_TRUE(std::isnan(row_grid(std::vector<float>{1, INFINITY, 2}).lsb));
  EXPECT_EQ(row_grid(std::vector<float>{0x1p-149f}).lsb, 0x1p-149);
}

TEST(exactness_check, it_accepts_up_to_the_last_bit_and_not_beyond) {
  // 2^30 * (2^23 - 1) / 2^0 units: below 2^53. One more in k is 2^53 exactly and is refused.
  const RowGrid q = row_grid(std::vector<double>{0x1p30 - 1, 1});
  EXPECT_TRUE(double_dot_is_exact(q, 0x1p23 - 1, 1));
  EXPECT_FALSE(double_dot_is_exact(q, 0x1p23, 1));
  EXPECT_FALSE(double_dot_is_exact(q, NAN, 1));
  EXPECT_FALSE(double_dot_is_exact(q, INFINITY, 1));
  EXPECT_FALSE(double_dot_is_exact(q, 1, NAN));
  EXPECT_FALSE(double_dot_is_exact(row_grid(std::vector<double>{NAN}), 1, 1));
  EXPECT_FALSE(double_dot_is_exact(row_grid(std::vector<double>{0x1p-600}), 1, 0x1p-600)) << "underflow";
  EXPECT_TRUE(double_dot_is_exact(row_grid(std::vector<double>{0, 0}), 448, 0x1p-9));
  EXPECT_TRUE(double_dot_is_exact(q, 0, INFINITY));
  EXPECT_FALSE(double_dot_is_exact(row_grid(std::vector<double>{0, 0}), INFINITY, 1));
}

TEST(exactness_check, an_accepted_double_dot_has_no_error_in_any_order) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  int accepted = 0;
  int split_needed = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t d = trial % 2 == 0 ? 128 : 64;
    std::vector<double> q(d), k(d), high(d), low(d);
    const double scale = std::ldexp(1.0, trial % 21 - 10);
    for (double& x : q) x = static_cast<float>(normal(random) * scale);  // any f32 query
    for (double& x : k) {  // trial odd: e4m3-like integers; even: f16 between 2^-6 and 2^2
      x = trial % 2 == 1
              ? static_cast<double>(random() % 897) - 448
              : std::ldexp(1024 + static_cast<double>(random() % 1024), -16 + static_cast<int>(random() % 8));
      if (random() % 2 == 0) x = -x;
    }
    split_on_row_grid(q, high, low);
    const RowGrid grid_k = row_grid(k);
    std::vector<std::vector<double>> slices = {high, low};
    if (double_dot_is_exact(row_grid(q), grid_k.max_abs, grid_k.lsb)) {
      slices = {q};
    } else {
      ++split_needed;
    }
    Interval sum(0.0);
    for (auto& slice : slices) {
      ASSERT_TRUE(double_dot_is_exact(row_grid(slice), grid_k.max_abs, grid_k.lsb)) << "trial " << trial;
      std::vector<std::size_t> order(d);
      for (std::size_t i = 0; i < d; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      double dot = 0;
      for (const std::size_t i : order) dot += slice[i] * k[i];
      ASSERT_EQ((exact_dot(slice, k) - Interval(dot)).magnitude(), 0);
      sum = sum + Interval(dot);
      ++accepted;
    }
    ASSERT_EQ((exact_dot(q, k) - sum).magnitude(), 0);
  }
  EXPECT_GE(accepted, 400);
  EXPECT_GE(split_needed, 50) << "the split was never exercised";
}

TEST(exactness_check, what_it_refuses_can_really_be_inexact) {
  const std::vector<double> q = {0x1p53, 1, 1};
  const std::vector<double> k = {1, 1, 1};
  const RowGrid grid = row_grid(k);
  EXPECT_FALSE(double_dot_is_exact(row_grid(q), grid.max_abs, grid.lsb));
  EXPECT_GT((exact_dot(q, k) - Interval((q[0] + q[1]) + q[2])).magnitude(), 0);
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
      // lanes.
      const double mu = static_cast<double>(n + 2 * 4 * 8) * kUnitRoundoff;
      ASSERT_LE(got.error, 2 * mu * mu * sum_abs + 1e-300) << target;
    });
    if (!((Interval(naive) - exact).magnitude() <= dot2(x, y).error)) ++naive_wrong;
  }
  EXPECT_GE(worst_condition, 1e28);
  EXPECT_GE(naive_wrong, 290) << "a plain dot should not satisfy the bound";
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
