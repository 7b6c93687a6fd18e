// Known points of the rules of decoding, quantising and storing: a kernel within its contract whose error is
// more than half of the limit, and beyond it once the rule is made unsound. Of a rule that says when nothing
// is claimed: a kernel's number that must not be judged there.
#include "reference/arithmetic/rule.hpp"

#include <functional>

#include "reference/ops/quantised_testing.hpp"

namespace assay::testing {
namespace {

struct Point {
  std::function<Truth()> truth;
  std::vector<double> got;
};
struct Row {
  Rule rule;
  const char* what;
  std::function<Point()> point;
  bool claims = false;  // the rule says when nothing is claimed
  // Of block_sum_rounding less: n + 16 roundings in any order are paid for, and a kernel's own order does not
  // add all of them up.
  double share = 0.5;
};

Point point(OpCase c, std::string contract, std::vector<double> got) {
  return {[c = std::move(c), contract = std::move(contract)] { return c.truth(contract); }, std::move(got)};
}
std::vector<double> alone(double x, std::size_t n) {
  std::vector<double> y(n, 0.0);
  y[0] = x;
  return y;
}
double f16_of(double x) { return round_f16(x); }
double e4m3fn(double x) { return round_to(scalar_format("e4m3fn"), x); }
// Of those that `make` gives, the one nearest to its limit, or beyond it; with a rule, of those beyond their
// limits without it.
Point worst_of(int count, const std::function<Point(int)>& make, Rule without = Rule::none) {
  Point best = make(0);
  double most = -1;
  for (int i = 0; i < count; ++i) {
    Point each = make(i);
    if (without != Rule::none) {
      const Unsound weak(without);
      if (!(worst_ratio(each.truth(), each.got) > 1)) continue;
    }
    if (const double ratio = worst_ratio(each.truth(), each.got); ratio > most)
      most = ratio, best = std::move(each);
  }
  return best;
}

OpCase dequantised(const char* from, const char* cols, const Encoded& x, const char* dtype = "f32") {
  return with("dequantize", {{"rows", "1"}, {"cols", cols}, {"from", from}, {"dtype", dtype}}, {{"x", x}});
}
Encoded nvfp4_of(double code, double block, double global) {
  return Handmade("nvfp4", {1, 16})
      .put("", 0, code)
      .put(".block_scale", 0, block)
      .put(".global_scale", 0, global)
      .tensor;
}
Encoded int4_of(double code, double first, double second) {
  return Handmade("int4_g32_tensor", {1, 32})
      .put("", 0, code)
      .put(".scale", 0, first)
      .put(".scale_2", 0, second)
      .tensor;
}

Point decode_rounding() {  // c s, times a rounded 1 / g
  return worst_of(400, [](int i) {
    const float g = 1.5F + static_cast<float>(i) * 0x1p-11F;
    return point(dequantised("nvfp4", "16", nvfp4_of(1.5, 1.125, g)), "roundings=2",
                 alone(1.6875F * (1.0F / g), 16));
  });
}
Point decode_minimum() {  // d sc, times q, less dmin m, each in f16
  return worst_of(4000, [](int i) {
    const double d = f16_of(1 + i % 64 * 0x1.1p-7), dmin = f16_of(15 * d * (1 + i / 64 * 0x1.3p-9));
    Handmade h("q4_K", {1, 256});
    h.f16(0, d).f16(2, dmin).byte(4, 61).byte(8, 61);
    for (std::size_t j = 0; j < 32; ++j) h.byte(16 + j, 15);
    const double z = f16_of(f16_of(f16_of(d * 61) * 15) - f16_of(dmin * 61));
    std::vector<double> y(256, 0.0);
    for (std::size_t j = 0; j < 32; ++j) y[j] = z;
    return point(dequantised("q4_K", "256", h.tensor), "mid=f16 roundings=3", y);
  });
}
Point decode_underflow() {  // 7 (s s'), the product of the scales 1.5 2^-149
  const float scale = 0x1.8p-70F * 0x1p-79F;
  return point(dequantised("int4_g32_tensor", "32", int4_of(7, 0x1.8p-70, 0x1p-79)), "roundings=2",
               alone(7.0F * scale, 32));
}
Point decode_last_underflow() {  // 1.5 of f16's least number
  const Encoded x = Handmade("e4m3fn_tensor", {1, 16}).put("", 0, 1.5).put(".scale", 0, 0x1p-24).tensor;
  return point(dequantised("e4m3fn_tensor", "16", x), "mid=f16 roundings=2",
               alone(f16_of(1.5 * 0x1p-24), 16));
}
Point decode_flush() {
  const Encoded x = Handmade("mxfp8", {1, 32}).put("", 0, 448).put(".scale", 0, 0x1p-127).tensor;
  return point(dequantised("mxfp8", "32", x), "ftz=yes", alone(0, 32));
}
Point decode_flushed_product() {  // 7 2^-127 is normal, 2^-127 is not
  return point(dequantised("int4_g32_tensor", "32", int4_of(7, 0x1p-63, 0x1p-64)), "roundings=2 ftz=yes",
               alone(0, 32));
}
Point decode_overflow() {  // 0 times the product of both scales
  const float scales = 0x1p100F * 0x1p100F;
  return point(dequantised("int4_g32_tensor", "32", int4_of(0, 0x1p100, 0x1p100)), "roundings=2",
               alone(static_cast<double>(0.0F * scales), 32));
}

// One activation's code and scale by path=e4m3fn, against a weight of 1, and behind it the largest of the
// tensor.
OpCase by_e4m3fn(float x, float absmax, double weight = 1, double block = 1) {
  Values a(16, 0.0F);
  a[0] = x, a[1] = absmax;
  return with("matmul",
              {{"m", "1"},
               {"n", "1"},
               {"k", "16"},
               {"a", "f32"},
               {"b", "nvfp4"},
               {"path", "e4m3fn"},
               {"dtype", "f32"}},
              {{"a", plain("f32", {1, 16}, a)}, {"b", nvfp4_of(weight, block, 1)}});
}
Point quotient_rounding() {  // near the tie of 1 and 1.125 by x (448 / absmax)
  return worst_of(
      400,
      [](int i) {
        const float absmax = 3 + static_cast<float>(i) * 0x1p-9F, s = absmax / 448.0F;
        float x = 1.0625F * s;
        for (int n = 0; n < i % 3; ++n) x = std::nextafter(x, 2 * x);
        const double code = e4m3fn(static_cast<double>(x * (448.0F / absmax)));
        return point(by_e4m3fn(x, absmax), "acc=f32", {static_cast<double>(static_cast<float>(code) * s)});
      },
      Rule::quotient_rounding);
}
// A q8 activation beside the largest of its block, against a weight of 1.
OpCase by_q8(float x, float absmax) {
  Values a(32, 0.0F), b(32, 0.0F);
  a[0] = absmax, a[1] = x, b[1] = 1;
  return with(
      "matmul",
      {{"m", "1"}, {"n", "1"}, {"k", "32"}, {"a", "f32"}, {"b", "f32"}, {"path", "q8"}, {"dtype", "f32"}},
      {{"a", plain("f32", {1, 32}, a)}, {"b", plain("f32", {1, 32}, b)}});
}
Point code_step() {  // near the tie of 2 and 3, under a scale that is no power of two
  const float d = 126.0F / 127.0F, x = 2.5F * d;
  return point(by_q8(x, 126), "acc=f32", {std::round(x / d) * static_cast<double>(round_f16(d))});
}
Point quotient_ties() {
  return point(by_q8(2.5F, 127), "acc=f32 ties=any", {static_cast<double>(std::round(2.5F))});
}
Point quotient_flush() {
  const float absmax = 0x1.c4p-117F, x = 0x1.cp-127F;  // code 0.4375 or 0, against a weight of 448
  return point(by_e4m3fn(x, absmax, 4, 112), "acc=f32 ftz=yes", {0});
}
Point quotient_range() {
  const float x = 0x1.8p-125F, direct = 448.0F / x, scale = 1.0F / direct;
  return point(by_e4m3fn(x, x), "acc=f32",
               {e4m3fn(static_cast<double>(x * direct)) * static_cast<double>(scale)});
}
Point scale_rounding() {  // a scale by 1 / (448 / absmax)
  return worst_of(4000, [](int i) {
    const float absmax = 3 + static_cast<float>(i) * 0x1.01p-10F, scale = 1.0F / (448.0F / absmax);
    return point(by_e4m3fn(absmax, absmax, 3), "acc=f32 epilogue_roundings=1",
                 {static_cast<double>(448.0F * 3 * scale)});
  });
}
Point scale_underflow() {  // q8_K of a largest that makes a subnormal scale
  Values a(256, 0.0F), b(256, 0.0F);
  a[0] = 0x1.ep-121F, b[0] = 0x1p40F;
  const float inverse = -127.0F / a[0], d = 1.0F / inverse;
  const float got = static_cast<float>(std::nearbyint(a[0] * inverse)) * d * b[0];
  return point(with("matmul",
                    {{"m", "1"},
                     {"n", "1"},
                     {"k", "256"},
                     {"a", "f32"},
                     {"b", "f32"},
                     {"path", "q8_K"},
                     {"dtype", "f32"}},
                    {{"a", plain("f32", {1, 256}, a)}, {"b", plain("f32", {1, 256}, b)}}),
               "acc=f32", {static_cast<double>(got)});
}

OpCase quantised(const char* to, const Values& x) {
  OpCase c("quantize", {{"rows", "1"}, {"cols", std::to_string(x.size())}, {"to", to}});
  c.put("x", x);
  return c;
}
Point block_move() {  // 1 / (127 / absmax) where absmax / 127 is a tie of f16
  return worst_of(1024, [](int i) {
    Values x(32, 0.0F);
    x[0] = 127 * (1 + static_cast<float>(2 * i + 1) * 0x1p-11F);
    return point(quantised("q8_0", x), "",
                 alone(127 * f16_of(static_cast<double>(1.0F / (127.0F / x[0]))), 32));
  });
}
Point nvfp4_rounding() {  // x (1 / (s (1 / g))) near the tie of 2 and 3
  return worst_of(400, [](int i) {
    Values x(16, 0.0F);
    x[0] = 3 + static_cast<float>(i) * 0x1p-9F;
    const float g = 2688.0F / x[0], s = 448;
    x[1] = 2.5F * s / g;
    for (int n = 0; n < i % 3; ++n) x[1] = std::nextafter(x[1], 2 * x[1]);
    std::vector<double> y(16, 0.0);
    for (std::size_t e = 0; e < 2; ++e)
      y[e] = round_to(scalar_format("e2m1"), static_cast<double>(x[e] * (1.0F / (s * (1.0F / g))))) * 448 / g;
    return point(quantised("nvfp4", x), "", y);
  });
}
Point nvfp4_range() {  // g = 2^124, s = 2^-9: 1 / (s (1 / g)) is Inf
  Values x(32, 0.0F);
  x[0] = 0x1.5p-113F, x[16] = 0x1.8p-131F;
  const float g = 2688.0F / x[0], s = static_cast<float>(e4m3fn(static_cast<double>(x[16] * g / 6.0F)));
  std::vector<double> y(32, 0.0);
  y[0] =
      round_to(scalar_format("e2m1"), static_cast<double>(x[0] * (1.0F / (448.0F * (1.0F / g))))) * 448 / g;
  const float reciprocal = s * (1.0F / g) < 0x1p-126F ? 0.0F : s * (1.0F / g);
  y[16] = round_to(scalar_format("e2m1"), static_cast<double>(x[16] * (1.0F / reciprocal))) *
          static_cast<double>(s) / g;
  x[17] = x[16] / 4;
  y[17] = round_to(scalar_format("e2m1"), static_cast<double>(x[17] * (1.0F / reciprocal))) *
          static_cast<double>(s) / g;
  return point(quantised("nvfp4", x), "", y);
}
Point mx_logarithm() {  // below 2^100, whose logarithm in f32 is 100
  Values x(32, 0.0F);
  std::vector<double> y(32, 0.0);
  x[0] = 0x1p100F - 20 * 0x1p76F, x[1] = 0x1.4p98F;
  for (std::size_t e = 0; e < 2; ++e)
    y[e] = std::ldexp(round_to(scalar_format("e2m1"), std::ldexp(static_cast<double>(x[e]), -97)), 97);
  return point(quantised("mxfp4_ggml", x), "", y);
}
Point store_flush() {
  OpCase c("dequantize", {{"rows", "1"}, {"cols", "1"}, {"from", "f32"}, {"dtype", "f16"}});
  c.put("x", {0x1.8p-15F});
  return point(c, "ftz=yes", {0});
}
Point store_way_overflow() {
  OpCase c("dequantize", {{"rows", "1"}, {"cols", "1"}, {"from", "f32"}, {"dtype", "f32"}});
  c.put("x", {1e6F});
  return point(c, "out=f16 overflow=saturate", {INFINITY});
}

// Rows of q4_1 whose codes count for nothing: m = 1 against an activation block with its sum in f16.
OpCase of_minima(const Values& a, double d, double m, unsigned code, const char* path = "q8_1") {
  const std::size_t k = a.size();
  Handmade h("q4_1", {1, static_cast<std::int64_t>(k)});
  for (std::size_t block = 0; block < k / 32; ++block) {
    h.f16(20 * block, d).f16(20 * block + 2, m);
    for (std::size_t j = 0; j < 16; ++j) h.byte(20 * block + 4 + j, code | code << 4);
  }
  return with("matmul",
              {{"m", "1"},
               {"n", "1"},
               {"k", std::to_string(k)},
               {"a", "f32"},
               {"b", "q4_1"},
               {"path", path},
               {"dtype", "f32"}},
              {{"a", plain("f32", {1, static_cast<std::int64_t>(k)}, a)}, {"b", h.tensor}});
}
Point block_sum_storage() {
  return worst_of(2000, [](int i) {
    Values a(32, 0.0F);
    a[0] = 1 + static_cast<float>(i) * 0x1.3p-11F;
    a[1] = a[0] * 0.4F;
    const float d = a[0] / 127.0F, sum = 127 + std::round(a[1] / d);
    return point(of_minima(a, 0, 1, 0), "acc=f32", {f16_of(static_cast<double>(sum * d))});
  });
}
Point block_sum_overflow() {  // 32 largest codes under a scale of 100
  const Values a(32, 127 * 100.0F);
  return point(of_minima(a, 0, 1, 0), "acc=f32", {f16_of(32 * 127 * 100.0)});
}
Point block_sum_rounding() {  // 15 d - m = 0, but the product with the codes is rounded before m s meets it
  return worst_of(
      400,
      [](int i) {
        const double d = f16_of(0.1 + i * 0x1p-12), m = -15 * d;
        Values a(256, 0.0F);
        a[0] = 1.1F + static_cast<float>(i) * 0x1p-10F;
        const float scale = 1.0F / (127.0F / a[0]);
        const float codes = static_cast<float>(d) * (scale * (127.0F * 15.0F));
        return point(of_minima(a, d, f16_of(m), 15, "q8_K"), "acc=f32",
                     {static_cast<double>(codes + static_cast<float>(f16_of(m)) * (scale * 127.0F))});
      },
      Rule::block_sum_rounding);
}

const Row kRows[] = {
    {Rule::decode_rounding, "nvfp4 times 1 / g", decode_rounding},
    {Rule::decode_minimum, "q4_K in f16", decode_minimum},
    {Rule::decode_underflow, "7 (s s')", decode_underflow},
    {Rule::decode_last_underflow, "1.5 2^-24 in f16", decode_last_underflow},
    {Rule::decode_flush, "448 2^-127", decode_flush},
    {Rule::decode_flushed_product, "7 (2^-63 2^-64)", decode_flushed_product},
    {Rule::decode_overflow, "0 (2^100 2^100)", decode_overflow, true},
    {Rule::quotient_rounding, "e4m3fn near a tie", quotient_rounding},
    {Rule::quotient_flush, "e4m3fn of a subnormal", quotient_flush},
    {Rule::quotient_range, "448 / 2^-125", quotient_range, true},
    {Rule::quotient_ties, "q8 of 2.5", quotient_ties},
    {Rule::code_step, "q8 of 2.5, undeclared", code_step},
    {Rule::scale_rounding, "1 / (448 / absmax)", scale_rounding},
    {Rule::scale_underflow, "q8_K below 2^-120", scale_underflow},
    {Rule::block_move, "q8_0, a scale near a tie", block_move},
    {Rule::nvfp4_rounding, "nvfp4 near a tie", nvfp4_rounding},
    {Rule::nvfp4_range, "nvfp4 of 2^-131", nvfp4_range, true},
    {Rule::mx_logarithm, "mxfp4_ggml below 2^100", mx_logarithm},
    {Rule::block_sum_storage, "q8_1 times a minimum", block_sum_storage},
    {Rule::block_sum_overflow, "q8_1 of 12700", block_sum_overflow, true},
    {Rule::block_sum_rounding, "15 d - m = 0", block_sum_rounding, false, 0.001},
    {Rule::store_flush, "f16 below 2^-14", store_flush},
    {Rule::store_way_overflow, "f16's Inf in f32", store_way_overflow, true},
};

TEST(QuantisedRules, each_has_a_point_that_it_alone_keeps_inside) {
  for (const Row& row : kRows) {
    const Point p = row.point();
    const double sound = worst_ratio(p.truth(), p.got);
    const Unsound weak(row.rule);
    const double unsound = worst_ratio(p.truth(), p.got);
    std::printf("%-24s %-24s %.3g, unsound %.3g\n",
                std::string(kRules[static_cast<std::size_t>(row.rule) - 1].name).c_str(), row.what, sound,
                unsound);
    EXPECT_LE(sound, 1) << row.what;
    EXPECT_TRUE(row.claims ? sound == 0 : sound > row.share) << row.what;
    EXPECT_GT(unsound, 1) << row.what;
  }
}

}  // namespace
}  // namespace assay::testing
