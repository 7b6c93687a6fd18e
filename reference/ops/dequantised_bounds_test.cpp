// Decoding: kernels within their contract whose scales underflow, cancel or are flushed, each simulated in
// plain arithmetic, and beside each a wrong one near it.
#include "reference/formats/rotation.hpp"
#include "reference/formats/tq3.hpp"
#include "reference/ops/quantised_testing.hpp"

namespace assay::testing {
namespace {

float f16_of(double x) { return static_cast<float>(round_f16(x)); }

// One element in front of zeros.
Values alone(float x, std::size_t n) {
  Values y(n, 0.0F);
  y[0] = x;
  return y;
}
void attack(const char* what, const Truth& t, const Values& within, const Values& wrong) {
  std::printf("%s: error/limit %.3g, of the wrong kernel %.3g\n", what, worst_ratio(t, within),
              worst_ratio(t, wrong));
  EXPECT_LE(worst_ratio(t, within), 1) << what;
  EXPECT_GT(worst_ratio(t, wrong), 1) << what;
}

// 6 * 2^-9 / g: the block scale over the global one is subnormal, and its error is multiplied by the code.
constexpr float kGlobal = 0x1.8p127F;
Encoded deep_nvfp4() {
  return Handmade("nvfp4", {1, 16})
      .put("", 0, 6)
      .put(".block_scale", 0, 0x1p-9)
      .put(".global_scale", 0, kGlobal)
      .tensor;
}

TEST(DequantisedBounds, a_scale_of_nvfp4_that_underflows_is_multiplied_by_a_code) {
  const float w = 6.0F * (0x1p-9F / kGlobal), wrong = 6.0F * (0x1p-9F / kGlobal) + 0x1p-145F;
  OpCase c = with("dequantize", {{"rows", "1"}, {"cols", "16"}, {"from", "nvfp4"}}, {{"x", deep_nvfp4()}});
  attack("dequantise nvfp4", c.truth("roundings=2"), alone(w, 16), alone(wrong, 16));
  OpCase m = with(
      "matmul",
      {{"m", "1"}, {"n", "1"}, {"k", "16"}, {"a", "f32"}, {"b", "nvfp4"}, {"path", "f32"}, {"dtype", "f32"}},
      {{"a", plain("f32", {1, 16}, alone(0x1p100F, 16))}, {"b", deep_nvfp4()}});
  attack("matmul nvfp4", m.truth("acc=f32 dequant_roundings=2"), Values{0x1p100F * w},
         Values{0x1p100F * wrong});
}

TEST(DequantisedBounds, the_product_of_two_scales_that_underflows_is_multiplied_by_a_code) {
  constexpr float kFirst = 0x1.8p-70F, kSecond = 0x1p-79F;
  const Encoded w = Handmade("int4_g32_tensor", {1, 32})
                        .put("", 0, 7)
                        .put(".scale", 0, kFirst)
                        .put(".scale_2", 0, kSecond)
                        .tensor;
  const float scale = kFirst * kSecond, decoded = 7.0F * scale, wrong = 7.0F * (scale + 0x1p-149F);
  OpCase c = with("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", "int4_g32_tensor"}}, {{"x", w}});
  attack("dequantise int4_g32_tensor", c.truth("roundings=2"), alone(decoded, 32), alone(wrong, 32));
  OpCase m = with("matmul",
                  {{"m", "1"},
                   {"n", "1"},
                   {"k", "32"},
                   {"a", "f32"},
                   {"b", "int4_g32_tensor"},
                   {"path", "f32"},
                   {"dtype", "f32"}},
                  {{"a", plain("f32", {1, 32}, alone(0x1p100F, 32))}, {"b", w}});
  attack("matmul int4_g32_tensor", m.truth("acc=f32 dequant_roundings=2"), Values{0x1p100F * decoded},
         Values{0x1p100F * wrong});
}

TEST(DequantisedBounds, products_of_q4_K_are_rounded_before_they_cancel) {
  // d sc q = 1.0009765625 * 63 * 15, dmin m = 1.5 * 63 * 10: nearly the same.
  Handmade h("q4_K", {1, 256});
  h.f16(0, 0x1.57p0).f16(2, 20.15);
  h.byte(4, 63).byte(8, 63);
  for (std::size_t j = 0; j < 32; ++j) h.byte(16 + j, 15);
  OpCase c = with("dequantize", {{"rows", "1"}, {"cols", "256"}, {"from", "q4_K"}, {"dtype", "f32"}},
                  {{"x", h.tensor}});
  const double d = round_f16(0x1.57p0), dmin = round_f16(20.15);
  const std::vector<double> exact = decode_tensor(h.tensor);
  Values within(256, 0.0F), wrong(256, 0.0F);
  const float a = f16_of(static_cast<double>(f16_of(d * 63)) * 15), b = f16_of(dmin * 63);
  for (std::size_t j = 0; j < 32; ++j) {
    within[j] = f16_of(static_cast<double>(a) - b);
    wrong[j] = f16_of(static_cast<double>(a) - static_cast<double>(b) * 1.01);
  }
  std::printf("q4_K: %g for %g\n", static_cast<double>(within[0]), exact[0]);
  attack("dequantise q4_K", c.truth("mid=f16 roundings=4"), within, wrong);
}

// The levels, their product with d, five stages of sums and the product with 1 / sqrt(32), each in f16: seven
// roundings.
TEST(DequantisedBounds, a_rotated_number_is_a_sum_that_cancels) {
  double worst = 0, of_wrong = 1e9;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    OpCase c("dequantize", {{"rows", "4"}, {"cols", "64"}, {"from", "tq3_0_c2"}});
    c.put("x", draw(Shape1::gaussian, 256, seed));
    std::vector<double> rotated(256);
    decode_range_rotated(c.set.at("x"), 0, rotated);
    Values y;
    for (std::size_t first = 0; first < 256; first += 32) {
      std::vector<double> v;
      for (std::size_t i = 0; i < 32; ++i) v.push_back(round_f16(rotated[first + i]));
      for (std::size_t half = 1; half < 32; half *= 2)
        for (std::size_t i = 0; i < 32; ++i)
          if ((i & half) == 0) {
            const double a = v[i], b = v[i + half];
            v[i] = round_f16(a + b), v[i + half] = round_f16(a - b);
          }
      apply_signs(std::span<double>(v), std::span(&kTq3Signs, 1));
      for (const double each : v) y.push_back(f16_of(each * round_f16(std::sqrt(1 / 32.0))));
    }
    const Truth t = c.truth("mid=f16 roundings=9");
    worst = std::max(worst, worst_ratio(t, y));
    for (float& each : y) each += 0.5F;
    of_wrong = std::min(of_wrong, worst_ratio(t, y));
  }
  std::printf("dequantise tq3_0_c2 in f16: error/limit %.3g, of the wrong kernel %.3g\n", worst, of_wrong);
  EXPECT_LE(worst, 1);
  EXPECT_GT(of_wrong, 1);
}

TEST(DequantisedBounds, a_stored_scale_that_is_subnormal_is_read_as_zero_under_ftz_alone) {
  const Encoded x = Handmade("mxfp8", {1, 32}).put("", 0, 448).put(".scale", 0, 0x1p-127).tensor;
  OpCase c = with("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", "mxfp8"}}, {{"x", x}});
  attack("dequantise mxfp8, ftz", c.truth("ftz=yes"), alone(0, 32), alone(-448 * 0x1p-127F, 32));
  expect_caught(c.truth("ftz=no"), alone(0, 32));
  Handmade h("e4m3fn_tok", {2, 16});
  h.put("", 0, 448).put(".scale", 0, 0x1p-127).put("", 16, 448).put(".scale", 1, 0x1p-126);
  OpCase s = with("dequantize", {{"rows", "2"}, {"cols", "16"}, {"from", "e4m3fn_tok"}}, {{"x", h.tensor}});
  Values within(32, 0.0F), wrong(32, 0.0F);
  within[16] = 448 * 0x1p-126F;  // a normal scale is not flushed
  attack("dequantise e4m3fn_tok, ftz", s.truth("ftz=yes"), within, wrong);
  // Half of f16's least normal number, as an f32 a normal one.
  OpCase q = with("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", "q8_0"}},
                  {{"x", Handmade("q8_0", {1, 32}).f16(0, 0x1p-15).byte(2, 100).tensor}});
  attack("dequantise q8_0 in f16, ftz", q.truth("mid=f16 ftz=yes"), alone(0, 32), alone(-100 * 0x1p-15F, 32));
  expect_caught(q.truth("mid=f32 ftz=yes"), alone(0, 32));
  OpCase m = with(
      "matmul", {{"m", "1"}, {"n", "1"}, {"k", "64"}, {"a", "mxfp8"}, {"path", "blocks"}, {"dtype", "f32"}},
      {{"a",
        Handmade("mxfp8", {1, 64}).put("", 0, 448).put(".scale", 0, 0x1p-127).put(".scale", 1, 1).tensor},
       {"b", Handmade("mxfp8", {1, 64}).put("", 0, 1).put(".scale", 0, 1).put(".scale", 1, 1).tensor}});
  for (const char* acc : {"acc=f32 ftz=yes", "acc=blackwell_mxfp8 ftz=yes order=sequential"})
    attack("matmul of blocks, ftz", m.truth(acc), Values{0}, Values{-0x1p-100F});
}

TEST(DequantisedBounds, round_and_overflow_are_of_the_output_and_out_is_rounded_to_nearest) {
  // 1 + 2^-8 + 2^-9 is nearest to 1 + 2^-7 in bf16; cut it would be 1.
  OpCase c("dequantize", {{"rows", "1"}, {"cols", "2"}, {"from", "f32"}, {"dtype", "f16"}});
  c.put("x", {1 + 0x1.8p-8F, 1 + 0x1p-12F});
  attack("out=bf16 round=toward_zero", c.truth("out=bf16 round=toward_zero"), Values{1 + 0x1p-7F, 1},
         Values{1, 1});
  // Beyond f16 it is Inf on the way; stored as f32 that stays, or becomes the largest.
  OpCase o("dequantize", {{"rows", "1"}, {"cols", "1"}, {"from", "f32"}, {"dtype", "f32"}});
  o.put("x", {1e6F});
  EXPECT_LE(worst_ratio(o.truth("out=f16 overflow=saturate"), Values{INFINITY}), 1);
  EXPECT_LE(worst_ratio(o.truth("out=f16 overflow=saturate"), Values{3.4028235e38F}), 1);
  expect_caught(o.truth("out=f16"), Values{65504});
}

// Odd codes times 3 have 9 bits, times 33 have 12: exact products in f32, and ties of bf16 and of f16.
TEST(DequantisedBounds, a_tie_of_an_exact_product_is_rounded_as_declared_and_in_no_other_way) {
  struct Stored {
    const char* dtype;
    double scale;
  };
  for (const auto& [dtype, scale] : {Stored{"bf16", 3}, Stored{"f16", 33}}) {
    Handmade x("q8_0", {1, 32});
    x.f16(0, scale);
    std::vector<double> exact(32), even(32), away(32);
    for (unsigned i = 0; i < 32; ++i) {
      const int code = (i % 2 == 0 ? 1 : -1) * static_cast<int>(127 - i);
      x.byte(2 + i, static_cast<unsigned char>(code));
      exact[i] = code * scale;
      even[i] = round_to(scalar_format(dtype), exact[i]);
      away[i] = round_to(scalar_format(dtype), exact[i], {.rounding = Rounding::nearest_away});
    }
    ASSERT_NE(even, away);
    const OpCase c = with("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", "q8_0"}, {"dtype", dtype}},
                          {{"x", x.tensor}});
    for (const char* words : {"round=nearest_even", "round=nearest_even roundings=0"}) {
      expect_pass(c.truth(words), even);
      expect_caught(c.truth(words), away);
    }
    expect_pass(c.truth("round=nearest_away"), away);
    expect_caught(c.truth("round=nearest_away"), even);
  }
}

}  // namespace
}  // namespace assay::testing
