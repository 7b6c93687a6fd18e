// Scalar codecs on every code, against expectations written out from the formats' definitions.
#include "backends/cpu/codecs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace assay_cpu {
namespace {

constexpr const SmallFloat* kAll[] = {&kE4m3fn, &kE4m3fnuz, &kE5m2, &kE5m2fnuz, &kE2m1, &kE3m2, &kE2m3};

std::uint32_t code_count(const SmallFloat& format) {
  return 1U << (1 + format.exponent_bits + format.fraction_bits);
}

TEST(SmallFloats, have_the_values_of_their_definition) {
  EXPECT_EQ(e4m3fn_value(0x7E), 448.0F);
  EXPECT_EQ(e4m3fn_value(0x7D), 416.0F);
  EXPECT_EQ(e4m3fn_value(0x01), 0x1p-9F);
  EXPECT_EQ(e4m3fn_value(0x08), 0x1p-6F);
  EXPECT_TRUE(std::isnan(e4m3fn_value(0x7F)) && std::isnan(e4m3fn_value(0xFF)));
  EXPECT_EQ(e4m3fnuz_value(0x7F), 240.0F);
  EXPECT_EQ(e4m3fnuz_value(0x38) * 2, e4m3fn_value(0x38));
  EXPECT_TRUE(std::isnan(e4m3fnuz_value(0x80)));
  EXPECT_EQ(e5m2_value(0x7B), 57344.0F);
  EXPECT_EQ(e5m2_value(0xFC), -INFINITY);
  EXPECT_TRUE(std::isnan(e5m2_value(0x7D)));
  const float e2m1[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (std::uint32_t code = 0; code < 8; ++code) EXPECT_EQ(small_value(kE2m1, code), e2m1[code]);
  EXPECT_EQ(small_value(kE3m2, 0x1F), 28.0F);
  EXPECT_EQ(small_value(kE2m3, 0x1F), 7.5F);
  EXPECT_EQ(e8m0_value(127), 1.0F);
  EXPECT_EQ(e8m0_value(0), 0x1p-127F);
  EXPECT_TRUE(std::isnan(e8m0_value(0xFF)));
}

TEST(SmallFloats, encode_every_code_back_to_itself) {
  for (const SmallFloat* format : kAll) {
    for (std::uint32_t code = 0; code < code_count(*format); ++code) {
      const float value = small_value(*format, code);
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(small_code(*format, value), code) << format->name << " code " << code;
    }
  }
}

// Between every two neighbours: the midpoint goes to the even code, anything beside it to the nearer one.
TEST(SmallFloats, round_to_nearest_even) {
  for (const SmallFloat* format : kAll) {
    for (std::uint32_t code = 0; code + 1 < code_count(*format) / 2; ++code) {
      const double low = small_value(*format, code);
      const double high = small_value(*format, code + 1);
      if (!std::isfinite(high)) break;
      const double middle = (low + high) / 2;
      EXPECT_EQ(small_code(*format, middle), code % 2 == 0 ? code : code + 1)
          << format->name << " " << middle;
      EXPECT_EQ(small_code(*format, std::nextafter(middle, low)), code) << format->name << " " << middle;
      EXPECT_EQ(small_code(*format, std::nextafter(middle, high)), code + 1) << format->name << " " << middle;
    }
  }
}

TEST(SmallFloats, saturate_and_keep_nan) {
  for (const SmallFloat* format : kAll) {
    EXPECT_EQ(small_value(*format, small_code(*format, 1e30)), format->largest) << format->name;
    EXPECT_EQ(small_value(*format, small_code(*format, -INFINITY)), -format->largest) << format->name;
    const float nan = small_value(*format, small_code(*format, NAN));
    EXPECT_TRUE(format->top == Top::finite ? nan == format->largest : std::isnan(nan)) << format->name;
  }
}

TEST(SmallFloats, give_no_minus_zero_where_its_code_is_nan) {
  EXPECT_EQ(small_code(kE4m3fnuz, -0.0), 0U);
  EXPECT_EQ(small_code(kE4m3fnuz, -1e-9), 0U);
  EXPECT_EQ(small_code(kE4m3fn, -1e-9), 0x80U);
}

TEST(Halves, encode_every_code_back_to_itself) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const std::uint16_t half = static_cast<std::uint16_t>(code);
    if (!std::isnan(f16_value(half))) {
      EXPECT_EQ(f16_code(f16_value(half)), half);
    }
    if (!std::isnan(bf16_value(half))) {
      EXPECT_EQ(bf16_code(bf16_value(half)), half);
    }
  }
  EXPECT_TRUE(std::isnan(f16_value(f16_code(NAN))) && std::isnan(bf16_value(bf16_code(NAN))));
}

TEST(Halves, round_to_nearest_even_and_overflow_to_infinity) {
  EXPECT_EQ(f16_code(65519.996F), 0x7BFF);
  EXPECT_EQ(f16_code(65520.0F), 0x7C00);
  EXPECT_EQ(f16_code(0x1p-25F), 0x0000);
  EXPECT_EQ(f16_code(std::nextafter(0x1p-25F, 1.0F)), 0x0001);
  EXPECT_EQ(f16_code(0x1.8p-24F), 0x0002);
  EXPECT_EQ(f16_code(1.0F + 0x1p-11F), 0x3C00);
  EXPECT_EQ(f16_code(1.0F + 0x1.8p-10F), 0x3C02);
  EXPECT_EQ(bf16_code(1.0F + 0x1p-8F), 0x3F80);
  EXPECT_EQ(bf16_code(1.0F + 0x1.8p-7F), 0x3F82);
  EXPECT_EQ(bf16_code(3.4e38F), 0x7F80);
}

TEST(Integers, round_ties_to_even_and_saturate) {
  EXPECT_EQ(round_to_integer(2.5F, -128, 127), 2);
  EXPECT_EQ(round_to_integer(-3.5F, -128, 127), -4);
  EXPECT_EQ(round_to_integer(1e9F, -128, 127), 127);
  EXPECT_EQ(round_to_integer(-INFINITY, -7, 7), -7);
}

}  // namespace
}  // namespace assay_cpu
