// The inner loops of every target: exp against the declared ulp on every f32, decoders on every code, and
// sums, maxima and products against the scalar engine on every length around a vector's.
#include "backends/cpu/engine.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

std::vector<const Engine*> engines() {
  std::vector<const Engine*> all{&kScalarEngine};
  all.insert(all.end(), simd_engines().begin(), simd_engines().end());
  return all;
}

// |got - e^x| in ulps of f32 at e^x; x in double is exact, std::exp's own error is 2^-52 relative.
double ulps(float got, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(double{got} - exact) / std::ldexp(1.0, exponent - 23);
}

// Largest error over the floats from -2^-27 to -104 that `stride` leaves.
std::vector<double> largest_exp_errors(std::uint32_t stride) {
  constexpr std::uint32_t kFirst = 0xB2000000U;  // -2^-27
  constexpr std::uint32_t kLast = 0xC2D00000U;   // -104
  constexpr std::size_t kChunk = 4096;
  std::vector<double> largest(engines().size());
  std::vector<float> x;
  std::vector<float> y(kChunk);
  std::vector<double> exact(kChunk);
  for (std::uint64_t bits = kFirst; bits <= kLast;) {
    x.clear();
    for (; x.size() < kChunk && bits <= kLast; bits += stride) {
      x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
      exact[x.size() - 1] = std::exp(double{x.back()});
    }
    for (std::size_t e = 0; e < largest.size(); ++e) {
      engines()[e]->exp_shift(x.data(), 0, y.data(), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) largest[e] = std::fmax(largest[e], ulps(y[i], exact[i]));
    }
  }
  return largest;
}

void expect_declared(const std::vector<double>& largest) {
  for (std::size_t e = 0; e < largest.size(); ++e) {
    const std::string name = engines()[e]->name;
    std::printf("%-12s exp: at most %.4f ulp, declared %d\n", name.c_str(), largest[e],
                engines()[e]->exp_ulp);
    EXPECT_TRUE(largest[e] <= engines()[e]->exp_ulp) << name;
  }
}

TEST(EngineExp, stays_within_the_declared_ulp_on_a_sample_of_floats) {
  expect_declared(largest_exp_errors(199));
}

TEST(EngineExpNightly, stays_within_the_declared_ulp_on_every_float) {
  if (std::getenv("ASSAY_NIGHTLY") == nullptr) GTEST_SKIP() << "exhaustive: set ASSAY_NIGHTLY=1";
  expect_declared(largest_exp_errors(1));
}

TEST(EngineExp, is_exact_at_zero_and_zero_at_minus_infinity_and_keeps_nan) {
  const float x[] = {0.0F, -0.0F, -std::numeric_limits<float>::infinity(), NAN, -200.0F, 1.0F};
  for (const Engine* engine : engines()) {
    for (std::size_t n = 1; n <= 6; ++n) {
      float y[6];
      engine->exp_shift(x, 0, y, n);
      const bool nan_kept = n <= 3 || std::isnan(y[3]);
      const bool zero_at_infinity = n <= 2 || y[2] == 0;
      const bool zero_below_range = n <= 4 || y[4] == 0;
      EXPECT_TRUE(y[0] == 1 && nan_kept && zero_at_infinity && zero_below_range)
          << engine->name << " n=" << n;
    }
  }
}

TEST(EngineDecoders, agree_with_the_codec_on_every_code_and_every_tail) {
  std::vector<std::uint8_t> bytes;
  for (int copy = 0; copy < 2; ++copy) {
    for (int code = 0; code < 256; ++code) bytes.push_back(static_cast<std::uint8_t>(code));
  }
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t code = 0; code < halves.size(); ++code) halves[code] = static_cast<std::uint16_t>(code);
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  for (const Engine* engine : engines()) {
    std::vector<float> y(halves.size());
    for (std::size_t start = 0; start < 20; ++start) {
      const std::size_t n = 256 + start / 2;
      engine->from_e4m3fn(bytes.data() + start, y.data(), n);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_TRUE(same(y[i], e4m3fn_value(bytes[start + i]))) << engine->name;
      engine->from_e4m3fnuz(bytes.data() + start, y.data(), n);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_TRUE(same(y[i], e4m3fnuz_value(bytes[start + i]))) << engine->name;
      engine->from_e5m2(bytes.data() + start, y.data(), n);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_TRUE(same(y[i], e5m2_value(bytes[start + i]))) << engine->name;
      engine->from_int8(bytes.data() + start, y.data(), n);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], static_cast<std::int8_t>(bytes[start + i]));
    }
    engine->from_f16(halves.data(), y.data(), halves.size());
    for (std::size_t i = 0; i < halves.size(); ++i)
      ASSERT_TRUE(same(y[i], f16_value(halves[i]))) << engine->name;
    engine->from_bf16(halves.data(), y.data(), halves.size());
    for (std::size_t i = 0; i < halves.size(); ++i)
      ASSERT_TRUE(same(y[i], bf16_value(halves[i]))) << engine->name;
  }
}

// Every f16 and bf16 value, the midpoint above it and that midpoint's neighbours: all places where a rounding
// can go wrong.
TEST(EngineEncoders, round_like_the_codec_at_every_boundary) {
  std::vector<float> x;
  for (std::uint32_t code = 0; code < 0x7C00; ++code) {
    const float low = f16_value(static_cast<std::uint16_t>(code));
    const float high = code + 1 == 0x7C00 ? 65536.0F : f16_value(static_cast<std::uint16_t>(code + 1));
    const float middle = (low + high) / 2;
    for (const float value : {low, std::nextafter(middle, 0.0F), middle, std::nextafter(middle, INFINITY)}) {
      x.push_back(value);
      x.push_back(-value);
    }
  }
  for (const float special : {INFINITY, -INFINITY, NAN, 1e30F, 3.4e38F, 1e-40F}) x.push_back(special);
  for (const Engine* engine : engines()) {
    std::vector<std::uint16_t> codes(x.size());
    engine->to_f16(x.data(), codes.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(codes[i], f16_code(x[i])) << engine->name << " " << x[i];
    engine->to_bf16(x.data(), codes.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(codes[i], bf16_code(x[i])) << engine->name << " " << x[i];
  }
}

// Small integers: every order of summation is exact, so that any difference is a lost or doubled element.
TEST(EngineSums, are_exact_on_integers_for_every_length) {
  std::mt19937 random(5);
  std::vector<float> a(400);
  std::vector<float> b(400);
  std::vector<std::int8_t> ia(400);
  std::vector<std::int8_t> ib(400);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(static_cast<int>(random() % 17) - 8);
    b[i] = static_cast<float>(static_cast<int>(random() % 17) - 8);
    ia[i] = static_cast<std::int8_t>(random());
    ib[i] = static_cast<std::int8_t>(random());
  }
  for (const Engine* engine : engines()) {
    for (std::size_t n = 1; n <= 70; ++n) {
      float dot = 0, sum = 0, squares = 0, best = a[0];
      std::int32_t integer = 0;
      for (std::size_t i = 0; i < n; ++i) {
        dot += a[i] * b[i];
        sum += a[i];
        squares += (a[i] - 2) * (a[i] - 2);
        best = std::fmax(best, a[i]);
        integer += ia[i] * ib[i];
      }
      ASSERT_EQ(engine->dot(a.data(), b.data(), n), dot) << engine->name << " n=" << n;
      ASSERT_EQ(engine->sum(a.data(), n), sum) << engine->name << " n=" << n;
      ASSERT_EQ(engine->sum_squares(a.data(), 2, n), squares) << engine->name << " n=" << n;
      ASSERT_EQ(engine->max(a.data(), n), best) << engine->name << " n=" << n;
      ASSERT_EQ(engine->dot_int8(ia.data(), ib.data(), n), integer) << engine->name << " n=" << n;
      for (std::size_t rows = 1; rows <= 5; ++rows) {
        float scores[5];
        engine->dot_rows(a.data(), b.data(), n, rows, n, scores);
        std::vector<float> y(n, 1.0F);
        engine->add_rows(scores, b.data(), n, rows, n, y.data());
        for (std::size_t r = 0; r < rows; ++r) {
          float expected = 0;
          for (std::size_t i = 0; i < n; ++i) expected += a[i] * b[r * n + i];
          ASSERT_EQ(scores[r], expected) << engine->name << " n=" << n;
        }
        for (std::size_t i = 0; i < n; ++i) {
          float expected = 1;
          for (std::size_t r = 0; r < rows; ++r) expected += scores[r] * b[r * n + i];
          ASSERT_EQ(y[i], expected) << engine->name << " n=" << n;
        }
      }
    }
  }
}

TEST(EngineNames, are_distinct_and_findable) {
  for (const Engine* engine : engines()) EXPECT_EQ(find_engine(engine->name), engine);
  EXPECT_EQ(find_engine("avx1024"), nullptr);
}

}  // namespace
}  // namespace assay_cpu
