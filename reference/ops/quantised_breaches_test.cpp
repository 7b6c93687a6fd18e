// What kernels of the adversary broke of the quantisers' limits: each within its contract and within the
// limit now, and beside each a wrong one that the same limit catches.
#include "reference/formats/blocks/iq4_codebook.hpp"
#include "reference/mix.hpp"
#include "reference/ops/quantised_testing.hpp"

namespace assay::testing {
namespace {

OpCase quantised(const char* to, const Values& x) {
  OpCase c("quantize", {{"rows", "1"}, {"cols", std::to_string(x.size())}, {"to", to}});
  c.put("x", x);
  return c;
}

// A block of these and zeros.
Values of_32(Values x) {
  x.resize(32, 0.0F);
  return x;
}

TEST(QuantisedBreaches, a_scale_that_is_the_reciprocal_of_an_infinity_is_0_or_counts_as_1) {
  const OpCase c = quantised("int8_tok", Values(4, 0x1p-125F));  // 127 / absmax is Inf
  const Truth direct = c.truth("scale=inverse code=direct"), divided = c.truth("scale=inverse code=divide");
  EXPECT_LE(worst_ratio(direct, Values(4, 127)), 1);  // Inf, saturated, times 1
  EXPECT_GT(worst_ratio(direct, Values(4, -128)), 1);
  EXPECT_LE(worst_ratio(divided, Values(4, 0)), 1);
  EXPECT_GT(worst_ratio(divided, Values(4, 1)), 1);
}

TEST(QuantisedBreaches, what_is_divided_in_q4_1_is_x_less_the_least_element) {
  int parted = 0;
  for (int i = 0; i < 4000; ++i) {
    // x = 0, of which no relative move is seen, on the tie of two codes under a least element far below.
    const float least = -1 - static_cast<float>(i % 97) * 0x1.1p-9F, code = static_cast<float>(i % 15) + 0.5F;
    Values x(32, 0.0F);
    x[0] = least, x[1] = least - 15 * (least / code);
    const float d = (x[1] - least) / 15.0F, by_division = std::trunc(-least / d + 0.5F),
                by_reciprocal = std::trunc(-least * (1.0F / d) + 0.5F);
    if (by_division == by_reciprocal) continue;
    ++parted;
    const Truth t = quantised("q4_1", x).truth("");
    const double scale = round_f16(static_cast<double>(d)), minimum = round_f16(static_cast<double>(least));
    for (const float code_of : {by_division, by_reciprocal}) {
      const double got = std::min(15.0, static_cast<double>(code_of)) * scale + minimum;
      EXPECT_TRUE(assay::judge(got, t.value[2], t.limit[2]).ok) << i;
    }
    const double far = (std::max(by_division, by_reciprocal) + 5) * scale + minimum;
    EXPECT_FALSE(assay::judge(far, t.value[2], t.limit[2]).ok) << i;
  }
  EXPECT_GT(parted, 0);
}

TEST(QuantisedBreaches, beside_an_infinity_a_drawn_code_may_be_a_whole_scale_away) {
  const OpCase c = quantised("int8_tok", {0.001F, 1, INFINITY, 0});
  const double scale = static_cast<double>(1 / 127.0F);
  const std::vector<double> drawn{scale, 127 * scale, 127 * scale, 0};
  EXPECT_LE(worst_ratio(c.truth("round=stochastic"), drawn), 1);
  EXPECT_GT(worst_ratio(c.truth("round=nearest_even absmax=finite"), drawn), 1);
}

TEST(QuantisedBreaches, beside_a_nan_a_scale_that_f16_does_not_hold_decodes_to_no_number) {
  const OpCase c = quantised("int8_tok", {1e8F, 1, NAN, 0});
  const std::vector<double> got{HUGE_VAL, std::nan(""), 0, 0};
  EXPECT_LE(worst_ratio(c.truth("scale_format=f16"), got), 1);
  EXPECT_GT(worst_ratio(c.truth("scale_format=f32 absmax=finite"), got), 1);
  const std::vector<double> zeroed{HUGE_VAL, HUGE_VAL, std::nan(""), 0};
  EXPECT_LE(worst_ratio(c.truth("scale_format=f16 nan=zero"), zeroed), 1);
  EXPECT_GT(worst_ratio(c.truth("scale_format=f32 nan=zero absmax=finite"), zeroed), 1);
}

TEST(QuantisedBreaches, a_decoded_activation_may_overflow_under_a_scale_that_is_rounded_up) {
  const auto product = [](float a, float w) {
    Values x(32, 0.0F), y(32, 0.0F);
    x[0] = a, y[0] = w;
    return with(
        "matmul",
        {{"m", "1"}, {"n", "1"}, {"k", "32"}, {"a", "f32"}, {"b", "f32"}, {"path", "q8"}, {"dtype", "f32"}},
        {{"a", plain("f32", {1, 32}, x)}, {"b", plain("f32", {1, 32}, y)}});
  };
  const float largest = std::numeric_limits<float>::max();
  EXPECT_LE(worst_ratio(product(largest, 0x1p-6F).truth("scale_format=f32"), Values{INFINITY}), 1);
  EXPECT_GT(worst_ratio(product(largest / 8192, 0x1p-6F).truth("scale_format=f32"), Values{INFINITY}), 1);
}

TEST(QuantisedBreaches, the_code_4_of_the_largest_exponent_of_mxfp4_ggml_is_beyond_f32) {
  Values x(32, 0.0F);
  x[0] = std::numeric_limits<float>::max(), x[1] = 1;
  std::vector<double> got(32, 0.0);
  got[0] = 0x1p128;  // the logarithm is 128 in f32, the code nearest to 3.9999998 is 4
  EXPECT_LE(worst_ratio(quantised("mxfp4_ggml", x).truth(""), got), 1);
  x[0] /= 4, got[0] = 0x1p127;
  EXPECT_GT(worst_ratio(quantised("mxfp4_ggml", x).truth(""), got), 1);
}

TEST(QuantisedBreaches, an_infinite_element_under_a_block_scale_that_is_flushed_is_nan) {
  Handmade x("mxfp8_e5m2", {1, 32});
  x.byte(0, 0x7c);  // Inf, under 2^-127
  const OpCase c =
      with("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", "mxfp8_e5m2"}, {"dtype", "f32"}},
           {{"x", x.tensor}});
  std::vector<double> got(32, 0.0);
  got[0] = NAN;
  EXPECT_LE(worst_ratio(c.truth("ftz=yes"), got), 1);
  EXPECT_GT(worst_ratio(c.truth("ftz=no"), got), 1);
}

TEST(QuantisedBreaches, a_scale_may_be_flushed_in_the_format_that_it_is_rounded_to) {
  const auto of = [](const char* from, double code, double scale) {
    Handmade x(from, {1, 1});
    x.put("", 0, code).put(".scale", 0, scale);
    return with("dequantize", {{"rows", "1"}, {"cols", "1"}, {"from", from}, {"dtype", "f32"}},
                {{"x", x.tensor}});
  };
  const Values zero{0};
  EXPECT_LE(
      worst_ratio(of("e4m3fnuz_tok", -12, 0x1p-128).truth("mid=f64 scale_format=bf16 roundings=2 ftz=yes"),
                  zero),
      1);
  EXPECT_LE(worst_ratio(of("int8_head", 54, 0x1.d5c012p-17).truth("scale_format=f16 mid=bf16 ftz=yes"), zero),
            1);
  EXPECT_GT(worst_ratio(of("int8_head", 54, 0x1.d5c012p-17).truth("scale_format=f16 mid=bf16 ftz=no"), zero),
            1);
  EXPECT_GT(worst_ratio(of("int8_head", 54, 0x1.d5c012p-13).truth("scale_format=f16 mid=bf16 ftz=yes"), zero),
            1);
}

TEST(QuantisedBreaches, an_ulp_of_a_power_of_two_is_two_neighbours_below_it) {
  const OpCase c = quantised("int8_tok", {127, 0});  // the scale is 1
  for (const char* range : {"any", "full", "symmetric"}) {
    const std::string words = std::string("int_range=") + range + " scale_ulp=";
    EXPECT_LE(worst_ratio(c.truth(words + "1"), std::vector<double>{127 - 127 * 0x1p-23, 0}), 1) << range;
    EXPECT_GT(worst_ratio(c.truth(words + "1"), std::vector<double>{127 - 127 * 0x1.8p-23, 0}), 1) << range;
    EXPECT_GT(worst_ratio(c.truth(words + "0"), std::vector<double>{127 - 127 * 0x1p-23, 0}), 1) << range;
  }
}

// absmax / D is 0.3 steps of 2^-149: 0, stored as 1, or one step where an ulp is declared.
TEST(QuantisedBreaches, a_scale_of_0_one_ulp_more_is_a_step) {
  for (const char* to : {"e4m3fn_tok", "int8_tok"}) {
    const double d = format(to).scale_divisor;
    const auto x = static_cast<float>(d * 0.3 * 0x1p-149);
    const OpCase c = quantised(to, {x, 0});
    const double code = round_to(scalar_format(format(to).element), x / 0x1p-149);
    const std::vector<double> step{code * 0x1p-149, 0}, one{0, 0};
    const std::string words = "scale=divide code=divide scale_ulp=";
    for (const char* ulp : {"1", "2"}) {
      EXPECT_LE(worst_ratio(c.truth(words + ulp), step), 1) << to;
      EXPECT_LE(worst_ratio(c.truth(words + ulp), one), 1) << to;
    }
    EXPECT_GT(worst_ratio(c.truth(words + "0"), step), 1) << to;
  }
}

// absmax / 448 is the middle between 0 and the least number of f16: stored as 0, or an ulp more as 2^-24.
TEST(QuantisedBreaches, a_second_scale_that_f16_stores_as_0_makes_zeros) {
  const OpCase c = quantised("int4_ch_tensor", {6 * 0x1p-20F, 14 * 0x1p-20F});
  const std::string words = "scale=divide code=divide code_scale=stored scale_format=f16 scale_ulp=";
  for (const char* ulp : {"1", "2"}) {
    EXPECT_LE(worst_ratio(c.truth(words + ulp), std::vector<double>{0, 0}), 1);
    EXPECT_GT(worst_ratio(c.truth(words + ulp), std::vector<double>{0, 1}), 1);
  }
}

TEST(QuantisedBreaches, a_scale_one_ulp_less_may_be_0_and_so_1) {
  const OpCase c = quantised("int8_head", {-0x1.9p-143F, 0x1p-149F});
  const std::string words = "scale_format=f16 round=stochastic code=divide code_scale=exact";
  EXPECT_LE(worst_ratio(c.truth(words + " scale_ulp=1"), Values{-1, 1}), 1);
  EXPECT_GT(worst_ratio(c.truth(words + " scale_ulp=0"), Values{-1, 1}), 1);
}

TEST(QuantisedBreaches, the_scale_0_of_an_infinite_multiplier_counts_as_1) {
  const Values x{0x1.eb851ep-123F, 0x1.a3d70ap-123F};
  for (const char* to : {"int8_head", "int8_tok", "e4m3fn_tok", "e4m3fnuz_row", "e5m2_ch"}) {
    const OpCase c = quantised(to, x);
    const double most = scalar_format(format(to).element).max_finite;
    const std::vector<double> got{most, most};
    for (const char* words : {"scale=inverse code=direct", "scale=any code=any", "scale=inverse code=any"})
      EXPECT_LE(worst_ratio(c.truth(words), got), 1) << to << " " << words;
    EXPECT_GT(worst_ratio(c.truth("scale=divide code=divide"), got), 1) << to;
  }
  const OpCase drawn =
      quantised("int8_row", {-0x1.8a3cp-134F, 0x1.e666p-134F, -0x1.b85p-135F, 0x1.5c28p-136F});
  const Values got{-1, 1, -1, 0};
  for (const char* scale : {"any", "inverse"})
    EXPECT_LE(
        worst_ratio(
            drawn.truth(std::string("code=reciprocal code_scale=stored round=stochastic scale=") + scale),
            got),
        1);
  EXPECT_GT(worst_ratio(drawn.truth("code=reciprocal code_scale=stored scale=inverse"), got), 1);
}

TEST(QuantisedBreaches, the_exponent_of_ggml_is_that_of_a_rounded_logarithm_at_every_power) {
  for (const int e : {-20, 0, 60, 126, 127}) {
    Values x(32, 0.0F);
    x[29] = -std::ldexp(0x1.fffffep0F, e);
    std::vector<double> got(32, 0.0);
    got[29] = -std::ldexp(1.0, e + 1);
    EXPECT_LE(worst_ratio(quantised("mxfp4_ggml", x).truth(""), got), 1) << e;
    got[29] *= 2;
    const bool is_claimed = e < 127;  // 2^128 is beyond f32
    EXPECT_EQ(worst_ratio(quantised("mxfp4_ggml", x).truth(""), got) > 1, is_claimed) << e;
  }
}

// Two quotients of one block are ties: the sums that make the scale are of either entry for each.
TEST(QuantisedBreaches, several_ties_of_a_block_of_iq4_nl_come_together) {
  const Values x{0x1.3264cap-1F,
                 -0.0F,
                 0x1p+3F,
                 0.0F,
                 0x1.999a0cp-4F,
                 0x1.3264cap-2F,
                 -0x1.5c28eep-1F,
                 0.0F,
                 0x1.c3870ep-8F,
                 -0x1.0a69p-133F,
                 -0x1.0f5c28p-1F,
                 -0x1.fae144p-1F,
                 0x1.999952p-4F,
                 0x1.ccccccp-2F,
                 0x1.d3a74ep-5F,
                 0x1p+3F,
                 -0x1.5c2p-3F,
                 0x1.f5c28ep-2F,
                 0.0F,
                 0x1.850a14p+2F,
                 -0x1p-130F,
                 0x1.52a54ap+1F,
                 -0x1.eb8562p-3F,
                 0x1.6b851ep-1F,
                 0.0F,
                 -0x1p-24F,
                 0x1.cb972ep+0F,
                 0.0F,
                 -0x1.b366cep-11F,
                 -0x1.70e1c4p+2F,
                 0x1.47ae14p-1F,
                 -0x1.47ae14p-4F};
  const Truth t = quantised("iq4_nl", x).truth("");
  EXPECT_TRUE(assay::judge(0x1.3fbp-1, t.value[0], t.limit[0]).ok) << t.value[0] << " " << t.limit[0];
  EXPECT_FALSE(assay::judge(0x1.38p-1, t.value[0], t.limit[0]).ok) << t.limit[0];
}

// Blocks with +a and -a, in which every third element lies half-way between two entries of the codebook under
// the one or the other: 36 kernels of each take either extreme, quotients by division, by a reciprocal or
// times -127 / m, ties up or down, and sums in three orders. One that takes the entry below each quotient is
// caught.
TEST(QuantisedBreaches, two_extremes_and_ties_of_a_block_of_iq4_nl_come_together) {
  int caught = 0, beyond = 0;
  double worst = 0;
  std::uint64_t state = 7;
  const auto uniform = [&] { return static_cast<double>(next_mixed(state) >> 11) * 0x1p-53; };
  for (int drawn = 0; drawn < 300; ++drawn) {
    Values x(32);
    const auto a = static_cast<float>(std::ldexp(1 + uniform(), drawn % 12 - 6));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto entry = static_cast<std::size_t>(next_mixed(state) % 15);
      const double half = (blocks::kIq4Codebook[entry] + blocks::kIq4Codebook[entry + 1]) / 2.0;
      x[i] = static_cast<float>(i % 3 == 0 ? (drawn % 2 == 0 ? half : -half) / 127 * a
                                           : (2 * uniform() - 1) * a);
    }
    x[drawn % 32] = a, x[(drawn + 11) % 32] = -a;
    const Truth t = quantised("iq4_nl", x).truth("");
    for (const float m : {a, -a})
      for (int how = 0; how < 18; ++how) {
        const float d0 = m / -127.0F;
        float above[4] = {}, below[4] = {};
        std::vector<double> got(32), lower(32);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const float q = how % 3 == 0 ? x[i] / d0 : how % 3 == 1 ? x[i] * (1.0F / d0) : x[i] * (-127.0F / m);
          std::size_t code = blocks::iq4_code(q, Rounding::toward_negative);
          const double c = blocks::kIq4Codebook[code];
          const double next = code < 15 ? blocks::kIq4Codebook[code + 1] : HUGE_VAL;
          lower[i] = c;
          if (next - q < q - c || (next - q == q - c && how / 3 % 2 == 0)) ++code;
          const float entry = blocks::kIq4Codebook[code], weight = x[i] * x[i] * entry;
          const std::size_t lane = how / 6 == 0 ? 0 : how / 6 == 1 ? i % 4 : i / 8;
          above[lane] += weight * x[i], below[lane] += weight * entry, got[i] = entry;
        }
        const float n = (above[0] + above[1]) + (above[2] + above[3]),
                    d = (below[0] + below[1]) + (below[2] + below[3]);
        for (double& each : got) each *= round_f16(static_cast<double>(n / d));
        for (double& each : lower) each *= round_f16(static_cast<double>(n / d));
        const double ratio = worst_ratio(t, got);
        EXPECT_LE(ratio, 1) << drawn << " " << m << " " << how;
        worst = std::max(worst, ratio);
        ++beyond, caught += worst_ratio(t, lower) > 1 ? 1 : 0;
      }
  }
  EXPECT_GT(worst, 0.9);
  EXPECT_GT(caught, beyond * 95 / 100);
}

// Two elements of largest magnitude, and a scale that an ulp moves across a tie of f16: which of both is
// taken is another question.
TEST(QuantisedBreaches, of_two_signed_extremes_either_is_taken_under_either_scale) {
  for (const int codes : {8, 16}) {
    const double a = 1.5 * codes * 0x1p-24;
    const OpCase c =
        quantised(codes == 8 ? "q4_0" : "q5_0", of_32({static_cast<float>(-a), static_cast<float>(a)}));
    const Truth t = c.truth("scale_ulp=1");
    const double d = round_f16(static_cast<double>(std::nextafterf(static_cast<float>(a / -codes), 0)));
    EXPECT_TRUE(assay::judge((codes - 1) * d, t.value[0], t.limit[0]).ok) << codes;
    EXPECT_FALSE(assay::judge((codes - 3) * d, t.value[0], t.limit[0]).ok) << codes;
  }
}

TEST(QuantisedBreaches, the_absmax_of_the_finite_elements_is_what_the_word_says_in_blocks_too) {
  for (const char* to : {"q8_0", "q4_0", "q5_0", "mxfp4", "mxfp4_ggml", "nvfp4"})
    for (const float bad : {INFINITY, NAN}) {
      const OpCase c = quantised(to, of_32({1, bad, -1}));
      const std::vector<double> finite = decode_tensor(plain(to, {1, 32}, of_32({1, 0, -1})));
      const Truth t = c.truth("absmax=finite"), any = c.truth("");
      for (const std::size_t i : {0U, 2U, 3U}) {
        EXPECT_TRUE(assay::judge(finite[i], t.value[i], t.limit[i]).ok) << to << i;
        EXPECT_FALSE(assay::judge(NAN, t.value[i], t.limit[i]).ok) << to << i;
        EXPECT_TRUE(assay::judge(NAN, any.value[i], any.limit[i]).ok) << to << i;
      }
      EXPECT_FALSE(assay::judge(-finite[0], t.value[0], t.limit[0]).ok) << to;
    }
}

TEST(QuantisedBreaches, both_scales_of_two_are_rounded_to_the_format_that_is_declared) {
  const double scale = 0x1.00fp0, narrow = round_bf16(static_cast<float>(scale));
  for (const char* from : {"int4_ch_tensor", "int4_g32_tensor", "int4_g32"}) {
    Handmade h(from, {1, 32});
    h.put("", 0, 7).put(".scale", 0, scale);
    if (std::string_view(from).ends_with("_tensor")) h.put(".scale_2", 0, scale);
    const double both = std::string_view(from).ends_with("_tensor") ? narrow * narrow : narrow;
    const OpCase c = with("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", from}, {"dtype", "f32"}},
                          {{"x", h.tensor}});
    std::vector<double> got(32, 0.0);
    got[0] = 7 * both;
    EXPECT_LE(worst_ratio(c.truth("scale_format=bf16"), got), 1) << from;
    EXPECT_GT(worst_ratio(c.truth(""), got), 1) << from;
  }
}

TEST(QuantisedBreaches, words_that_the_rule_of_a_format_does_not_have_are_refused) {
  const auto refused = [](const char* to, const char* words) {
    try {
      (void)quantised(to, of_32({1})).truth(words);
    } catch (const InputError& e) {
      return std::string(e.what()).find(std::string("with to=") + to) != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused("mxfp8", "subnormals=zero"));
  EXPECT_TRUE(refused("nvfp4", "quotient=f16"));
  EXPECT_TRUE(refused("q8_0", "quotient=bf16"));
  EXPECT_FALSE(refused("q8_0", "subnormals=zero"));  // integers have none
  EXPECT_FALSE(refused("int4_g32_bf16", "quotient=bf16"));
  EXPECT_FALSE(refused("e4m3fn_tensor", "subnormals=zero quotient=f16"));
}

// What the scale of a later request is made of may be undefined too.
TEST(QuantisedBreaches, a_calibration_set_that_is_not_finite_leaves_its_scale_undefined) {
  for (const char* policy : {"calibrated", "locked"}) {
    OpCase c("kv_write",
             {{"tokens", "1"}, {"heads", "1"}, {"d", "2"}, {"to", "int8_tensor"}, {"policy", policy}});
    c.put("first", {1, NAN}), c.put("x", {0.5F, 1});
    const std::vector<double> nan(2, std::nan(""));
    EXPECT_LE(worst_ratio(c.truth(""), nan), 1) << policy;
    EXPECT_GT(worst_ratio(c.truth("absmax=finite"), nan), 1) << policy;
  }
}

}  // namespace
}  // namespace assay::testing
