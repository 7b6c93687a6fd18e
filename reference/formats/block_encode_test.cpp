// What block quantisers do with zeros, NaN, Inf, subnormals, extremes and ties.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference/formats/format.hpp"

namespace assay {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

constexpr const char* kInline[] = {"q8_0", "q4_0",   "q4_1",       "q5_0",
                                   "q5_1", "iq4_nl", "tq3_0_c2s1", "tq3_0_c2"};
constexpr const char* kAll[] = {"q8_0",           "q4_0",           "q4_1",          "q5_0",
                                "q5_1",           "iq4_nl",         "tq3_0_c2s1",    "tq3_0_c2",
                                "mxfp4",          "mxfp8",          "mxfp8_e5m2",    "nvfp4",
                                "nvfp4_swizzled", "mxfp4_ggml",     "int4_g32_bf16", "int4_g32_packed",
                                "int4_ch_tensor", "int4_g32_tensor"};

std::vector<double> through(const char* name, const std::vector<float>& x, const EncodePolicy& policy = {}) {
  return decode_tensor(encode_tensor(format(name), {static_cast<std::int64_t>(x.size())}, x, policy));
}

TEST(Blocks, an_all_zero_block_decodes_to_zero_and_stays_finite) {
  for (const char* name : kAll) {
    for (const float zero : {0.0F, -0.0F}) {
      for (const double v : through(name, std::vector<float>(64, zero))) EXPECT_EQ(v, 0.0) << name;
    }
  }
}

TEST(Blocks, a_single_nan_poisons_its_block_and_no_other) {
  for (const char* name : kInline) {
    std::vector<float> x(96, 1.5F);
    x[40] = kNan;
    const std::vector<double> y = through(name, x);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i >= 32 && i < 64) << name << i;
    x[40] = -kInf;
    EXPECT_TRUE(std::isnan(through(name, x)[40])) << name;
  }
  std::vector<float> x(64, 1.5F);
  x[40] = kNan;
  EXPECT_TRUE(std::isnan(through("mxfp4", x)[33]));
  EXPECT_EQ(through("mxfp4", x)[0], 1.5);
  EXPECT_TRUE(std::isnan(through("mxfp8", x)[40]));
  EXPECT_EQ(through("mxfp8", x)[41], 1.5);  // the element itself can hold the NaN
  EXPECT_TRUE(std::isnan(through("nvfp4", x)[33]));
  EXPECT_FALSE(std::isnan(through("nvfp4", x)[31]));
  EXPECT_GT(through("mxfp4_ggml", x)[40], kMax);  // no NaN to become: beyond f32 instead
}

TEST(Blocks, nan_policy_zero_makes_nan_count_as_zero) {
  for (const char* name : kAll) {
    std::vector<float> with_nan(32, 1.25F);
    std::vector<float> with_zero = with_nan;
    with_nan[9] = kNan;
    with_zero[9] = 0;
    const EncodePolicy policy{.nan = NanPolicy::zero};
    EXPECT_EQ(through(name, with_nan, policy), through(name, with_zero, policy)) << name;
  }
}

TEST(Blocks, inf_saturates_in_the_ocp_formats_and_becomes_visible_under_ieee_overflow) {
  std::vector<float> x(32, 2.0F);
  x[3] = -kInf;
  EXPECT_EQ(through("mxfp4", x)[3], -6.0 * 0.5);  // 2.0 -> exponent 1 - 2
  EXPECT_EQ(through("mxfp8", x)[3], -448.0 * std::pow(2.0, 1 - 8));
  EXPECT_TRUE(std::isnan(through("mxfp4", x, {.overflow = Overflow::ieee})[0]));
  EXPECT_TRUE(std::isnan(through("mxfp8", x, {.overflow = Overflow::ieee})[3]));
  EXPECT_EQ(through("mxfp8_e5m2", x, {.overflow = Overflow::ieee})[3], -kInf);
  EXPECT_TRUE(std::isnan(through("nvfp4", x, {.overflow = Overflow::ieee})[0]));
  EXPECT_EQ(through("nvfp4", x)[3], -2.0);
}

TEST(Blocks, subnormal_and_extreme_inputs_stay_finite_where_their_scale_is) {
  for (const char* name : kAll) {
    for (const float magnitude : {0x1p-149F, 0x1p-126F, 1e-20F, 1e4F}) {
      std::vector<float> x(32, magnitude);
      x[1] = -magnitude;
      for (const double v : through(name, x)) {
        EXPECT_TRUE(std::isfinite(v)) << name << " " << magnitude;
        // 0x1p-124: the smallest scale, an e8m0 of 2^-127, times the largest code, 6, and as much again.
        EXPECT_LE(std::fabs(v), 8.0 * magnitude + 0x1p-124) << name << " " << magnitude;
      }
    }
  }
  // An f16 scale overflows to Inf, as ggml's does; an e8m0 one does not.
  EXPECT_FALSE(std::isfinite(through("q8_0", std::vector<float>(32, kMax))[0]));
  EXPECT_EQ(through("mxfp4", std::vector<float>(32, kMax))[0], 0x1.8p127);
  EXPECT_EQ(through("mxfp8", std::vector<float>(32, -kMax))[0], -0x1.Cp127);
}

TEST(Blocks, ties_go_where_each_quantiser_sends_them) {
  std::vector<float> x(32, 0.0F);
  x[0] = 127;
  x[1] = 2.5F;
  x[2] = -2.5F;
  EXPECT_EQ(through("q8_0", x)[1], 3);  // away from zero
  EXPECT_EQ(through("q8_0", x)[2], -3);
  EXPECT_EQ(through("q8_0", x, {.rounding = Rounding::toward_zero})[1], 2);
  EXPECT_EQ(through("q8_0", x, {.rounding = Rounding::toward_negative})[2], -3);
  x[0] = -8;
  EXPECT_EQ(through("q4_0", x)[1], 3);  // upwards in x / d, and d is positive here
  EXPECT_EQ(through("q4_0", x)[2], -2);
  x[0] = 8;  // now d = -1: upwards in x / d is downwards in x
  EXPECT_EQ(through("q4_0", x)[1], 2);
  EXPECT_EQ(through("q4_0", x)[2], -3);
  x[0] = 6;
  EXPECT_EQ(through("mxfp4", x)[1], 2);       // ties to even
  EXPECT_EQ(through("mxfp4_ggml", x)[1], 2);  // to the smaller magnitude
  x[1] = 3.5F;
  EXPECT_EQ(through("mxfp4", x)[1], 4);
  EXPECT_EQ(through("mxfp4_ggml", x)[1], 3);
}

TEST(Blocks, q4_0_takes_its_scale_from_the_signed_element_of_largest_magnitude) {
  std::vector<float> x(32, 0.0F);
  x[4] = 3.0F;
  x[5] = -2.9F;
  const Encoded tensor = encode_tensor(format("q4_0"), {32}, x);
  const std::vector<std::byte>& bytes = tensor.planes[0].bytes;
  const unsigned d = static_cast<unsigned>(bytes[0]) | static_cast<unsigned>(bytes[1]) << 8;
  EXPECT_EQ(decode(scalar_format("f16"), d), 3.0 / -8);
  EXPECT_EQ(decode_tensor(tensor)[4], 3.0);  // so the extreme itself is exact
}

}  // namespace
}  // namespace assay
