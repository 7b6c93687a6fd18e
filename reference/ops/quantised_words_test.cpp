// What libraries do and a word declares: inside under the word, red without it, and a wrong kernel red under
// both.
#include "reference/ops/quantised_testing.hpp"

namespace assay::testing {
namespace {

void expect_word(const OpCase& c, std::string_view without, std::string_view with_word,
                 const std::vector<double>& y, const std::vector<double>& wrong) {
  EXPECT_LE(worst_ratio(c.truth(with_word), y), 1) << with_word;
  EXPECT_GT(worst_ratio(c.truth(without), y), 1) << without;
  EXPECT_GT(worst_ratio(c.truth(with_word), wrong), 1) << with_word;
}
double in(std::string_view format, double x, Rounding rounding = Rounding::nearest_even) {
  return round_to(scalar_format(format), x, {.rounding = rounding});
}

TEST(QuantisedWords, an_int8_scale_of_absmax_over_127_and_a_half) {
  OpCase c("quantize", {{"rows", "4"}, {"cols", "64"}, {"to", "int8_tok"}});
  const Values x = c.put("x", draw(Shape1::gaussian, 256, 3));
  std::vector<double> y, wrong;
  for (std::size_t r = 0; r < 4; ++r) {
    float absmax = 0;
    for (std::size_t i = 64 * r; i < 64 * (r + 1); ++i) absmax = std::max(absmax, std::fabs(x[i]));
    const float s = absmax / 127.5F, other = absmax / 128.0F;
    for (std::size_t i = 64 * r; i < 64 * (r + 1); ++i) {
      y.push_back(std::clamp(std::nearbyint(x[i] / s), -128.0F, 127.0F) * static_cast<double>(s));
      wrong.push_back(std::clamp(std::nearbyint(x[i] / other), -128.0F, 127.0F) * static_cast<double>(other));
    }
  }
  expect_word(c, "", "divisor=half_more", y, wrong);
}

TEST(QuantisedWords, a_cast_through_f16) {
  OpCase c("quantize", {{"rows", "1"}, {"cols", "4"}, {"to", "e4m3fn"}});
  // Above the tie of 1 and 1.125 by less than f16 holds: the tie goes to 1.
  const Values x = c.put("x", {1.0625F + 0x1p-20F, 3, -1.0625F - 0x1p-19F, 0});
  std::vector<double> y, wrong;
  for (const float each : x) {
    y.push_back(in("e4m3fn", round_f16(each)));
    wrong.push_back(in("e4m3fn", round_f16(each), Rounding::toward_zero) - 0.25);
  }
  expect_word(c, "", "quotient=f16", y, wrong);
}

TEST(QuantisedWords, casts_that_flush_codes_below_the_smallest_normal) {
  const double least = smallest_normal(scalar_format("e4m3fn"));
  for (const char* to : {"e4m3fn", "e4m3fn_tensor"}) {
    OpCase c("quantize", {{"rows", "1"}, {"cols", "4"}, {"to", to}});
    const Values x = c.put("x", {448, 0x1p-7F, -0x1.fp-7F, 0x1.2p-6F});  // the scale is 1
    std::vector<double> y, rounded_up, wrong;
    for (const float each : x) {
      const double code = in("e4m3fn", each);
      y.push_back(std::fabs(static_cast<double>(each)) < least ? 0 : code);  // flushed as they are read
      rounded_up.push_back(std::fabs(code) < least ? 0 : code);
      wrong.push_back(std::fabs(code) < 2 * least ? 0 : code);
    }
    expect_word(c, "code=divide", "code=divide subnormals=zero", y, wrong);
    expect_word(c, "code=divide", "code=divide subnormals=zero", rounded_up, wrong);
  }
}

TEST(QuantisedWords, stochastic_rounding_takes_either_neighbour_without_a_bias) {
  for (const char* to : {"e4m3fn_tok", "int8_tok", "e5m2", "int4_g32_bf16"}) {
    OpCase c("quantize", {{"rows", "4"}, {"cols", "64"}, {"to", to}});
    const Values x = c.put("x", draw(Shape1::gaussian, 256, 9));
    const Format& f = format(to);
    for (const std::uint64_t seed : {1, 2, 3}) {
      const std::vector<double> y =
          decode_tensor(encode_tensor(f, {4, 64}, x, {.rounding = Rounding::stochastic, .seed = seed}));
      std::vector<double> wrong = y;  // a whole step farther
      for (double& each : wrong) each *= 1.3;
      expect_word(c, "code=divide", "code=divide round=stochastic", y, wrong);
    }
  }
  OpCase refused("quantize", {{"rows", "1"}, {"cols", "32"}, {"to", "q8_0"}});
  refused.put("x", draw(Shape1::gaussian, 32, 9));
  EXPECT_EQ(kind_of([&] { refused.truth("round=stochastic"); }), InputErrorKind::bad_value);
  // 10^5 draws of 1.03125, a quarter of the way from 1 to 1.125: the mean is within 5 of its own deviations.
  double sum = 0;
  constexpr int kDraws = 100000;
  for (std::uint64_t i = 0; i < kDraws; ++i)
    sum += round_to(scalar_format("e4m3fn"), 1.03125, {.rounding = Rounding::stochastic, .seed = 4}, i);
  EXPECT_LT(std::fabs(sum / kDraws - 1.03125), 5 * 0.125 * std::sqrt(0.25 * 0.75 / kDraws));
}

TEST(QuantisedWords, a_store_that_rounds_stochastically) {
  OpCase c("dequantize", {{"rows", "1"}, {"cols", "4"}, {"from", "f32"}, {"dtype", "bf16"}});
  c.put("x", {1 + 0x1p-10F, -3 - 0x1p-12F, 2, 0x1.234568p-130F});
  const auto ends = [&](bool away) {
    std::vector<double> y;
    for (const float each : c.read("x")) {
      const double cut = in("bf16", each, Rounding::toward_zero);
      y.push_back(away && cut != each
                      ? cut + std::copysign(std::max(std::ldexp(1.0, std::ilogb(each) - 7), 0x1p-133), each)
                      : cut);
    }
    return y;
  };
  for (const bool away : {false, true}) {
    EXPECT_LE(worst_ratio(c.truth("round=stochastic"), ends(away)), 1);
    std::vector<double> far = ends(away);
    far[0] += 0x1p-6;
    EXPECT_GT(worst_ratio(c.truth("round=stochastic"), far), 1);
  }
  EXPECT_GT(worst_ratio(c.truth(""), ends(true)), 1);
}

// Products of one row with one weight, a 1 in front of zeros: the operand itself.
OpCase seen_alone(const Values& a, std::size_t at) {
  Values b(a.size(), 0.0F);
  b[at] = 1;
  const std::string k = std::to_string(a.size());
  const auto n = static_cast<std::int64_t>(a.size());
  return with(
      "matmul",
      {{"m", "1"}, {"n", "1"}, {"k", k}, {"a", "f32"}, {"b", "f32"}, {"path", "q8"}, {"dtype", "f32"}},
      {{"a", plain("f32", {1, n}, a)}, {"b", plain("f32", {1, n}, b)}});
}

TEST(QuantisedWords, int8_activations_whose_block_scales_stay_in_f32) {
  Values a = draw(Shape1::gaussian, 32, 4);
  float absmax = 0;
  for (const float x : a) absmax = std::max(absmax, std::fabs(x));
  const float d = absmax / 127.0F;
  const OpCase c = seen_alone(a, 7);
  const float code = std::nearbyint(a[7] / d), got = code * d;
  expect_word(c, "", "scale_format=f32", {got}, {static_cast<double>((code + 1) * d)});
  expect_word(c, "scale=divide code=divide", "scale=divide code=divide scale_format=f32", {got},
              {static_cast<double>(got * (1 + 0x1p-16F))});
}

TEST(QuantisedWords, ties_of_q8_go_as_they_are_declared) {
  Values a(32, 0.0F);
  a[0] = 127, a[1] = 2.5F;
  const OpCase c = seen_alone(a, 1);
  // Every way finds the scale 127 / 127 = 1 and the quotient 2.5: declared or not, and undeclared as the rule
  // of q8_0 has it.
  for (const std::string own : {"scale=divide code=divide", "", "scale=inverse", "code=reciprocal"}) {
    expect_word(c, own + " ties=even", own, {3}, {2});
    expect_word(c, own, own + " ties=even", {2}, {3});
    expect_word(c, own + " ties=away", own + " ties=even", {2}, {3});
    expect_word(c, own + " ties=even", own + " ties=away", {3}, {2});
    for (const double code : {2.0, 3.0})
      EXPECT_LE(worst_ratio(c.truth(own + " ties=any"), std::vector<double>{code}), 1);
    EXPECT_GT(worst_ratio(c.truth(own + " ties=any"), std::vector<double>{4}), 1);
  }
}

// The same number is judged alike where it is stored and where it is an operand, and round= says the same.
TEST(QuantisedWords, halves_of_q8_go_one_way_in_a_quantiser_and_in_a_product) {
  Values x(32, 0.0F);
  x[0] = 127, x[1] = 2.5F;
  const OpCase product = seen_alone(x, 1);
  OpCase stored("quantize", {{"rows", "1"}, {"cols", "32"}, {"to", "q8_0"}});
  stored.put("x", x);
  for (const auto& [words, code] : {std::pair{"", 3.0}, {"ties=away", 3.0}, {"ties=even", 2.0}}) {
    const Truth in_product = product.truth(words), in_store = stored.truth(words);
    EXPECT_EQ(in_product.value[0], code) << words;
    EXPECT_EQ(in_store.value[1], code) << words;
    EXPECT_EQ(in_store.limit[1], 0) << words;
  }
  EXPECT_EQ(stored.truth("round=nearest_even").value[1], 2);
  EXPECT_EQ(stored.truth("round=nearest_away").value[1], 3);
  EXPECT_THROW((void)stored.truth("round=nearest_even ties=away"), InputError);
  EXPECT_NO_THROW((void)stored.truth("round=nearest_away ties=away"));
}

}  // namespace
}  // namespace assay::testing
