// The special functions of NVIDIA's multi-function unit against what devices gave.
#include "reference/replay/special_functions.hpp"
#include "reference/fingerprint.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace assay {
namespace {

// What an H200 gave (reports/results/cards/special_functions.md: all inputs).
TEST(SpecialFunctions, are_those_of_the_device) {
  constexpr std::array<std::array<std::uint32_t, 2>, 12> kEx2 = {{{0x3f800001, 0x40000001},
                                                                  {0xbf800000, 0x3f000000},
                                                                  {0xbf800001, 0x3efffffe},
                                                                  {0xbf7fffff, 0x3f000000},
                                                                  {0xbf000000, 0x3f3504f2},
                                                                  {0xbe800000, 0x3f5744fc},
                                                                  {0xbe000000, 0x3f6ac0c5},
                                                                  {0xc0000001, 0x3e7ffffc},
                                                                  {0xc1000001, 0x3b7ffff4},
                                                                  {0xc2800001, 0x1f7fffa6},
                                                                  {0xc2f80001, 0x017fffa6},
                                                                  {0xc2fc0001, 0}}};
  for (const auto& [x, y] : kEx2)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(ex2_approx_ftz(std::bit_cast<float>(x))), y) << std::hex << x;
  constexpr std::array<std::array<std::uint32_t, 2>, 8> kLg2 = {{{0x3f800000, 0},
                                                                 {0x3f800001, 0x3495f600},
                                                                 {0x3fc00000, 0x3f15c01b},
                                                                 {0x3fffffff, 0x3f7fffff},
                                                                 {0x40000001, 0x3f800002},
                                                                 {0x40400000, 0x3fcae00d},
                                                                 {0x40800001, 0x40000001},
                                                                 {0x43400000, 0x40f2b803}}};
  for (const auto& [x, y] : kLg2)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(lg2_approx_ftz(std::bit_cast<float>(x)).value_or(-1)), y)
        << std::hex << x;
  // rcp.approx of an H100: its mantissas in [1, 2), mostly those that are not the quotient's nearest; all
  // 2^23 were compared.
  constexpr std::array<std::array<std::uint32_t, 2>, 13> kRcp = {{{0x3f800000, 0x3f800000},
                                                                  {0x3f800001, 0x3f7ffffe},
                                                                  {0x3fc164d8, 0x3f296fc2},
                                                                  {0x3fdbc8fb, 0x3f151753},
                                                                  {0x3f9cfb10, 0x3f50bd31},
                                                                  {0x3fc78c28, 0x3f243627},
                                                                  {0x3f926a1e, 0x3f5fcd8e},
                                                                  {0x3fa06f5c, 0x3f4c3ea6},
                                                                  {0x3f807451, 0x3f7f1830},
                                                                  {0x3f815c33, 0x3f7d4eed},
                                                                  {0x3faa7591, 0x3f403bd0},
                                                                  {0x3fb2ea69, 0x3f3725d3},
                                                                  {0x40400000, 0x3eaaaaab}}};
  for (const auto& [x, y] : kRcp)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(rcp_approx_ftz(std::bit_cast<float>(x))), y) << std::hex << x;
  EXPECT_EQ(rcp_approx_ftz(0x1p-127f), INFINITY);
  EXPECT_EQ(rcp_approx_ftz(-0x1p127f), 0);
  EXPECT_EQ(rcp_approx_ftz(-0x1p126f), -0x1p-126f);
  EXPECT_TRUE(std::isnan(rcp_approx_ftz(std::nanf(""))));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(exp2_subnormal(std::bit_cast<float>(0xc2fc0001U))), 0x7fffd3U);
  EXPECT_FALSE(lg2_approx_ftz(0.75f));
  EXPECT_TRUE(std::isnan(ex2_approx_ftz(std::nanf(""))));
}

// All 2^24 numbers of [1, 4) as an H100 answered (driver 580.159.04); its other exponents were compared with
// these there.
TEST(SpecialFunctions, roots_are_those_of_the_device_in_every_bit) {
  Fingerprint rsqrt, sqrt;
  for (std::uint32_t x = 0x3f800000; x < 0x40800000; ++x) {
    const float a = rsqrt_approx_ftz(std::bit_cast<float>(x)), b = sqrt_approx_ftz(std::bit_cast<float>(x));
    rsqrt.add(&a, sizeof a);
    sqrt.add(&b, sizeof b);
  }
  EXPECT_EQ(rsqrt.value(), 0x7fd5ee41cc331920U);
  EXPECT_EQ(sqrt.value(), 0x8b4b6f02345fa9bdU);
  EXPECT_EQ(rsqrt_approx_ftz(0x1p-126f), 0x1p63f);
  EXPECT_EQ(rsqrt_approx_ftz(-0x1p-127f), -INFINITY);
  EXPECT_EQ(rsqrt_approx_ftz(INFINITY), 0);
  EXPECT_EQ(sqrt_approx_ftz(0x1p-126f), 0x1p-63f);
  EXPECT_TRUE(std::signbit(sqrt_approx_ftz(-0x1p-127f)));
  EXPECT_EQ(sqrt_approx_ftz(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(rsqrt_approx_ftz(-1)));
  EXPECT_TRUE(std::isnan(sqrt_approx_ftz(-1)));
}

}  // namespace
}  // namespace assay
