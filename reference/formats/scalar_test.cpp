// Every code, every decision boundary, and the numbers that the field got wrong.
#include "reference/formats/scalar.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference/error.hpp"
#include "reference/formats/scalar_oracle.hpp"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Rounding kRoundings[] = {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero,
                                   Rounding::toward_negative, Rounding::stochastic};
constexpr Overflow kOverflows[] = {Overflow::saturate, Overflow::ieee};
constexpr std::string_view kNarrow[] = {"e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e2m1", "e3m2", "e2m3"};

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

TEST(Scalar, every_code_of_a_narrow_format_decodes_to_the_textbook_value) {
  for (const auto name : kNarrow) {
    const ScalarFormat& f = scalar_format(name);
    const ScalarOracle oracle(f);
    const std::uint32_t sign = 1U << (f.bits - 1);
    for (std::uint32_t code = 0; code < 2 * sign; ++code) {
      const std::uint32_t magnitude = code & (sign - 1);
      double wanted = kNan;
      if (magnitude <= oracle.top()) {
        wanted = (code & sign) != 0 ? -oracle.values()[magnitude] : oracle.values()[magnitude];
      } else if (f.specials == Specials::ieee && magnitude == oracle.top() + 1) {
        wanted = (code & sign) != 0 ? -kInf : kInf;
      }
      if (f.specials == Specials::nan_minus_zero && code == sign) wanted = kNan;
      EXPECT_TRUE(same(decode(f, code), wanted))
          << name << " " << code << " " << decode(f, code) << " " << wanted;
    }
  }
}

TEST(Scalar, every_code_of_f16_agrees_with_the_compilers_conversion) {
  const ScalarFormat& f = scalar_format("f16");
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const double wanted = static_cast<double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(code)));
    ASSERT_TRUE(same(decode(f, code), wanted)) << code;
  }
}

TEST(Scalar, every_code_of_bf16_is_the_upper_half_of_an_f32) {
  const ScalarFormat& f = scalar_format("bf16");
  for (std::uint32_t code = 0; code < 65536; ++code) {
    ASSERT_TRUE(same(decode(f, code), std::bit_cast<float>(code << 16))) << code;
  }
}

TEST(Scalar, tf32_and_f32_codes_are_f32_bits) {
  for (std::uint32_t i = 0; i < 200000; ++i) {
    const std::uint32_t bits = i * 2654435761U;
    ASSERT_TRUE(same(decode(scalar_format("f32"), bits), std::bit_cast<float>(bits))) << bits;
    const std::uint32_t code = bits >> 13;
    ASSERT_TRUE(same(decode(scalar_format("tf32"), code), std::bit_cast<float>(code << 13))) << code;
  }
}

TEST(Scalar, e8m0_is_a_power_of_two_and_its_last_code_is_nan) {
  const ScalarFormat& f = scalar_format("e8m0");
  for (std::uint32_t code = 0; code < 255; ++code) {
    EXPECT_EQ(decode(f, code), std::pow(2.0, static_cast<int>(code) - 127));
  }
  EXPECT_TRUE(std::isnan(decode(f, 255)));
  EXPECT_EQ(encode(f, 1.5), 128U);  // ties go to the even code: up from 127,
  EXPECT_EQ(encode(f, 3.0), 128U);  // down from 129
  EXPECT_EQ(encode(f, 0.0), 0U);
  EXPECT_EQ(encode(f, 1e-40), 0U);  // underflow: the smallest scale, not NaN
  EXPECT_EQ(encode(f, kNan), 255U);
  EXPECT_EQ(encode(f, 0x1.8p127), 254U);
  EXPECT_EQ(encode(f, 0x1.9p127, {.overflow = Overflow::ieee}), 255U);
}

TEST(Scalar, unsigned_e4m3_has_no_negative_numbers) {
  const ScalarFormat& f = scalar_format("ue4m3");
  for (std::uint32_t code = 0; code < 128; ++code) {
    EXPECT_TRUE(same(decode(f, code), decode(scalar_format("e4m3fn"), code)));
    EXPECT_TRUE(same(decode(f, code | 128U), decode(f, code)));
  }
  EXPECT_EQ(encode(f, -3.0), 0U);
  EXPECT_EQ(encode(f, -1e9, {.rounding = Rounding::toward_zero}), 0U);
  EXPECT_EQ(encode(f, -3.0, {.overflow = Overflow::ieee}), 0x7FU);
  EXPECT_EQ(encode(f, 3.0), encode(scalar_format("e4m3fn"), 3.0));
}

TEST(Scalar, integers_decode_as_twos_complement) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(decode(scalar_format("int8"), code), static_cast<std::int8_t>(code));
    EXPECT_EQ(decode(scalar_format("uint8"), code), code);
    EXPECT_EQ(decode(scalar_format("int4"), code), static_cast<int>((code & 15U) ^ 8U) - 8);
  }
  EXPECT_EQ(decode(scalar_format("int32"), 0x80000000U), -2147483648.0);
}

TEST(Scalar, integers_round_as_their_policy_says_and_clamp) {
  const ScalarFormat& int8 = scalar_format("int8");
  for (int half = -300; half <= 300; ++half) {
    const double x = half / 2.0;
    const auto round = [&](Rounding r) { return round_to(int8, x, {.rounding = r}); };
    const auto clamp = [](double v) { return std::min(127.0, std::max(-128.0, v)); };
    EXPECT_EQ(round(Rounding::nearest_even), clamp(std::nearbyint(x)));
    EXPECT_EQ(round(Rounding::nearest_away), clamp(std::round(x)));
    EXPECT_EQ(round(Rounding::toward_zero), clamp(std::trunc(x)));
    EXPECT_EQ(round(Rounding::toward_negative), clamp(std::floor(x)));
  }
  const ScalarFormat& int4 = scalar_format("int4");
  EXPECT_EQ(round_to(int4, -100), -7);
  EXPECT_EQ(round_to(int4, kInf), 7);
  EXPECT_EQ(round_to(int4, -kInf), -7);
  EXPECT_EQ(round_to(int4, kNan), 7);
  EXPECT_EQ(round_to(int4, kNan, {.nan = NanPolicy::zero}), 0);
  EXPECT_EQ(round_to(scalar_format("uint8"), -0.6), 0);
  EXPECT_EQ(round_to(scalar_format("int32"), 123456789.0), 123456789.0);
}

TEST(Scalar, every_finite_code_encodes_to_itself_under_every_policy) {
  for (const ScalarFormat& f : scalar_formats()) {
    if (f.bits > 16) continue;
    for (std::uint32_t code = 0; code < 1U << f.bits; ++code) {
      const double value = decode(f, code);
      const bool never_made = f.kind == ScalarKind::integer && value < f.integer_min;  // -8 of int4
      if (!std::isfinite(value) || never_made) continue;
      for (const Rounding r : kRoundings) {
        for (const Overflow o : kOverflows) {
          ASSERT_EQ(encode(f, value, {.rounding = r, .overflow = o}, code), code) << f.name << " " << value;
        }
      }
    }
  }
}

TEST(Scalar, every_decision_boundary_and_its_neighbours_round_as_the_oracle_says) {
  for (const auto name : kNarrow) {
    const ScalarFormat& f = scalar_format(name);
    const ScalarOracle oracle(f);
    std::vector<double> points = oracle.values();
    for (std::size_t i = 1; i < oracle.values().size(); ++i) {
      points.push_back((oracle.values()[i - 1] + oracle.values()[i]) / 2);
    }
    for (const double point : points) {
      const auto p32 = static_cast<float>(point);
      ASSERT_EQ(p32, point);  // so the f32 neighbours are neighbours of the boundary itself
      const double around[] = {point, std::nextafter(p32, -1e30F), std::nextafter(p32, 1e30F),
                               std::nextafter(point, -1e30), std::nextafter(point, 1e30)};
      for (const double x : around) {
        for (const double signed_x : {x, -x}) {
          for (const Rounding r : kRoundings) {
            for (const Overflow o : kOverflows) {
              const EncodePolicy policy{.rounding = r, .overflow = o, .seed = 5};
              ASSERT_EQ(encode(f, signed_x, policy, 9), oracle.expected(signed_x, policy, 9))
                  << name << " " << std::hexfloat << signed_x << " rounding " << static_cast<int>(r)
                  << " overflow " << static_cast<int>(o);
            }
          }
        }
      }
    }
  }
}

TEST(Scalar, extremes_round_as_the_oracle_says) {
  const double extremes[] = {0.0,   -0.0,   0x1p-149, -0x1p-149, 0x1p-1074, -0x1p-1074,     0x1p-1022,
                             1e308, -1e308, kInf,     -kInf,     kNan,      0x1.FFFFFEp127, -0x1.FFFFFEp127,
                             1e-30, -1e-30, 1e30};
  for (const auto name : {"e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e2m1", "e3m2", "e2m3", "f16", "bf16"}) {
    const ScalarOracle oracle(scalar_format(name));
    for (const double x : extremes) {
      for (const Rounding r : kRoundings) {
        for (const Overflow o : kOverflows) {
          for (const NanPolicy n : {NanPolicy::propagate, NanPolicy::zero}) {
            const EncodePolicy policy{.rounding = r, .overflow = o, .nan = n};
            ASSERT_EQ(encode(scalar_format(name), x, policy), oracle.expected(x, policy)) << name << " " << x;
          }
        }
      }
    }
  }
}

TEST(Scalar, every_boundary_of_f16_is_nearest_even_like_the_compilers) {
  const ScalarFormat& f = scalar_format("f16");
  for (std::uint32_t code = 0; code < 0x7BFF; ++code) {
    const auto middle = static_cast<float>((decode(f, code) + decode(f, code + 1)) / 2);
    for (const float x : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e30F)}) {
      const auto wanted = std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
      ASSERT_EQ(encode(f, x, {.overflow = Overflow::ieee}), wanted) << std::hexfloat << x;
    }
  }
}

TEST(Scalar, f64_rounds_once_into_f32_like_the_processor) {
  const ScalarFormat& f = scalar_format("f32");
  for (std::uint64_t i = 0; i < 300000; ++i) {
    const auto x =
        std::bit_cast<double>(stochastic_draw(1, i) >> 12 | (stochastic_draw(2, i) % 0x250 + 0x300) << 52);
    const auto wanted = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    ASSERT_EQ(encode(f, x, {.overflow = Overflow::ieee}), wanted) << std::hexfloat << x;
  }
}

TEST(Scalar, the464_tie_goes_to448_and_anything_above_it_to_nan) {
  const ScalarFormat& f = scalar_format("e4m3fn");
  const EncodePolicy ieee{.overflow = Overflow::ieee};
  EXPECT_EQ(encode(f, 464.0, ieee), 0x7EU);
  EXPECT_EQ(encode(f, std::nextafter(464.0F, 500.0F), ieee), 0x7FU);
  EXPECT_EQ(encode(f, 480.0, ieee), 0x7FU);
  EXPECT_EQ(encode(f, 1e30), 0x7EU);  // SATFINITE
  EXPECT_EQ(encode(f, kInf), 0x7EU);
  EXPECT_EQ(encode(f, kInf, ieee), 0x7FU);
}

TEST(Scalar, the_byte0x80_is_minus_zero_in_fn_and_nan_in_fnuz_and_no_encoder_makes_the_latter_from_a_number) {
  EXPECT_TRUE(same(decode(scalar_format("e4m3fn"), 0x80), -0.0));
  EXPECT_TRUE(std::isnan(decode(scalar_format("e4m3fnuz"), 0x80)));
  for (const auto name : {"e4m3fnuz", "e5m2fnuz"}) {
    EXPECT_EQ(encode(scalar_format(name), -1e-12), 0U);
    EXPECT_EQ(encode(scalar_format(name), -0.0), 0U);
    EXPECT_EQ(encode(scalar_format(name), kNan), 0x80U);
  }
  EXPECT_EQ(encode(scalar_format("e4m3fn"), -1e-12), 0x80U);
  for (std::uint32_t code = 1; code < 0x7F; ++code) {
    EXPECT_EQ(decode(scalar_format("e4m3fnuz"), code) * 2, decode(scalar_format("e4m3fn"), code));
  }
}

TEST(Scalar, stochastic_rounding_is_a_pure_function_of_seed_and_index_and_has_the_right_mean) {
  const ScalarFormat& f = scalar_format("e4m3fn");
  const int n = 200000;
  const double x = 1.0 + 0.125 * 0.3;
  double sum = 0;
  int differs = 0;
  for (int i = 0; i < n; ++i) {
    const EncodePolicy policy{.rounding = Rounding::stochastic, .seed = 11};
    const auto index = static_cast<std::uint64_t>(i);
    const double y = round_to(f, x, policy, index);
    ASSERT_EQ(y, round_to(f, x, policy, index));
    sum += (y - 1.0) / 0.125;
    differs += y != round_to(f, x, {.rounding = Rounding::stochastic, .seed = 12}, index) ? 1 : 0;
  }
  const double sigma = std::sqrt(0.3 * 0.7 / n);
  EXPECT_LE(std::fabs(sum / n - 0.3), 5 * sigma);
  EXPECT_LE(std::fabs(static_cast<double>(differs) / n - 0.42), 5 * std::sqrt(0.42 * 0.58 / n));
}

TEST(Scalar, batch_encoding_is_encoding_one_by_one) {
  std::vector<float> x;
  for (std::uint32_t i = 0; i < 20000; ++i) x.push_back(std::bit_cast<float>(i * 2654435761U));
  for (const auto name : {"e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e2m1", "e3m2", "e2m3", "f16"}) {
    const std::vector<double> values = ScalarOracle(scalar_format(name)).values();
    for (std::size_t i = 1; i < values.size(); ++i) {
      for (const double point : {values[i], (values[i - 1] + values[i]) / 2}) {
        const auto at = static_cast<float>(point);
        for (const float near : {std::nextafter(at, 0.0F), at, std::nextafter(at, 1e30F)}) {
          x.push_back(near);
          x.push_back(-near);
        }
      }
    }
  }
  std::vector<std::uint32_t> codes(x.size());
  for (const ScalarFormat& f : scalar_formats()) {
    for (const Rounding r : kRoundings) {
      for (const Overflow o : kOverflows) {
        const EncodePolicy policy{.rounding = r, .overflow = o, .seed = 3};
        encode_many(f, x, policy, 77, codes);
        for (std::size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(codes[i], encode(f, x[i], policy, 77 + i)) << f.name << " " << x[i];
        }
      }
    }
  }
}

TEST(Scalar, tables_hold_what_decode_returns) {
  for (const ScalarFormat& f : scalar_formats()) {
    const auto table = decode_table(f);
    const auto table32 = decode_table_f32(f);
    ASSERT_EQ(table.size(), f.bits > 16 ? 0 : std::size_t{1} << f.bits) << f.name;
    ASSERT_EQ(table32.size(), table.size());
    for (std::uint32_t code = 0; code < table.size(); ++code) {
      ASSERT_TRUE(same(table[code], decode(f, code))) << f.name << code;
      ASSERT_TRUE(same(table32[code], table[code])) << f.name << code;
    }
  }
}

TEST(Scalar, an_unknown_name_is_refused_with_near_names) {
  try {
    scalar_format("e4m3fm");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.kind(), InputErrorKind::unknown_name);
    EXPECT_NE(std::string(error.what()).find("'e4m3fm'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("e4m3fn"), std::string::npos);
  }
}

}  // namespace
}  // namespace assay
