// What kernels of the adversary broke of the quantisers' limits: each within its contract and within the
// limit now, and beside each a wrong one that the same limit catches.
#include "reference/ops/quantised_testing.hpp"

namespace assay::testing {
namespace {

OpCase quantised(const char* to, const Values& x) {
  OpCase c("quantize", {{"rows", "1"}, {"cols", std::to_string(x.size())}, {"to", to}});
  c.put("x", x);
  return c;
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
  EXPECT_GT(worst_ratio(c.truth("round=nearest_even"), drawn), 1);
}

TEST(QuantisedBreaches, beside_a_nan_a_scale_that_f16_does_not_hold_decodes_to_no_number) {
  const OpCase c = quantised("int8_tok", {1e8F, 1, NAN, 0});
  const std::vector<double> got{HUGE_VAL, std::nan(""), 0, 0};
  EXPECT_LE(worst_ratio(c.truth("scale_format=f16"), got), 1);
  EXPECT_GT(worst_ratio(c.truth("scale_format=f32"), got), 1);
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

}  // namespace
}  // namespace assay::testing
