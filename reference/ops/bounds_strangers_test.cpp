// Correct kernels with which people who knew the manual alone broke limits, each beside a wrong one that
// stays caught.
#include <cmath>

#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

using Given = std::map<std::string, std::string>;

// gamma=f16: what is beyond 65504 is an infinity as it is read.
TEST(BoundsOfStrangers, a_gamma_beyond_the_format_that_it_is_read_in_is_an_infinity) {
  OpCase rms("rmsnorm", Given{{"rows", "1"}, {"cols", "2"}, {"dtype", "f16"}});
  rms.put("x", {1, INFINITY}), rms.put("gamma", {0x1p108F, 1});
  const Truth t = rms.truth("gamma=f16");  // 1 / sqrt(Inf) = 0, times Inf
  expect_pass(t, Values{NAN, NAN});
  expect_caught(t, Values{0, NAN});
  expect_pass(rms.truth(""), Values{0, NAN});  // kept in f32 it is finite

  OpCase layer("layernorm", Given{{"rows", "1"}, {"cols", "2"}, {"dtype", "f32"}});
  layer.put("x", {1, -1}), layer.put("gamma", {-INFINITY, 1}), layer.put("beta", {0x1p115F, 0});
  const auto sum = static_cast<float>(-1 / std::sqrt(1 + 1e-5));
  expect_pass(layer.truth("gamma=f16"), Values{NAN, sum});  // -Inf + Inf
  expect_caught(layer.truth("gamma=f16"), Values{-INFINITY, sum});
  expect_pass(layer.truth(""), Values{-INFINITY, sum});
}

OpCase one_head(int len, const char* dtype, const char* scale) {
  return {"attention", Given{{"heads", "1"},
                             {"d", "1"},
                             {"len", std::to_string(len)},
                             {"kv", dtype},
                             {"dtype", dtype},
                             {"scale", scale}}};
}

// Tiles {0}, {1, 2, 3}: the weights of keys 1 and 2 are relative to key 3, and vanish in f16.
TEST(BoundsOfStrangers, tiles_of_attention_begin_anywhere_unless_they_are_declared_aligned) {
  OpCase c = one_head(4, "f32", "1");
  c.put("q", {1}), c.put("k", {-60, -60, -60, 0}), c.put("v", {0x1p100F, 0x1p100F, 0x1p100F, 0});
  const double weight = std::exp(-60.0);
  const auto elsewhere = static_cast<float>(weight * 0x1p100),
             aligned = static_cast<float>(3 * weight * 0x1p100);
  const std::string words = "order=tiles tile=3 p=f16 scaling=scores level=ca";
  expect_pass(c.truth(words), Values{elsewhere});
  expect_pass(c.truth(words), Values{aligned});
  expect_pass(c.truth(words + " tiles=aligned"), Values{aligned});
  expect_caught(c.truth(words + " tiles=aligned"), Values{elsewhere});
  expect_caught(c.truth(words), Values{0x1p80F});
}

TEST(BoundsOfStrangers, q_times_the_scale_may_overflow_where_every_k_is_0) {
  OpCase c = one_head(1, "f16", "1000");
  c.put("q", {0x1.9p+6F}), c.put("k", {0}), c.put("v", {0.5F});
  expect_pass(c.truth("scaling=q_rounded"), Values{NAN});  // Inf times 0
  expect_caught(c.truth("scaling=scores"), Values{NAN});
  expect_pass(c.truth("scaling=scores"), Values{0.5F});
}

TEST(BoundsOfStrangers, a_quotient_of_attention_is_off_by_steps_among_subnormals) {
  OpCase c = one_head(1, "f32", "1");
  c.put("q", {1}), c.put("k", {1}), c.put("v", {0x1p-149F});
  expect_pass(c.truth("div_ulp=8"), Values{9 * 0x1p-149F});
  expect_caught(c.truth("div_ulp=8"), Values{24 * 0x1p-149F});
  expect_caught(c.truth("div_ulp=1"), Values{9 * 0x1p-149F});
}

TEST(BoundsOfStrangers,
     stochastic_rounding_beyond_the_largest_code_is_nan_by_ieee_and_not_where_it_saturates) {
  OpCase c("quantize", Given{{"rows", "1"}, {"cols", "1"}, {"to", "e4m3fn"}});
  c.put("x", {-4992});
  const Truth ieee = c.truth("round=stochastic overflow=ieee"),
              clamped = c.truth("round=stochastic overflow=saturate");
  expect_pass(ieee, Values{NAN});
  expect_pass(clamped, Values{-448});
  expect_caught(clamped, Values{NAN});
  expect_caught(clamped, Values{-416});
}

// A block's scale of 2^-140 in f16 is 0, and 0 times an infinite code NaN.
TEST(BoundsOfStrangers, an_infinite_code_under_a_scale_that_vanishes_is_nobodys) {
  OpCase c("dequantize", Given{{"rows", "1"}, {"cols", "1"}, {"from", "e5m2_tok"}, {"dtype", "f32"}});
  c.put("x", {0x1.16c2p-133F});
  ASSERT_TRUE(std::isinf(c.read("x")[0]));
  expect_pass(c.truth("scale_format=f16"), Values{NAN});
  expect_pass(c.truth("ftz=yes"), Values{NAN});
  expect_caught(c.truth(""), Values{NAN});
  expect_pass(c.truth(""), Values{INFINITY});
}

OpCase blocks_of_32(const char* a, const char* b, const char* path) {
  return {"matmul",
          Given{{"m", "1"}, {"n", "1"}, {"k", "32"}, {"a", a}, {"b", b}, {"dtype", "f32"}, {"path", path}}};
}

TEST(BoundsOfStrangers, a_block_sum_beyond_f16_meets_a_minimum_of_0) {
  OpCase c = blocks_of_32("f32", "q4_1", "q8_1");
  c.put("a", Values(32, 60000)), c.put("b", Values(32, 0));
  expect_pass(c.truth(""), Values{NAN});
  c.put("a", Values(32, 6));
  expect_caught(c.truth(""), Values{NAN});
}

// The sum of a block's codes times the product of both scales, which is subnormal.
TEST(BoundsOfStrangers, the_scales_of_two_blocks_may_be_multiplied_first) {
  OpCase c = blocks_of_32("f32", "q8_0", "q8");
  Values a(32), b(32);
  for (std::size_t i = 0; i < 32; ++i)
    a[i] = std::ldexp(1 + 0.01F * static_cast<float>(i), -118), b[i] = 0x1.5p-16F;
  c.put("a", a), b = c.put("b", b);
  float absmax = 0;
  for (const float x : a) absmax = std::max(absmax, x);
  const float d = absmax / 127, scale_b = static_cast<float>(round_f16(0x1.5p-16 / 127));
  float codes = 0;
  for (std::size_t i = 0; i < 32; ++i) codes += std::nearbyint(a[i] / d) * std::nearbyint(b[i] / scale_b);
  const std::string words = "scale=divide code=divide ties=even scale_format=f32";
  const float at_once = codes * (d * scale_b), in_turn = codes * d * scale_b;
  ASSERT_NE(at_once, in_turn);
  for (const float got : {at_once, in_turn}) expect_pass(c.truth(words), Values{got});
  expect_caught(c.truth(words), Values{in_turn * 1.5F});

  OpCase mx = blocks_of_32("mxfp8", "mxfp8", "blocks");
  const Values small_a = mx.put("a", Values(32, 0x1.2p-65F)), small_b = mx.put("b", Values(32, 0x1.4p-78F));
  const double exact = 32 * double(small_a[0]) * small_b[0];
  expect_pass(mx.truth("acc=f32"), Values{0});  // 2^-73 2^-86 is 0 in f32
  expect_pass(mx.truth("acc=f32"), Values{static_cast<float>(exact)});
  mx.put("a", Values(32, 1.125F)), mx.put("b", Values(32, 1.25F));
  expect_caught(mx.truth("acc=f32"), Values{0});
}

}  // namespace
}  // namespace assay::testing
