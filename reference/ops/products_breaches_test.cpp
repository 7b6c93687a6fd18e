// What kernels that keep the manual's sentences broke of the limits of products: each within them now, or
// nothing is claimed, and beside each a wrong kernel, or the same number where nothing excuses it, that stays
// caught.
#include "reference/ops/quantised_testing.hpp"

namespace assay::testing {
namespace {

constexpr unsigned kInfCode = 0x7c;  // of e5m2

OpCase product(int k, const char* path, const Encoded& a, const Encoded& b) {
  return with("matmul",
              {{"m", "1"},
               {"n", "1"},
               {"k", std::to_string(k)},
               {"a", a.format},
               {"b", b.format},
               {"path", path},
               {"dtype", "f32"}},
              {{"a", a}, {"b", b}});
}
Encoded row_of(const char* name, Values values, std::size_t k) {
  values.resize(k, 0.0F);
  return plain(name, {1, static_cast<std::int64_t>(k)}, values);
}
// A row of codes, zeros behind those that are given, under its scales.
Encoded codes(const char* name, std::int64_t k, const std::vector<unsigned>& bytes, double scale,
              double second = 0) {
  Handmade made(name, {1, k});
  for (std::size_t i = 0; i < bytes.size(); ++i) made.byte(i, bytes[i]);
  made.put(".scale", 0, scale);
  if (second != 0) made.put(".scale_2", 0, second);
  return made.tensor;
}
void expect_within(const OpCase& c, const char* contract, double got) {
  EXPECT_LE(worst_ratio(c.truth(contract), std::vector<double>{got}), 1) << contract << ": " << got;
}
void expect_beyond(const OpCase& c, const char* contract, double got) {
  EXPECT_GT(worst_ratio(c.truth(contract), std::vector<double>{got}), 1) << contract << ": " << got;
}

TEST(ProductsBreaches, an_infinite_code_under_a_scale_that_is_flushed_is_nan) {
  for (const char* path : {"f32", "bf16", "q8"}) {
    const int k = std::string_view(path) == "q8" ? 32 : 1;
    const Encoded one = row_of("f32", {1}, static_cast<std::size_t>(k)),
                  inf = codes("e5m2_tensor", k, {kInfCode}, 0x1p-130);
    const OpCase c = k == 1 ? product(k, path, inf, one) : product(k, path, one, inf);
    expect_within(c, "ftz=yes", NAN);
    if (k == 1) expect_beyond(c, "ftz=no", NAN);
    if (k == 1) expect_within(c, "ftz=no", INFINITY);
  }
  Handmade mx("mxfp8_e5m2", {1, 32});
  mx.byte(0, kInfCode);
  const Encoded one = Handmade("mxfp8_e5m2", {1, 32}).byte(0, 0x3c).put(".scale", 0, 1).tensor;
  expect_within(product(32, "blocks", mx.tensor, one), "acc=f32 ftz=yes", NAN);
  expect_beyond(product(32, "blocks", mx.tensor, one), "acc=f32 ftz=no", NAN);
}

TEST(ProductsBreaches, a_number_beyond_f32_is_an_infinity_where_it_is_decoded) {
  const Encoded large = codes("e4m3fn_tensor", 2, {0x7e, 0x38}, 0x1.fp120),
                normal = codes("e4m3fn_tensor", 2, {0x7e, 0x38}, 1);
  for (const char* path : {"f32", "tf32", "bf16"}) {
    expect_within(product(2, path, large, row_of("f32", {0x1p-77F, -INFINITY}, 2)), "acc=f32", NAN);
    expect_beyond(product(2, path, normal, row_of("f32", {0x1p-77F, -INFINITY}, 2)), "acc=f32", NAN);
  }
  for (const char* path : {"q8", "q8_1"})
    for (const char* scale : {"scale_format=f32", ""}) {
      const Encoded weights = codes("e4m3fn_tok", 32, {0x38, 0x7e}, 0x1.fp120),
                    few = codes("e4m3fn_tok", 32, {0x38, 0x7e}, 0x1.fp60);
      expect_within(product(32, path, row_of("f32", {1, 0}, 32), weights), scale, NAN);
      expect_within(product(32, path, row_of("f32", {1, 0x1p-3F}, 32), weights), scale, INFINITY);
      expect_beyond(product(32, path, row_of("f32", {1, 0}, 32), few), scale, NAN);
    }
}

// A unit that cuts to tf32 is handed an f32: what is beyond that is Inf before it is cut.
TEST(ProductsBreaches, a_number_beyond_f32_is_not_cut_to_the_largest_tf32) {
  const auto of = [](double scale) {
    return product(1, "tf32", codes("e4m3fn_tensor", 1, {0x7e}, scale), row_of("f32", {0x1p-100F}, 1));
  };
  for (const char* words :
       {"acc=f32 tf32=toward_zero dequant_roundings=0", "acc=f32 tf32=toward_zero", "acc=f32 tf32=any"}) {
    expect_within(of(0x1p120), words, INFINITY);
    expect_beyond(of(0x1p118), words, INFINITY);
  }
}

// The product of both scales of a block vanishes, that of a scale and a minimum does not: what is left is no
// number times a scale.
TEST(ProductsBreaches, a_scale_beside_a_minimum_may_vanish_alone) {
  Handmade b("q4_K", {1, 256});
  b.f16(0, 0x1p-14).f16(2, 0x1p-5);
  for (std::size_t i = 4; i < 144; ++i) b.byte(i, 0xff);  // scales and minima of 63, codes of 15
  const OpCase c = product(256, "q8_K", row_of("f32", Values(256, 127 * 0x1p-113F), 256), b.tensor);
  const double of_minima = -256 * 127 * 0x1p-113 * 63 * 0x1p-5,
               all = of_minima + 256 * 127 * 0x1p-113 * 63 * 15 * 0x1p-14;
  expect_within(c, "ftz=yes", of_minima);
  expect_within(c, "ftz=yes", all);
  expect_beyond(c, "ftz=no", of_minima);
}

// Whether a zero has an exponent, -126, that aligns a block is known of hardware alone.
TEST(ProductsBreaches, zeros_beside_large_numbers_may_align_a_block_of_a_unit_that_nobody_has_tried) {
  const auto of = [](float scale) {
    return product(2, "tf32", row_of("f32", {-0x1.54cp+18F, 0x1.44cp+24F}, 2),
                   row_of("f32", {0x1.8p-135F * scale, 0}, 2));
  };
  const char* const asked = "acc=a100_tf32 order=sequential tf32=toward_zero";
  expect_within(of(1), asked, -0x1.ffp-117);
  expect_within(of(1), asked, -0x1.ff2p-117);
  expect_beyond(of(1), "acc=hopper_tf32 order=sequential tf32=toward_zero", -0x1.ffp-117);
  expect_beyond(of(0x1p60F), asked, -0x1.ffp-57);
  expect_within(of(0x1p60F), asked, -0x1.ff2p-57);
}

// A unit takes block scales without their sign; the format's own is -1.
TEST(ProductsBreaches, a_negative_block_scale_is_nothing_that_a_unit_claims) {
  const auto of = [](unsigned scale) {
    Handmade a("nvfp4", {1, 16});
    for (std::size_t i = 0; i < 8; ++i) a.byte(i, 0x22);
    plane_of(a.tensor, ".block_scale").bytes[0] = static_cast<std::byte>(scale);
    a.put(".global_scale", 0, 1);
    Handmade b = a;
    plane_of(b.tensor, ".block_scale").bytes[0] = std::byte{0x38};
    return product(16, "blocks", a.tensor, b.tensor);
  };
  for (const double got : {16.0, -16.0}) expect_within(of(0xb8), "acc=blackwell_nvfp4", got);
  expect_within(of(0xb8), "acc=f32", -16);
  expect_beyond(of(0xb8), "acc=f32", 16);
  expect_beyond(of(0x38), "acc=blackwell_nvfp4", -16);
}

// 1 is a scale like any other: a sum in f64 times the f32 1 is rounded to f32, and may then be a tie of the
// store's.
TEST(ProductsBreaches, scales_of_1_round_a_sum_that_is_no_f32) {
  const Encoded one = codes("e4m3fn_row", 3, {0x58, 0x38, 0x01}, 1);  // 16, 1 and 2^-9: 257 + 2^-18
  const OpCase c = with(
      "matmul", {{"m", "1"}, {"n", "1"}, {"k", "3"}, {"a", one.format}, {"b", one.format}, {"dtype", "bf16"}},
      {{"a", one}, {"b", one}});
  expect_within(c, "acc=f64", 256);
  expect_within(c, "acc=f64", 258);
  expect_beyond(c, "acc=f64", 260);
  expect_beyond(c, "acc=f64 epilogue_roundings=0", 256);
}

TEST(ProductsBreaches, weights_of_q8_are_rounded_where_they_are_decoded) {
  const auto product_with = [](double scale) {
    return product(32, "q8", row_of("f32", {0x1.fcp100F}, 32), codes("e4m3fn_tok", 32, {0x01}, scale));
  };
  const OpCase tiny = product_with(0x1.8p-141), normal = product_with(0x1.8p-101);
  expect_within(tiny, "scale_format=f32", 0x1.fcp100 * 0x1p-149);
  expect_within(tiny, "scale_format=f32", 0x1.fcp100 * 0x1.8p-150);
  expect_beyond(tiny, "scale_format=f32", 0x1.fcp100 * 0x1.8p-148);
  expect_within(normal, "scale_format=f32", 0x1.fcp100 * 0x1.8p-110);
  expect_beyond(normal, "scale_format=f32", 0x1.fcp100 * 0x1p-109);
}

TEST(ProductsBreaches, an_infinite_scale_less_an_infinite_minimum_may_be_applied_to_a_sum_of_codes) {
  const auto of = [](unsigned high) {
    Handmade b("q5_1", {1, 32});
    b.byte(1, high).byte(3, high);  // of an f16, and of the minimum
    for (std::size_t i = 4; i < 24; ++i) b.byte(i, 0x11);
    return product(32, "q8_1", row_of("f32", {-1}, 32), b.tensor);
  };
  expect_within(of(0x7c), "", -INFINITY);
  expect_beyond(of(0x7e), "", -INFINITY);  // NaN
}

TEST(ProductsBreaches, two_scales_of_three_are_multiplied_first) {
  const Encoded a = codes("e5m2_row", 6, {0x6c, 0x00, 0xc5, 0x94, 0xe1, 0x4e}, 0x1.2p-40),
                b = codes("int4_ch_tensor", 6, {0x2c, 0x96, 0xf9}, 0x1.10ed18p-93, 0x1.f03ffep81);
  expect_within(product(6, "codes", a, b), "acc=f64 epilogue_roundings=4", -0x1.b2688p-38);
  expect_beyond(product(6, "codes", a, b), "acc=f64 epilogue_roundings=4", -0x1.bep-38);
  const Encoded near = codes("e5m2_row", 6, {0x6c, 0x00, 0xc5, 0x94, 0xe1, 0x4e}, 0x1.2p-20);
  expect_beyond(product(6, "codes", near, b), "acc=f64 epilogue_roundings=4", -0x1.b2688p-18);
}

TEST(ProductsBreaches, two_scales_of_three_may_vanish_beside_an_infinity) {
  const auto of = [](double scale) {
    return product(6, "codes", codes("e5m2_row", 6, {kInfCode}, scale),
                   codes("int4_ch_tensor", 6, {0x01}, 0x1p-93, 0x1p81));
  };
  expect_within(of(0x1p-80), "acc=f32", NAN);  // 2^-80 2^-93 is 0
  expect_beyond(of(0x1p-10), "acc=f32", NAN);
  expect_within(of(0x1p-10), "acc=f32", INFINITY);
}

TEST(ProductsBreaches, two_scales_overflow_beside_a_sum_of_0) {
  const auto of = [](double scale) {
    return product(6, "codes", codes("int4_ch_tensor", 6, {0x0f}, 0x1p-73, 0x1.a63602p-65),
                   codes("int4_ch_tensor", 6, {0xf0}, scale, 0x1.dffdf8p121));
  };
  expect_within(of(0x1.2p110), "acc=f32 epilogue_roundings=4", NAN);
  expect_beyond(of(0x1.2p-110), "acc=f32 epilogue_roundings=4", NAN);
  expect_within(of(0x1.2p-110), "acc=f32 epilogue_roundings=4", 0);
}

TEST(ProductsBreaches, the_product_of_two_divisors_may_be_0_beside_a_sum_of_0) {
  const auto of = [](double first, double second) {
    Handmade a("nvfp4", {1, 16}), b("nvfp4", {1, 16});
    b.byte(0, 0x02), a.put(".global_scale", 0, first), b.put(".global_scale", 0, second);
    a.put(".block_scale", 0, 0), b.put(".block_scale", 0, 1);
    return product(16, "blocks", a.tensor, b.tensor);
  };
  expect_within(of(0x1.0a30a2p-126, 0x1.5ffffcp-2), "acc=f32 epilogue_roundings=2 ftz=yes", NAN);
  expect_beyond(of(1, 0x1.5ffffcp-2), "acc=f32 epilogue_roundings=2 ftz=yes", NAN);
}

TEST(ProductsBreaches, a_sum_of_f64_becomes_an_f32_before_its_scales) {
  Handmade scales("e8m0", {1, 6});
  for (std::size_t i = 0; i < 6; ++i) scales.byte(i, i < 2 ? 254 : 0);
  const auto of = [&](double scale) {
    return product(6, "codes", codes("int4_ch", 6, {0x11}, scale), scales.tensor);
  };
  expect_within(of(0x1.6p-50), "acc=f64 epilogue_roundings=2", INFINITY);
  scales.byte(0, 200).byte(1, 200);
  expect_beyond(of(0x1.6p-50), "acc=f64 epilogue_roundings=2", INFINITY);
}

TEST(ProductsBreaches, scales_of_q8_are_applied_in_f32_beside_sums_in_f64) {
  const float x = 0x1.dc7212p+0F, w = 0x1.e9cb6ep+0F;
  const OpCase c = product(32, "q8", row_of("f32", {x}, 32), row_of("f32", {w}, 32));
  const double operand = 127 * (x / 127.0F), got = static_cast<float>(operand);
  const std::string words = "acc=f64 scale=divide code=divide scale_format=f32 ";
  expect_within(c, words.c_str(), static_cast<float>(got * w));
  expect_within(c, words.c_str(), static_cast<float>(operand * w));
  expect_beyond(c, words.c_str(), static_cast<float>(operand * w * (1 + 0x1p-20)));
  expect_beyond(c, (words + "epilogue_roundings=0 dequant_roundings=0").c_str(), 0x1.c7c84p+1);
}

TEST(ProductsBreaches, the_terms_of_a_rotated_block_of_q8_are_rounded) {
  Handmade b("tq3_0_c2", {1, 32});
  const unsigned bytes[] = {0x35, 0x51, 0xf3, 0x49, 0x5c, 0x16, 0x49,
                            0x00, 0x51, 0x00, 0xbf, 0x18, 0x18, 0x18};
  for (std::size_t i = 0; i < 14; ++i) b.byte(i, bytes[i]);
  Values x(32, 0.0F);
  x[8] = 1;
  const OpCase c = product(32, "q8", row_of("f32", x, 32), b.tensor);
  expect_within(c, "acc=f32 dequant_roundings=9", 0x1.c2c214p-14);
  expect_beyond(c, "acc=f32 dequant_roundings=9", 0x1.cp-14);
  expect_beyond(c, "acc=f32 dequant_roundings=0", 0x1.c2c014p-14);
}

TEST(ProductsBreaches, f16_scales_of_q8_meet_those_of_rows_at_once) {
  const auto of = [](double scale) {
    return product(32, "q8", row_of("f32", {127 * 0x1p-20F}, 32), codes("int8_tensor", 32, {127}, scale));
  };
  expect_within(of(0x1.4p-131), "epilogue_roundings=3", 0);  // 2^-20 2^-131 is 0 in f32
  expect_beyond(of(0x1.4p-100), "epilogue_roundings=3", 0);
}

TEST(ProductsBreaches, tininess_is_seen_before_a_rounding_or_after_it) {
  const auto of = [](const char* format, const char* path, const char* dtype, float a, float b) {
    OpCase c("matmul", {{"m", "1"}, {"n", "1"}, {"k", "1"}, {"a", format}, {"path", path}, {"dtype", dtype}});
    c.put("a", {a}), c.put("b", {b});
    return c;
  };
  const OpCase output = of("f16", "f16", "f16", 0x1.fbp-14F, -0x1.028p-1F),
               operand = of("f32", "f16", "f32", -0x1.fffff4p-15F, -0x1.080148p+1F),
               larger = of("f32", "f16", "f32", -0x1.004p-14F, -0x1.080148p+1F);
  for (const OpCase* c : {&output, &operand}) {
    expect_within(*c, "acc=f32 ftz=yes", 0);
    expect_beyond(*c, "acc=f32 ftz=no", 0);
  }
  expect_beyond(larger, "acc=f32 ftz=yes", 0);
}

OpCase expert(const char* format, int inter, const Values& x, const Values& w13, const Values& w2, float c) {
  OpCase e("moe", {{"tokens", "1"},
                   {"hidden", "1"},
                   {"inter", std::to_string(inter)},
                   {"experts", "1"},
                   {"a", format},
                   {"path", format},
                   {"dtype", "f32"}});
  e.put("x", x), e.put("w13", w13), e.put("w2", w2), e.put("topk_weights", {c});
  return e;
}

TEST(ProductsBreaches, what_an_expert_makes_in_f64_is_rounded_before_its_weight) {
  const std::string words = "acc=f32 down_acc=f64 silu_ulp=0";
  const OpCase beyond = expert("f32", 2, {1}, {1024, 1024, 1, 1}, {0x1p126F, 0}, 0x1p-40F),
               near = expert("f32", 2, {1}, {1024, 1024, 1, 1}, {1, 0x1.8p-24F}, 1.5F);
  expect_within(beyond, words.c_str(), INFINITY);
  const OpCase small = expert("f32", 2, {1}, {1024, 1024, 1, 1}, {0x1p106F, 0}, 0x1p-40F);
  expect_beyond(small, words.c_str(), INFINITY);
  expect_within(near, words.c_str(), 0x1.800004p10);
  expect_beyond(near, words.c_str(), 0x1.80004p10);
}

// epilogue_roundings=0: nothing rounds a scaled sum but that it becomes a number of f32, of which silu at -81
// makes 81 times as much.
TEST(ProductsBreaches, a_gate_without_roundings_of_its_scales_becomes_an_f32) {
  constexpr float kScale = 1 + 0x1p-23F;
  Handmade x("int8_tok", {1, 1}), w13("int8_row", {1, 2, 1}), w2("int8_row", {1, 1, 1});
  x.byte(0, 81).put(".scale", 0, kScale);
  w13.byte(0, 0xff).byte(1, 1).put(".scale", 0, kScale).put(".scale", 1, kScale);
  w2.byte(0, 1).put(".scale", 0, 1);
  const OpCase c = with(
      "moe",
      {{"tokens", "1"},
       {"hidden", "1"},
       {"inter", "1"},
       {"experts", "1"},
       {"a", "int8_tok"},
       {"w", "int8_row"},
       {"dtype", "f32"}},
      {{"x", x.tensor}, {"w13", w13.tensor}, {"w2", w2.tensor}, {"topk_weights", plain("f32", {1, 1}, {1})}});
  const double exact = 81 * double{kScale} * kScale;
  const auto output = [&](double gate) { return -gate / (1 + std::exp(gate)) * exact; };
  const double held = static_cast<float>(exact), unit = 0x1p-17;
  ASSERT_GT(std::fabs(held - exact), 0.4 * unit);
  for (const char* acc : {"i32", "f32", "f64"}) {
    const std::string words = std::string("epilogue_roundings=0 silu_ulp=0 acc=") + acc;
    expect_within(c, words.c_str(), output(held));
    expect_beyond(c, words.c_str(), output(exact + 3 * (held - exact)));
  }
}

TEST(ProductsBreaches, an_infinity_may_meet_an_operand_that_is_flushed_where_it_is_multiplied) {
  for (const char* path : {"f32", "bf16"}) {
    const OpCase small = product(1, path, row_of("f32", {INFINITY}, 1), row_of("f32", {0x1p-15F}, 1)),
                 normal = product(1, path, row_of("f32", {INFINITY}, 1), row_of("f32", {0x1p-14F}, 1));
    expect_within(small, "acc=f16 ftz=yes", NAN);
    expect_beyond(small, "acc=f16 ftz=no", NAN);
    expect_beyond(small, "acc=f32 ftz=yes", NAN);
    expect_beyond(normal, "acc=f16 ftz=yes", NAN);
  }
}

TEST(ProductsBreaches, two_block_scales_may_vanish_beside_an_infinity) {
  const auto blocks = [](double scale) {
    return with("matmul",
                {{"m", "1"},
                 {"n", "1"},
                 {"k", "32"},
                 {"a", "mxfp8_e5m2"},
                 {"b", "mxfp8_e5m2"},
                 {"path", "blocks"},
                 {"dtype", "f32"}},
                {{"a", Handmade("mxfp8_e5m2", {1, 32}).put("", 0, 1.75).put(".scale", 0, scale).tensor},
                 {"b", Handmade("mxfp8_e5m2", {1, 32}).byte(0, kInfCode).put(".scale", 0, scale).tensor}});
  };
  expect_within(blocks(0x1p-90), "acc=f32", NAN);
  expect_beyond(blocks(0x1p-60), "acc=f32", NAN);
}

TEST(ProductsBreaches, what_two_block_scales_lose_is_multiplied_by_the_global_one) {
  const OpCase c =
      with("matmul",
           {{"m", "1"},
            {"n", "1"},
            {"k", "32"},
            {"a", "nvfp4"},
            {"b", "mxfp8"},
            {"path", "blocks"},
            {"dtype", "f32"}},
           {{"a", Handmade("nvfp4", {1, 32})
                      .put("", 0, 6)
                      .put(".block_scale", 0, 0x1p-6)
                      .put(".block_scale", 1, 0x1p-6)
                      .put(".global_scale", 0, 0x1p-120)
                      .tensor},
            {"b", Handmade("mxfp8", {1, 32}).put("", 0, 448).put(".scale", 0, 0x1p-123).tensor}});
  expect_within(c, "acc=f32 ftz=yes", 0);  // 2688 times 2^-6 2^-123, which is flushed
  expect_beyond(c, "acc=f32 ftz=no", 0);
}

TEST(ProductsBreaches, both_scales_of_q8_may_be_multiplied_where_their_product_is_subnormal) {
  Values x(32, 0x1.98p-130F), w(32, 127 * 0x1.4p-14F);
  OpCase c(
      "matmul",
      {{"m", "1"}, {"n", "1"}, {"k", "32"}, {"a", "f32"}, {"b", "q8_0"}, {"path", "q8"}, {"dtype", "f32"}});
  c.put("a", x), c.put("b", w);
  const float d = 0x1.98p-130F / 127, both = d * 0x1.4p-14F, sum = 32 * 127 * 127;
  for (const char* roundings : {"2", "3"}) {
    const std::string words =
        std::string("acc=f32 scale=divide code=divide scale_format=f32 epilogue_roundings=") + roundings;
    expect_within(c, words.c_str(), static_cast<double>(sum) * both);
    expect_beyond(c, words.c_str(), static_cast<double>(sum) * 4 * both);
  }
}

// 16384 sums of 4 products of 127 127 each, exact in i32, are added in f32.
TEST(ProductsBreaches, promotions_of_integer_sums_are_rounded) {
  constexpr int kLength = 65536;
  const Values most(kLength, 127);
  const auto of = [&](const char* path) {
    OpCase c("matmul", {{"m", "1"},
                        {"n", "1"},
                        {"k", std::to_string(kLength)},
                        {"a", "int8"},
                        {"b", "int8"},
                        {"path", path},
                        {"dtype", "f32"}});
    c.put("a", most), c.put("b", most);
    return c;
  };
  float sum = 0;
  for (int i = 0; i < kLength; i += 4) sum += 4 * 127 * 127;
  ASSERT_NE(static_cast<double>(sum), 127.0 * 127 * kLength);
  const OpCase c = of("codes");
  expect_within(c, "acc=int8_dot promote=1 epilogue_roundings=0", sum);
  expect_beyond(c, "acc=int8_dot epilogue_roundings=0", sum);
  expect_beyond(c, "acc=int8_dot promote=1 epilogue_roundings=0", 1.01 * sum);
}

// Codes of the offset alone: what a block's products and its sum leave of each other goes through the
// accumulator.
TEST(ProductsBreaches, products_and_sums_of_blocks_meet_in_the_accumulator) {
  Handmade offsets("q5_0", {1, 32});
  offsets.f16(0, 1320);
  for (unsigned i = 2; i < 6; ++i) offsets.byte(i, 255);
  OpCase c(
      "matmul",
      {{"m", "1"}, {"n", "1"}, {"k", "32"}, {"a", "f32"}, {"b", "q5_0"}, {"path", "q8_1"}, {"dtype", "f32"}});
  c.put("a", Values(32, 1000)), c.set.insert_or_assign("b", offsets.tensor);
  expect_within(c, "acc=f16", INFINITY);  // 84480
  expect_beyond(c, "acc=f32", INFINITY);
  OpCase near(
      "matmul",
      {{"m", "1"}, {"n", "1"}, {"k", "32"}, {"a", "f32"}, {"b", "q4_1"}, {"path", "q8_1"}, {"dtype", "f32"}});
  Values x(32, 1.9F), w(32, 0.0005F);
  x[0] = 0, x[1] = 2, w[0] = -1;
  near.put("a", x), near.put("b", w);
  const double bf16 = near.truth("acc=bf16").limit[0], f32 = near.truth("acc=f32").limit[0];
  EXPECT_GT(bf16, 60 * 0x1p-9);  // a rounding of 60 that cancels
  EXPECT_LT(f32, bf16 / 4);
}

TEST(ProductsBreaches, sums_of_blocks_are_numbers_of_f32_beside_an_f64) {
  Handmade a("mxfp8", {1, 64}), b("mxfp8", {1, 64});
  for (Handmade* each : {&a, &b})
    each->put("", 0, 448).put("", 1, 0x1.2p-6).put(".scale", 0, 1).put(".scale", 1, 1);
  a.put("", 32, 448), b.put("", 32, -448);
  const OpCase c = with("matmul",
                        {{"m", "1"},
                         {"n", "1"},
                         {"k", "64"},
                         {"a", "mxfp8"},
                         {"b", "mxfp8"},
                         {"path", "blocks"},
                         {"dtype", "f32"}},
                        {{"a", a.tensor}, {"b", b.tensor}});
  expect_within(c, "acc=f64", 0);  // 448 448 + 3.1e-4 in f32, less 448 448
  expect_beyond(c, "acc=f64", 4);
}

TEST(ProductsBreaches, both_scales_of_zeros_may_be_multiplied_first) {
  const auto of = [](double scale, const char* scale_format) {
    OpCase c("matmul", {{"m", "1"},
                        {"n", "1"},
                        {"k", "64"},
                        {"a", "f32"},
                        {"b", "int4_g32"},
                        {"path", "q8"},
                        {"dtype", "f32"}});
    Handmade b("int4_g32", {1, 64});
    b.byte(16, 1).put(".scale", 0, scale).put(".scale", 1, 1);
    c.put("a", Values(64, 0x1p20F)), c.set.insert_or_assign("b", b.tensor);
    return c.truth(std::string("acc=f32 scale_format=") + scale_format);
  };
  EXPECT_LE(worst_ratio(of(0x1p120, "f32"), Values{NAN}), 1);
  EXPECT_GT(worst_ratio(of(0x1p100, "f32"), Values{NAN}), 1);
}

TEST(ProductsBreaches, an_intermediate_beyond_its_unit_is_not_claimed) {
  const OpCase beyond = expert("f16", 1, {512}, {1, 2}, {1}, 1),
               normal = expert("f16", 1, {16}, {1, 2}, {1}, 1);
  for (const char* words : {"acc=hopper_f16 order=sequential", "acc=v100_f16 order=sequential",
                            "acc=f32 down_acc=hopper_f16 order=sequential"}) {
    expect_within(beyond, words, INFINITY);
    expect_beyond(normal, words, INFINITY);
  }
}

// ftz: d = 2^-20 is subnormal in f16, in which it is stored.
TEST(ProductsBreaches, a_scale_that_f16_holds_as_a_subnormal_number_may_be_flushed) {
  Values x(32, 0.0F), w(32, 0.0F);
  x[0] = 127 * 0x1p-20F, w[0] = 1, w[1] = -1;
  const auto of = [&](const char* path, const char* b) {
    return product(32, path, row_of("f32", x, 32), row_of(b, w, 32));
  };
  for (const char* path : {"q8", "q8_1"})
    for (const char* b : {"q8_0", "q4_0", "q4_1"})
      for (const std::string words : {"", "scale=divide code=divide ties=even "}) {
        expect_within(of(path, b), (words + "ftz=yes").c_str(), 0);
        expect_beyond(of(path, b), (words + "ftz=no").c_str(), 0);
      }
  expect_within(of("q8", "f32"), "ftz=yes", 0);
  for (const char* words : {"ftz=yes", "scale=divide code=divide ties=even ftz=yes"})  // or it is kept
    expect_within(of("q8", "f32"), words, 127 * 0x1p-20);
  expect_beyond(of("q8", "f32"), "ftz=yes scale_format=f32", 0);
  expect_beyond(of("q8", "f32"), "ftz=yes", -127 * 0x1p-20);
}

// elements ca cb under scales sa sb, summed first: (sum sa) sb, or sum (sa sb).
TEST(ProductsBreaches, a_sum_of_elements_may_overflow_or_vanish_under_one_scale_before_the_other) {
  const auto of = [](const char* fa, const char* fb, double ca, double cb, double sa, double sb) {
    return product(32, "blocks", Handmade(fa, {1, 32}).put("", 0, ca).put(".scale", 0, sa).tensor,
                   Handmade(fb, {1, 32}).put("", 0, cb).put(".scale", 0, sb).tensor);
  };
  expect_within(of("mxfp4", "mxfp8", -4, 320, 0x1p118, 0x1p-103), "acc=f32", -INFINITY);
  expect_beyond(of("mxfp4", "mxfp8", -4, 320, 0x1p18, 0x1p-3), "acc=f32", -INFINITY);
  const char* e5m2 = "mxfp8_e5m2";
  expect_within(of(e5m2, e5m2, 0x1.cp-14, 0x1p-14, 0x1p-126, 0x1p70), "acc=f32", 0);
  expect_beyond(of(e5m2, e5m2, 0x1.cp-14, 0x1p-14, 0x1p-20, 0x1p-36), "acc=f32", 0);
  expect_within(of(e5m2, e5m2, 0x1.8p-11, 0x1.8p-12, 0x1p-127, 0x1p70), "acc=f32", 0x1.4p-80);
  expect_within(of("mxfp8", "mxfp8", 0, 0, 0x1p98, 0x1p54), "acc=f32", NAN);
  expect_beyond(of("mxfp8", "mxfp8", 0, 0, 0x1p9, 0x1p54), "acc=f32", NAN);
}

TEST(ProductsBreaches, an_element_times_its_scale_may_overflow_and_meet_a_0) {
  const auto beside = [](double scale) {
    Handmade a("nvfp4", {1, 32});
    a.put(".block_scale", 0, 1).put(".block_scale", 1, 1).put(".global_scale", 0, 1);
    return product(32, "blocks", a.tensor,
                   Handmade("mxfp8", {1, 32}).put("", 0, 448).put(".scale", 0, scale).tensor);
  };
  expect_within(beside(0x1p121), "acc=f32", NAN);
  expect_beyond(beside(0x1p100), "acc=f32", NAN);
  const auto beside_infinity = [](double scale) {
    Handmade a("mxfp8_e5m2", {1, 64}), b("mxfp8_e5m2", {1, 64});
    a.put("", 0, 1).put(".scale", 0, 1).put(".scale", 1, 1);
    b.byte(0, kInfCode).put("", 32, 57344).put(".scale", 0, 1).put(".scale", 1, scale);
    return product(64, "blocks", a.tensor, b.tensor);
  };
  expect_within(beside_infinity(0x1p116), "acc=f32", NAN);
  expect_beyond(beside_infinity(0x1p60), "acc=f32", NAN);
  expect_within(beside_infinity(0x1p60), "acc=f32", INFINITY);
}

// One expert of one number: y = c silu(0.0781 x) 0.02 x.
TEST(ProductsBreaches, an_infinite_weight_meets_an_output_that_is_nearly_0) {
  const auto of = [](float weight) {
    OpCase c("moe", {{"tokens", "1"},
                     {"hidden", "1"},
                     {"inter", "1"},
                     {"experts", "1"},
                     {"topk", "1"},
                     {"a", "f32"},
                     {"dtype", "f32"}});
    c.put("x", {-850}), c.put("w13", {0.0781F, 0.02F}), c.put("w2", {1}), c.put("topk_weights", {weight});
    return c;
  };
  expect_within(of(INFINITY), "acc=bf16 h=bf16", INFINITY);
  expect_beyond(of(1), "acc=bf16 h=bf16", INFINITY);
  expect_beyond(of(1), "acc=bf16 h=bf16", 1e-20);  // silu is flat there: an error of g is nothing
}

// A block's sum under both scales is Inf in f32, and the sum of both blocks would not be.
TEST(ProductsBreaches, a_block_may_overflow_though_the_sum_does_not) {
  const auto of = [](float size) {
    Values x(64, 0.0F), w(64, 0.0F);
    x[0] = -0x1.9e5d52p115F * size, x[1] = 0x1.2f973cp114F * size;
    x[32] = -0x1.c2d832p113F * size, x[33] = -0x1.53bac6p113F * size;
    w[0] = 0x1.e8678p11F, w[1] = -0x1.9f56p11F, w[32] = 0x1.ad8p7F, w[33] = -0x1.aa25p11F;
    return product(64, "q8", row_of("f32", x, 64), row_of("q8_0", w, 64));
  };
  for (const char* words : {"acc=f64 scale_format=f32", "acc=f32 scale_format=f32"}) {
    expect_within(of(1), words, -INFINITY);
    expect_beyond(of(0x1p-20F), words, -INFINITY);
  }
}

// q8_1: the scale of a block is flushed, its sum is not.
TEST(ProductsBreaches, a_flushed_scale_beside_a_sum_that_is_kept) {
  Values x(32, 0.0F), w(32, 0.0F);
  x[9] = -0x1.ep-8F, w[9] = 0.25F, w[0] = -1;  // d of w = 1/8
  const OpCase c = product(32, "q8_1", row_of("f32", x, 32), row_of("q4_0", w, 32));
  expect_within(c, "ftz=yes", 0x1.ep-8);
  expect_beyond(c, "ftz=no", 0x1.ep-8);
}

// A unit takes numbers of f16 as they are; the conversion in front of it may make 0 of one below 2^-14.
TEST(ProductsBreaches, a_conversion_to_f16_in_front_of_a_unit_flushes_too) {
  for (const char* unit : {"acc=hopper_f16 ftz=", "acc=hopper_f16 order=sequential ftz="}) {
    const auto of = [&](const char* a, const char* word, float x) {
      const OpCase c = product(1, "f16", row_of(a, {x}, 1), row_of("f16", {1}, 1));
      return worst_ratio(c.truth(std::string(unit) + word), std::vector<double>{0});
    };
    EXPECT_LE(of("f32", "yes", 0x1p-15F), 1);
    EXPECT_GT(of("f32", "no", 0x1p-15F), 1);
    EXPECT_GT(of("f16", "yes", 0x1p-15F), 1);
    EXPECT_GT(of("f32", "yes", 0x1p-13F), 1);
  }
}

// Offsets of codes that are summed apart, as ggml does: a code of 32 is 0, and what is left of 127 32 less
// 127 32 is rounding.
TEST(ProductsBreaches, offsets_of_codes_are_a_sum_of_their_own_in_f32) {
  Handmade weights("q6_K", {1, 256});
  for (std::size_t i = 128; i < 192; ++i) weights.byte(i, 0xaa);  // the upper bits of 32, everywhere
  for (std::size_t i = 192; i < 208; ++i) weights.byte(i, 100);   // scales
  weights.byte(208, 0x00), weights.byte(209, 0x20);               // d = 2^-7
  const OpCase c = product(256, "q8_K", row_of("f32", {1, 1, 1}, 256), weights.tensor);
  EXPECT_EQ(c.truth("acc=f32").value[0], 0);
  const double of_offsets = 3 * 32 * 100 * 0x1p-7;
  expect_within(c, "acc=f32", of_offsets * 0x1p-22);
  expect_beyond(c, "acc=f32", of_offsets * 0x1p-12);
  expect_beyond(c, "acc=f32", 100 * 0x1p-7);  // one code off by one
}

// A block whose scale vanishes in f16 keeps its sum, whose product with an offset is a subnormal of the
// accumulator.
TEST(ProductsBreaches, what_a_block_sum_makes_of_an_offset_may_be_flushed) {
  Handmade weights("q4_0", {1, 32});
  weights.f16(0, 0x1p-10);
  for (std::size_t i = 2; i < 18; ++i) weights.byte(i, 0xf0);
  const OpCase c = product(32, "q8_1", row_of("f32", Values(32, 3.7e-6F), 32), weights.tensor);
  const std::string words = "acc=f16 sums=values scale=divide code=divide order=sequential ftz=";
  expect_within(c, (words + "yes").c_str(), 0);
  expect_beyond(c, (words + "no").c_str(), 0);
}

}  // namespace
}  // namespace assay::testing
