// Weights that are cast to e4m3fn: the largest is a power of two and exact, wherever a contract makes it so.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/ops/attention/limits/strangers_testing.hpp"

namespace assay::testing {
namespace {

// Keys of these logits, of d = 1 and a scale of 1.
OpCase of_logits(const Values& logits, const Values& v) {
  return filled({{"d", "1"}, {"dv", "1"}, {"len", std::to_string(v.size())}, {"scale", "1"}}, {1}, logits, v);
}

constexpr double kClipped = 240.0 / 256;  // of a weight of 1, shifted by 8

TEST(Fp8Weights, a_largest_weight_that_is_clipped_is_seen_where_its_key_has_the_row_alone) {
  const OpCase alone = of_logits({-40, 0, -41}, {1, 3, 2});
  for (const char* words :
       {"p=e4m3fn p_shift=8", "p=e4m3fn p_shift=8 split=2", "p=e4m3fn p_shift=8 order=tiles"}) {
    expect_pass(alone.truth(words), Values{3});
    expect_caught(alone.truth(words), Values{3 * kClipped});
  }
}

// A running maximum that lags is 1.9 below this key: its weight is e^1.9, times 2^5 is 213.95, which is cast
// to 208.
TEST(Fp8Weights, with_a_lag_the_largest_weight_is_no_power_of_two) {
  const OpCase c = of_logits({0, 1.9F}, {0, 1});
  const double weight = std::exp(1.9), got = 208.0 / 32 / (1 + weight);
  expect_pass(c.truth("p=e4m3fn p_shift=5 lag=2"), Values{static_cast<float>(got)});
  expect_caught(c.truth("p=e4m3fn p_shift=5"), Values{static_cast<float>(got)});
}

// A share of 0.9707 is cast to 1, a weight of 1 stays one.
TEST(Fp8Weights, shares_are_rounded_where_weights_are_not) {
  const OpCase c = of_logits({0, -3.5F}, {1, 0});
  expect_pass(c.truth("p=e4m3fn weights=shares"), Values{1});
  expect_caught(c.truth("p=e4m3fn"), Values{1});
  expect_pass(c.truth("p=e4m3fn"), Values{static_cast<float>(1 / (1 + std::exp(-3.5)))});
}

// 2.5: a weight of 1 times 2^2.5 is 5.657, which is cast to 5.5.
TEST(Fp8Weights, times_what_is_no_power_of_two_the_largest_weight_is_rounded) {
  const OpCase alone = of_logits({-40, 0}, {1, 1});
  const auto got = static_cast<float>(5.5 / std::exp2(2.5));
  expect_pass(alone.truth("p=e4m3fn p_shift=2.5"), Values{got});
  expect_caught(alone.truth("p=e4m3fn p_shift=2"), Values{got});
}

// sum c_j v_j / L, where c_j is the code of a weight times `factor`, of at most `most`, and L the sum of the
// codes or `factor` times that of the weights.
float of_codes(std::string_view name, double factor, double most, bool casts, const Values& logits,
               const Values& v) {
  double above = 0, codes = 0, weights = 0;
  for (std::size_t j = 0; j < v.size(); ++j) {
    const double w = std::exp(static_cast<double>(logits[j])),
                 code = std::min(most, round_to(scalar_format(name), w * factor));
    above += code * static_cast<double>(v[j]), codes += code, weights += w;
  }
  return static_cast<float>(above / (casts ? codes : weights * factor));
}

// 448 and 127, as SageAttention and others write a weight of 1, with either row sum.
TEST(Fp8Weights, the_largest_code_stands_for_a_weight_of_1) {
  struct Row {
    const char* p;
    const char* shift;
    double factor, clipped;
  };
  const Values logits{-1, 0, -2.5F, -4, -0.3F}, v{2, 1, -1, 3, 0.5F};
  for (const Row& row :
       {Row{"e4m3fn", "8.807", std::exp2(8.807), 240}, Row{"e4m3fn", "8.807354922057604", 448, 240},
        Row{"int8", "6.988684686772166", 127, 100}})
    for (const bool casts : {false, true})
      for (const std::string level : {"detap", "ca order=tiles"}) {
        const std::string words = fmt::format("p={} p_shift={} denominator={} level={}", row.p, row.shift,
                                              casts ? "cast" : "exact", level);
        const auto got = [&](double most, const Values& of, const Values& values) {
          return Values{of_codes(row.p, row.factor, most, casts, of, values)};
        };
        const OpCase c = of_logits(logits, v), alone = of_logits({-60, 0}, {1, 3});
        expect_pass(c.truth(words), got(1000, logits, v));
        if (casts)  // a clipped code is missing below as well
          expect_caught(c.truth(words), Values{1.1F * got(1000, logits, v)[0]});
        else
          expect_caught(c.truth(words), got(row.clipped, logits, v));
        expect_pass(alone.truth(words), got(1000, {-60, 0}, {1, 3}));
        expect_caught(alone.truth(words), Values{3 * (1 + 1.0F / 64)});
      }
}

// 90 weights of 10.9 / 127 that are cut to 10 in place of 11.
TEST(Fp8Weights, integers_err_by_half_a_step_and_not_by_half_of_the_weight) {
  Values logits(91, static_cast<float>(std::log(10.9 / 127))), v(91, 1);
  logits[40] = 0, v[40] = 0;
  const OpCase crowd = of_logits(logits, v);
  const double sum = 1 + 90 * 10.9 / 127;
  for (const char* level : {"detap", "ca order=tiles"}) {
    const std::string words = std::string("p=int8 p_shift=6.988684686772166 level=") + level;
    expect_pass(crowd.truth(words), Values{static_cast<float>(90 * 11 / 127.0 / sum)});
    expect_caught(crowd.truth(words), Values{static_cast<float>(90 * 10 / 127.0 / sum)});
  }
}

double cut(const char* name, double x, double units = 0) {
  const ScalarFormat& f = scalar_format(name);
  const double kept = round_to(f, x, {.rounding = Rounding::toward_zero});
  return kept - units * std::ldexp(1.0, std::ilogb(kept) - f.fraction_bits);
}

// Kernels that convert by cutting bits off, as some of AMD's are built to: weights, and what is stored.
TEST(CastAnyhow, numbers_may_be_cut_where_it_is_declared) {
  const Values logits{0, -0.3F, -0.7F, -1.1F, -1.3F}, v{0, 1, 1, 1, 1};
  const OpCase c = of_logits(logits, v);
  const auto of = [&](double units) {
    double above = 0, sum = 0;
    for (std::size_t j = 0; j < v.size(); ++j) {
      const double w = std::exp(static_cast<double>(logits[j]));
      above += static_cast<double>(v[j]) * (j == 0 ? 1 : cut("bf16", w, units)), sum += w;
    }
    return Values{static_cast<float>(above / sum)};
  };
  const std::string told = "p=bf16 order=tiles tiles=aligned scaling=scores argument=rounded exp_ulp=0.5";
  expect_pass(c.truth(told + " casts=any"), of(0));
  expect_caught(c.truth(told), of(0));
  expect_caught(c.truth(told + " casts=any"), of(2));
  EXPECT_THROW((void)c.truth("level=emu order=sequential tiles=aligned scaling=scores sink=last casts=any"),
               InputError);
  OpCase narrow = filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}, {"dtype", "bf16"}}, {1}, {1},
                         {1 + 0.9F * 0x1p-7F});
  for (const char* word : {"", " out=bf16"}) {
    expect_pass(narrow.truth(std::string("p=f32 casts=any") + word), Values{1});
    expect_caught(narrow.truth(std::string("p=f32") + word), Values{1});
    expect_caught(narrow.truth(std::string("p=f32 casts=any") + word), Values{1 - 0x1p-6F});
  }
}

// 40 keys of 2^-10.5 of the largest, which has no V: 0 without a shift, and not with one. Which of the two is
// declared is seen either way where the order of the tiles says what the weights are relative to.
TEST(Fp8Weights, a_shift_that_was_left_out_or_that_nobody_declared) {
  Values logits(41, -7.3F), v(41, 1);
  logits[7] = 0, v[7] = 0;
  const OpCase crowd = of_logits(logits, v);
  const double each = std::exp(-7.3F), sum = 1 + 40 * each,
               cast = std::nearbyint(each * 256 / 0x1p-6) * 0x1p-6 / 256;
  const Values shifted{static_cast<float>(40 * cast / sum)}, plain{0};
  const std::string told = " order=tiles tiles=aligned scaling=scores argument=rounded";
  for (const std::string& order : {std::string(), told}) {
    expect_pass(crowd.truth("p=e4m3fn p_shift=8" + order), shifted);
    expect_caught(crowd.truth("p=e4m3fn p_shift=8" + order), plain);
    expect_pass(crowd.truth("p=e4m3fn p_shift=0" + order), plain);
  }
  expect_caught(crowd.truth("p=e4m3fn p_shift=0" + told), shifted);
}

}  // namespace
}  // namespace assay::testing
