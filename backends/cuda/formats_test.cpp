// Codes on the host, where the same functions run: against values computed by another formula, and the
// toolkit's conversions against the bit operations on every code and on numbers around every rounding
// boundary.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backends/cuda/toolkit.cuh"
#include "backends/gpu/code_numbers.hpp"
#include "backends/gpu/formats.cuh"
#include "backends/gpu/formats.hpp"

namespace assay_gpu {
namespace {

// sign * (1 + fraction) * 2^(exponent - bias) by ldexp, specials by the name of the format.
double value_of(Element element, std::uint32_t code) {
  const SmallFloat f = small_float(element);
  const std::uint32_t sign = 1U << (f.exponent_bits + f.fraction_bits);
  const int exponent = static_cast<int>((code & (sign - 1)) >> f.fraction_bits);
  const int fraction = static_cast<int>(code & ((1U << f.fraction_bits) - 1));
  const int top = (1 << f.exponent_bits) - 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool ieee = element == Element::f16 || element == Element::bf16 || element == Element::e5m2;
  if (ieee && exponent == top) {
    if (fraction != 0) return nan;
    return (code & sign) != 0 ? -HUGE_VAL : HUGE_VAL;
  }
  if (element == Element::e4m3fn && (code & 0x7F) == 0x7F) return nan;
  if ((element == Element::e4m3fnuz || element == Element::e5m2fnuz) && code == sign) return nan;
  const double significand = std::ldexp(fraction, -f.fraction_bits) + (exponent == 0 ? 0 : 1);
  const double value = std::ldexp(significand, std::max(exponent, 1) - f.bias);
  return (code & sign) != 0 ? -value : value;
}

TEST(CudaFormats, every_code_of_every_small_float_has_the_value_that_its_fields_say) {
  for (const FormatRow& row : formats()) {
    if (row.format.block != Block::none || row.format.scaling != Scaling::none) continue;
    if (row.bits > 16 || row.name == "e8m0" || row.name == "ue4m3" ||
        row.name.find("int") != std::string_view::npos)
      continue;
    const Element element = row.format.element;
    const SmallFloat f = small_float(element);
    for (std::uint32_t code = 0; code < 2U << (f.exponent_bits + f.fraction_bits); ++code) {
      const double want = value_of(element, code);
      const float got = decode_element(element, code);
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << row.name << " code " << code << ": " << got;
      ASSERT_TRUE(std::isnan(want) || std::signbit(got) == std::signbit(want))
          << row.name << " code " << code;
    }
  }
}

TEST(CudaFormats, every_code_comes_back_from_its_value) {
  for (const FormatRow& row : formats()) {
    if (row.format.block != Block::none || row.format.scaling != Scaling::none || row.bits > 16) continue;
    const Element element = row.format.element;
    int codes = 0;
    for (std::uint32_t code = 0; code < 1U << row.bits; ++code) {
      const float value = decode_element(element, code);
      if (!std::isfinite(value) || (element == Element::int4 && code == 8))
        continue;  // -8 is read and never written
      if (value != decode_element(element, encode_element(element, value)))
        ADD_FAILURE() << row.name << " " << code;
      ++codes;
    }
    EXPECT_GE(codes, 14) << row.name;
  }
}

TEST(CudaFormats, a_value_between_two_codes_goes_to_the_nearer_and_a_tie_to_the_even_one) {
  for (const Element element :
       {Element::f16, Element::bf16, Element::e4m3fn, Element::e4m3fnuz, Element::e5m2, Element::e5m2fnuz,
        Element::e3m2, Element::e2m3, Element::e2m1}) {
    const SmallFloat f = small_float(element);
    for (std::uint32_t code = 0; code < f.largest; ++code) {
      const double low = value_of(element, code), high = value_of(element, code + 1);
      const float tie = static_cast<float>((low + high) / 2);
      if (static_cast<double>(tie) != (low + high) / 2)
        continue;  // subnormals of bf16 have no half steps in f32
      ASSERT_EQ(encode_element(element, tie), code + code % 2) << code;
      ASSERT_EQ(encode_element(element, std::nextafter(tie, 0.0F)), code) << code;
      ASSERT_EQ(encode_element(element, std::nextafter(tie, HUGE_VALF)), code + 1) << code;
    }
  }
}

TEST(CudaFormats, rounding_to_odd_on_the_way_from_f64_keeps_the_side_of_a_tie) {
  const double tie = 1.0 + 0x1p-4;  // between the e4m3fn neighbours 1 and 1.125
  for (const double x : {tie - 0x1p-40, tie + 0x1p-40}) {
    EXPECT_EQ(decode_element(Element::e4m3fn, encode_element(Element::e4m3fn, round_to_odd(x))),
              x < tie ? 1.0F : 1.125F);
    EXPECT_EQ(static_cast<float>(x), static_cast<float>(tie)) << "f32 alone would not see the difference";
  }
}

TEST(CudaFormats, the_toolkit_and_the_bits_agree_on_every_code) {
  for (const Element element : kToolkitElements) {
    for (std::uint32_t code = 0; code < 1U << element_bits(element); ++code) {
      const float bits = BitCodes::decode(element, code), toolkit = ToolkitCodes::decode(element, code);
      ASSERT_TRUE(bits_of(bits) == bits_of(toolkit) || (std::isnan(bits) && std::isnan(toolkit)))
          << static_cast<int>(element) << " code " << code << ": " << bits << " and " << toolkit;
    }
  }
}

TEST(CudaFormats, the_toolkit_and_the_bits_agree_on_numbers_around_every_boundary) {
  for (const Element element : kToolkitElements) {
    const std::vector<float> numbers = numbers_around(element);
    ASSERT_GT(numbers.size(), 60U);
    for (const float x : numbers) {
      const std::uint32_t bits = BitCodes::encode(element, x), toolkit = ToolkitCodes::encode(element, x);
      ASSERT_TRUE(same_code(element, bits, toolkit))
          << static_cast<int>(element) << " of " << x << ": " << bits << " and " << toolkit;
    }
  }
}

// Two rows of 32 on the host: codes 0 .. 7, -7 .. in a pattern that no permutation of a word leaves alone.
struct Int4Rows {
  explicit Int4Rows(std::string_view name) {
    planes.format = format_row(name).format;
    planes.rows = 2;
    planes.length = 32;
    planes.payload = {codes, 2, {2, 32}, {16, 1}};
    planes.scale = {reinterpret_cast<unsigned char*>(scales), 2, {2, 1}, {2, 2}};
    for (int row = 0; row < 2; ++row) {
      for (int i = 0; i < 32; ++i) x[i] = static_cast<float>((i * 4 + row) % 15 - 7) * 0.5F;
      encode_unit(planes, row, 0, x);
    }
  }
  alignas(4) unsigned char codes[32] = {};
  std::uint16_t scales[2] = {};
  float x[32] = {};  // of the last row
  Planes planes;
};

TEST(CudaFormats, int4_of_checkpoints_lies_as_their_loaders_order_it) {
  const Int4Rows linear("int4_g32_bf16"), words("int4_g32_packed");
  for (const Int4Rows* rows : {&linear, &words}) {
    EXPECT_EQ(rows->scales[1], 0x3F00) << "bf16 of 3.5 / 7";
    for (int i = 0; i < 32; ++i) EXPECT_EQ(decode(rows->planes, 1, i), rows->x[i]) << i;
  }
  const auto nibble = [](const Int4Rows& rows, int at) {
    return rows.codes[16 + at / 2] >> (at % 2 * 4) & 0xF;
  };
  constexpr int kElement[] = {0, 2, 4, 6, 1, 3, 5, 7};  // of the nibbles of a word, from its lowest bits on
  for (int at = 0; at < 32; ++at)
    EXPECT_EQ(nibble(words, at), nibble(linear, at / 8 * 8 + kElement[at % 8])) << at;
}

TEST(CudaFormats, two_stored_scales_are_rounded_once) {
  unsigned char code = 0x7;  // 7 and 0
  float first = 1.0F + 0x1p-23F, second = 1.0F + 0x1p-22F;
  Planes planes;
  planes.format = format_row("int4_ch_tensor").format;
  planes.rows = 1;
  planes.length = 2;
  planes.payload = {&code, 2, {1, 2}, {1, 1}};
  planes.scale = {reinterpret_cast<unsigned char*>(&first), 1, {1}, {4}};
  planes.scale_2 = {reinterpret_cast<unsigned char*>(&second), 1, {1}, {4}};
  // 7 (1 + 2^-23)(1 + 2^-22) = 7 + 21 * 2^-23 + 7 * 2^-45; 2^-21 is the last place of 7: 5.25 of them and a
  // little.
  EXPECT_EQ(decode(planes, 0, 0), 7.0F + 5 * 0x1p-21F);
  EXPECT_EQ(decode(planes, 0, 1), 0.0F);
}

TEST(CudaFormats, codes_of_the_comparison_are_told_apart) {  // the fault that the test above must catch
  EXPECT_FALSE(same_code(Element::e4m3fn, 0x38, 0x39));
  EXPECT_FALSE(same_code(Element::e4m3fn, 0x00, 0x80));
  EXPECT_FALSE(same_code(Element::e5m2, 0x7E, 0x7B)) << "a NaN is not the largest number";
  EXPECT_TRUE(same_code(Element::e5m2, 0x7E, 0x7F)) << "two codes of NaN";
}

// The 2-bit Lloyd-Max quantiser of a unit normal, iterated from its definition.
TEST(CudaFormats, the_constants_of_tq3_are_the_fixed_point_of_their_definition) {
  const auto density = [](double y) { return std::exp(-y * y / 2) * 0.39894228040143267794; };
  const auto tail = [](double y) { return std::erfc(y * 0.70710678118654752440) / 2; };
  double t = 1, c0 = 0, c1 = 0;
  for (int step = 0; step < 200; ++step) {
    c0 = (density(0) - density(t)) / (0.5 - tail(t));
    c1 = density(t) / tail(t);
    t = (c0 + c1) / 2;
  }
  // A step of the iteration is off by less than 26 roundings: functions within an ulp, a dozen operations,
  // and a quotient whose numerator keeps a third of its terms. The map shrinks errors by 0.593 a step (its
  // derivative at the fixed point), so that the fixed point is off by 1 / 0.407 of that.
  constexpr double kFixedPoint = 64 * 0x1p-53;
  const auto close = [](double a, double b) { return std::fabs(a - b) <= kFixedPoint; };
  EXPECT_TRUE(close(t, kTq3Threshold));
  EXPECT_TRUE(close(c0, kTq3Centroid0));
  EXPECT_TRUE(close(c1, kTq3Centroid1));
  const double s0 = 2 * (density(c0) - density(t) - c0 * (tail(c0) - tail(t))) / (0.5 - tail(t));
  const double s1 = 2 * (density(c1) - c1 * tail(c1)) / tail(t);
  EXPECT_TRUE(close(s0, kTq3Spread0));
  EXPECT_TRUE(close(s1, kTq3Spread1));
}

}  // namespace
}  // namespace assay_gpu
