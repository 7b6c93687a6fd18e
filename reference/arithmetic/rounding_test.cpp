#include "reference/arithmetic/rounding.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace assay {
namespace {

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

// Numbers around everything that matters: any exponent, few or many bits, next to ties.
double awkward(std::mt19937_64& random) {
  const int e = static_cast<int>(random() % 330) - 180;
  const int kept = static_cast<int>(random() % 53);
  double x = std::ldexp(static_cast<double>((random() >> 11) | (std::uint64_t{1} << 52)), -52);
  x = std::ldexp(std::floor(std::ldexp(x, kept)), e - kept);
  switch (random() % 4) {
    case 0:
      x = std::nextafter(x, 1e300);
      break;
    case 1:
      x = std::nextafter(x, 0);
      break;
    default:
      break;
  }
  return random() % 2 == 0 ? x : -x;
}

// An independent statement of rounding: the two neighbours on the format's grid, chosen by exact comparison.
double by_neighbours(double x, const Precision& f, Rounding mode) {
  const int e = std::max(std::ilogb(x), f.emin);
  const double q = std::ldexp(1.0, e - f.p + 1);
  const double below = std::floor(x / q) * q;  // x / q is exact (a power of two), so is the product
  const double above = below == x ? x : below + q;
  const double down = x - below;
  const double up = above - x;
  double r = 0;
  switch (mode) {
    case Rounding::nearest_even:
      r = down < up ? below : up < down ? above : std::fmod(below / q, 2) == 0 ? below : above;
      break;
    case Rounding::nearest_away:
      r = down < up ? below : up < down ? above : x > 0 ? above : below;
      break;
    case Rounding::toward_zero:
      r = x > 0 ? below : above;
      break;
    default:
      r = below;
      break;
  }
  if (std::fabs(r) > largest_finite(f)) {
    const bool stops = mode == Rounding::toward_zero || (mode == Rounding::toward_negative && x > 0);
    r = stops ? std::copysign(largest_finite(f), x)
              : std::copysign(std::numeric_limits<double>::infinity(), x);
  }
  return std::copysign(r, x);
}

constexpr std::array kFormats = {kPrecisionF16, kPrecisionBf16, kPrecisionF32, kPrecisionE8m13,
                                 Precision{4, -6, 8}};
constexpr std::array kModes = {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero,
                               Rounding::toward_negative};

TEST(Rounding, agrees_with_the_choice_between_the_two_neighbours_in_every_format_and_mode) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double x = awkward(random);
    for (const Precision& f : kFormats) {
      for (const Rounding mode : kModes) {
        ASSERT_EQ(bits(round_to_precision(x, f, mode)), bits(by_neighbours(x, f, mode)))
            << x << " p=" << f.p << " mode " << static_cast<int>(mode);
      }
    }
  }
}

TEST(Rounding, of_an_exact_sum_wider_than_a_double_is_the_same_as_of_its_two_parts) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200000; ++i) {
    // high * 2^62 + low, where `low` breaks or makes a tie 62 bits further down
    const auto high = static_cast<std::int64_t>(random() >> (5 + random() % 50));
    const std::int64_t low = static_cast<std::int64_t>(random() % 3) - 1;
    const int e = static_cast<int>(random() % 250) - 280;
    const Int128 sum = Int128{high} * (Int128{1} << 62) + low;
    if (high >= (std::int64_t{1} << 53)) continue;
    const double x = std::ldexp(static_cast<double>(high), 62 + e);
    const double y = std::ldexp(static_cast<double>(low), e);
    ASSERT_EQ(bits(round_exact(sum, e, kPrecisionF32, Rounding::nearest_even)),
              bits(round_sum(x, y, kPrecisionF32)))
        << high << " " << low << " " << e;
  }
}

TEST(Rounding, fast_paths_equal_the_definition_bit_for_bit) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000000; ++i) {
    const double x = awkward(random);
    ASSERT_EQ(bits(round_f16(x)), bits(round_to_precision(x, kPrecisionF16))) << x;
    ASSERT_EQ(bits(round_bf16(x)), bits(round_to_precision(x, kPrecisionBf16))) << x;
    ASSERT_EQ(bits(round_f32(x)), bits(round_to_precision(x, kPrecisionF32))) << x;
    const auto f = static_cast<float>(x);
    ASSERT_EQ(bits(truncate_e8m13(f)), bits(round_to_precision(f, kPrecisionE8m13, Rounding::toward_zero)))
        << x;
  }
  for (const double x : {0.0, -0.0, 65519.999, 65520.0, -65520.0, 1e300, -1e300}) {
    EXPECT_EQ(bits(round_f16(x)), bits(round_to_precision(x, kPrecisionF16))) << x;
  }
  EXPECT_TRUE(std::isnan(round_f16(std::nan(""))));
}

TEST(Rounding, sum_of_two_does_not_round_twice) {
  // 1 + 2^-24 + 2^-60: to f64 first it is a tie and falls to 1; rounded once it is 1 + 2^-23.
  EXPECT_EQ(round_sum(1 + 0x1p-24, 0x1p-60, kPrecisionF32), 1 + 0x1p-23);
  EXPECT_EQ(round_f32((1 + 0x1p-24) + 0x1p-60), 1.0);
  EXPECT_EQ(round_sum(-1 - 0x1p-24, 0x1p-60, kPrecisionF32), -1.0);
}

TEST(Rounding, overflow_goes_where_the_mode_says) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(round_to_precision(65520, kPrecisionF16), inf);
  EXPECT_EQ(round_to_precision(65519.99, kPrecisionF16), 65504);
  EXPECT_EQ(round_to_precision(1e9, kPrecisionF16, Rounding::toward_zero), 65504);
  EXPECT_EQ(round_to_precision(1e9, kPrecisionF16, Rounding::toward_zero, OverflowTo::infinity), inf);
  EXPECT_EQ(round_to_precision(-1e9, kPrecisionF16, Rounding::toward_negative), -inf);
}

}  // namespace
}  // namespace assay
