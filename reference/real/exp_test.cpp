// certified_exp against MPFR on adversarial arguments, its special values, and bit equality of all targets.
#include "reference/real/exp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "hwy/targets.h"
#include "reference/error.hpp"
#include "reference/real/exp_array.hpp"
#include "reference/real/mp.hpp"

namespace assay {
namespace {

constexpr std::uint64_t kSeed = 20260501;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Arguments around every breakpoint (k + 1/2) ln 2 of the reduction, its neighbours, and random ones.
std::vector<std::pair<double, double>> arguments() {
  std::vector<std::pair<double, double>> list;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int k = -1021; k <= 1022; ++k) {
    const double breakpoint = (k + 0.5) * 0.69314718055994530942;
    if (breakpoint < kExpMin || breakpoint > kExpMax) continue;
    const double low = kExpLowMax * unit(random);
    list.insert(list.end(), {{breakpoint, 0.0},
                             {std::nextafter(breakpoint, kInf), kExpLowMax},
                             {std::nextafter(breakpoint, -kInf), -kExpLowMax},
                             {k * 0.69314718055994530942, low}});
  }
  for (int i = 0; i < 20000; ++i) list.push_back({708 * unit(random), kExpLowMax * unit(random)});
  for (int i = 0; i < 20000; ++i) list.push_back({std::ldexp(unit(random), -(i % 70)), 0.0});
  list.insert(list.end(), {{kExpMin, 0.0}, {kExpMax, 0.0}, {0.0, 0.0}, {-0.0, 0.0}, {0.0, kExpLowMax}});
  return list;
}

TEST(certified_exp, stays_within_its_proven_error_against_mpfr) {
  double worst = 0;
  for (const auto& [hi, lo] : arguments()) {
    const mp::Interval exact = exp(mp::Interval(hi) + mp::Interval(lo));
    const double error = ((mp::Interval(certified_exp(hi, lo)) - exact) / exact).magnitude();
    ASSERT_LE(error, kExpRelativeError) << "hi " << hi << " lo " << lo;
    worst = std::max(worst, error);
  }
  EXPECT_GE(worst, 0.9 * 0x1p-53) << "an argument set that never comes near half an ulp tests nothing";
}

TEST(certified_exp, stays_within_its_proven_error_for_every_f16_argument) {
  int seen = 0;
  for (int code = 0; code < 0x10000; ++code) {
    const int exponent = (code >> 10) & 31;
    const double significand = (code & 1023) + (exponent == 0 ? 0 : 1024);
    const double magnitude = std::ldexp(significand, std::max(exponent, 1) - 25);
    const double x = (code & 0x8000) != 0 ? -magnitude : magnitude;
    if (exponent == 31 || x < kExpMin || x > kExpMax) continue;
    const mp::Interval exact = exp(mp::Interval(x));
    ASSERT_LE(((mp::Interval(certified_exp(x)) - exact) / exact).magnitude(), kExpRelativeError) << x;
    ++seen;
  }
  EXPECT_EQ(seen, 24971 + 24969);  // 0 .. 709 and -0 .. -708
}

TEST(certified_exp, has_documented_values_outside_its_range) {
  EXPECT_EQ(certified_exp(-kInf), 0.0);
  EXPECT_EQ(certified_exp(std::nextafter(kExpMin, -kInf)), 0.0);
  EXPECT_GT(certified_exp(kExpMin), std::numeric_limits<double>::min());
  EXPECT_EQ(certified_exp(-1e308), 0.0);
  EXPECT_EQ(certified_exp(kInf), kInf);
  EXPECT_EQ(certified_exp(std::nextafter(kExpMax, kInf)), kInf);
  EXPECT_LT(certified_exp(kExpMax), kInf);
  EXPECT_EQ(certified_exp(0.0), 1.0);
  EXPECT_EQ(certified_exp(-0.0), 1.0);
  EXPECT_TRUE(std::isnan(certified_exp(kNan)));
  EXPECT_TRUE(std::isnan(certified_exp(-kNan, 1e-20)));
  EXPECT_FALSE(std::isnan(certified_exp(-kInf, kExpLowMax)));
}

TEST(certified_exp, has_the_same_bits_on_every_target) {
  std::vector<double> hi;
  std::vector<double> lo;
  for (const auto& [h, l] : arguments()) hi.push_back(h), lo.push_back(l);
  for (double special : {-kInf, kInf, kNan, -kNan, -1e300, 1e300, 5e-324, -709.0, 709.5}) {
    hi.push_back(special);
    lo.push_back(0);
  }
  int targets = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    ++targets;
    std::vector<double> out(hi.size());
    certified_exp(hi, lo, out);
    for (std::size_t i = 0; i < hi.size(); ++i) {
      const double want = certified_exp(hi[i], lo[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(out[i]));
      } else {
        ASSERT_EQ(std::bit_cast<std::uint64_t>(out[i]), std::bit_cast<std::uint64_t>(want))
            << hwy::TargetName(target) << " hi " << hi[i] << " lo " << lo[i];
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(targets, 1);
}

TEST(certified_exp, refuses_arrays_that_do_not_fit) {
  std::vector<double> four(4);
  std::vector<double> three(3);
  EXPECT_THROW(certified_exp(four, {}, three), InputError);
  EXPECT_THROW(certified_exp(four, three, four), InputError);
}

}  // namespace
}  // namespace assay
