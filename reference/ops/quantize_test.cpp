#include <cstring>

#include "reference/formats/scaled.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

// A quantiser in f32, as kernels run it, for scaled formats.
struct Quantiser {
  bool reciprocal_scale = false, reciprocal_code = false;
  double fault = 1;       // of the scale that is stored
  float fixed_scale = 0;  // 0: absmax / D
  Rounding rounding = Rounding::nearest_even;
};
// Judged as exact products of code and scale, which is what a decoder of the output sees.
std::vector<double> decoded(const Format& to, const Shape& shape, const Values& x, const Quantiser& q) {
  Values scales;
  const Axes axes = axes_of(shape);
  Values absmax(element_count(scale_shape(to, shape)), 0.0F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& group = absmax[scale_index(to.axis, axes, i)];
    group = std::max(group, std::fabs(x[i]));
  }
  const float divisor = static_cast<float>(to.scale_divisor);
  for (const float a : absmax) {
    float s = q.fixed_scale != 0 ? q.fixed_scale : q.reciprocal_scale ? a * (1.0F / divisor) : a / divisor;
    scales.push_back(s == 0 ? 1 : s);
  }
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float s = scales[scale_index(to.axis, axes, i)];
    const float quotient = q.reciprocal_code ? x[i] * (1.0F / s) : x[i] / s;
    y.push_back(round_to(scalar_format(to.element), quotient, {.rounding = q.rounding}) * (s * q.fault));
  }
  return y;
}

const char* const kScaled[] = {"e4m3fn_tensor", "e4m3fn_tok", "e4m3fnuz_tensor", "e5m2_tok",
                               "int8_tok",      "int8_ch",    "int4_ch",         "int4_g32"};

TEST(Quantize, every_declared_arithmetic_passes_as_itself) {
  for (const char* name : kScaled)
    for (const Shape1 shape : kShapes) {
      OpCase c("quantize", {{"rows", "4"}, {"cols", "256"}, {"to", name}});
      const Values x = c.put("x", draw(shape, 1024, 9));
      const Format& to = format(name);
      const Shape s{4, 256};
      for (const bool scale : {false, true})
        for (const bool code : {false, true}) {
          const Quantiser q{.reciprocal_scale = scale, .reciprocal_code = code};
          const std::string own = std::string("scale=") + (scale ? "reciprocal" : "divide");
          const std::vector<double> y = decoded(to, s, x, q);
          if (shape == Shape1::tiny) continue;  // the scale itself is subnormal: 1 / scale overflows
          expect_pass(c.truth(own + " code=" + (code ? "reciprocal" : "divide")), y);
          expect_pass(c.truth(own + " code=any"), y);
          expect_pass(c.truth("scale=any code=any"), y);
        }
    }
}

TEST(Quantize, a_decided_code_has_limit_zero_and_one_step_is_caught) {
  for (const char* name : kScaled) {
    OpCase c("quantize", {{"rows", "4"}, {"cols", "256"}, {"to", name}});
    const Values x = c.put("x", draw(Shape1::gaussian, 1024, 10));
    const Truth t = c.truth("");
    const std::size_t undecided = static_cast<std::size_t>(
        std::count_if(t.limit.begin(), t.limit.end(), [](double l) { return l > 0; }));
    EXPECT_LE(undecided, 8U) << name;
    const Format& to = format(name);
    const std::vector<double> good = decoded(to, {4, 256}, x, {});
    expect_pass(t, good);
    expect_caught(t, decoded(to, {4, 256}, x, {.rounding = Rounding::toward_zero}));
    expect_caught(t, decoded(to, {4, 256}, x, {.fault = 1.01}));
    expect_caught(t, decoded(to, {4, 256}, x, {.fault = 1 + 0x1p-22}));  // a scale wrong in its last bits
    std::vector<double> step = good;
    step[77] *= 1.13;
    step[78] = -step[78];
    expect_caught(t, step);
  }
}

TEST(Quantize, a_tie_admits_both_neighbours_only_when_division_does_not_decide_it) {
  OpCase c("quantize", {{"rows", "1"}, {"cols", "4"}, {"to", "int8_tensor"}});
  c.put("x", {127, 2.5F, 3.5F, -0.5F});  // scale 1: quotients are exact ties
  const Truth divided = c.truth("code=divide");
  expect_pass(divided, Values{127, 2, 4, 0});
  expect_caught(divided, Values{127, 3, 4, 0});
  const Truth any = c.truth("code=any");
  expect_pass(any, Values{127, 3, 3, -1});
  expect_caught(any, Values{127, 4, 3, -1});
  expect_caught(any, Values{126, 3, 3, -1});
}

TEST(Quantize, scalar_formats_are_exact_and_block_formats_follow_their_file) {
  for (const char* name : {"e4m3fn", "e4m3fnuz", "e5m2", "e2m1", "f16", "bf16", "q8_0", "q4_0", "q4_1",
                           "q5_0", "q5_1", "iq4_nl", "mxfp4", "mxfp8", "nvfp4", "tq3_0_c2s1"}) {
    OpCase c("quantize", {{"rows", "2"}, {"cols", "128"}, {"to", name}});
    const Values x = c.put("x", draw(Shape1::gaussian, 256, 12));
    const std::vector<double> good = decode_tensor(encode_tensor(format(name), {2, 128}, x));
    const Truth t = c.truth("");
    expect_pass(t, good);
    std::vector<double> bad = good;
    std::swap(bad[3], bad[4]);
    for (double& each : bad) each = -each;
    expect_caught(t, bad);
    if (format(name).kind == FormatKind::scalar) {
      for (const double limit : t.limit) EXPECT_EQ(limit, 0);
    }
  }
}

TEST(Quantize, nan_comes_back_as_nan_and_a_format_without_one_claims_nothing_of_it) {
  OpCase c("quantize", {{"rows", "1"}, {"cols", "4"}, {"to", "e4m3fn_tensor"}});
  c.put("x", {1, NAN, 2, 3});
  const Truth t = c.truth("");
  EXPECT_TRUE(std::isnan(t.value[1]));
  EXPECT_EQ(t.limit[0], INFINITY);  // the group's scale is undefined
  // Derivation: 4 significand bits of e4m3fn are within 2^-4 of a number, its scale included.
  constexpr double kStep = 0x1p-4;
  EXPECT_NEAR(c.truth("absmax=finite").value[0], 1, kStep);
  EXPECT_LT(c.truth("absmax=finite").limit[0], kStep);
  OpCase d("quantize", {{"rows", "1"}, {"cols", "4"}, {"to", "int8_tensor"}});
  d.put("x", {1, NAN, 2, 3});
  EXPECT_EQ(d.truth("").limit[1], INFINITY);
  EXPECT_GE(d.truth("absmax=finite").limit[1], 128 * (3.0F / 127));
  EXPECT_LT(d.truth("absmax=finite").limit[1], 129 * (3.0F / 127));
}

TEST(Dequantize, one_rounding_is_decided_for_every_format_and_a_planted_one_is_caught) {
  for (const Format& from : formats()) {
    if (from.name.starts_with("int32") || from.name == "f64") continue;
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      OpCase c("dequantize",
               {{"rows", "1"}, {"cols", "256"}, {"from", std::string(from.name)}, {"dtype", dtype}});
      c.put("x", draw(Shape1::gaussian, 256, 13));
      const std::vector<double> exact = decode_tensor(c.set.at("x"));
      const Arithmetic rd{dtype};
      Values good, scaled, negated;
      for (const double each : exact) {
        const float f = static_cast<float>(each);
        good.push_back(rd(double(f)));
        scaled.push_back(rd(double(f) * 1.01));
        negated.push_back(rd(-double(f)));
      }
      const Truth t = c.truth("");
      expect_pass(t, good);
      expect_pass(c.truth("roundings=2"), good);
      if (from.kind != FormatKind::scalar) expect_caught(t, scaled);
      if (from.name != "e8m0") expect_caught(t, negated);
    }
  }
}

TEST(Dequantize, two_roundings_are_admitted_only_where_declared) {
  OpCase c("dequantize", {{"rows", "1"}, {"cols", "4096"}, {"from", "nvfp4"}});
  c.put("x", draw(Shape1::gaussian, 4096, 14));
  const std::vector<double> exact = decode_tensor(c.set.at("x"));
  const Plane& plane = c.set.at("x").planes.at(2);
  float global = 0;
  std::memcpy(&global, plane.bytes.data(), 4);
  Values divided, by_reciprocal, multiplied;
  for (const double each : exact) {
    const float product = static_cast<float>(each * global);  // lut * block scale, exact in f32
    divided.push_back(product / global);
    by_reciprocal.push_back(product * (1.0F / global));
    multiplied.push_back(product * global);
  }
  expect_pass(c.truth("roundings=1"), divided);
  expect_pass(c.truth("roundings=2"), by_reciprocal);
  expect_caught(c.truth("roundings=1"), by_reciprocal);
  expect_caught(c.truth("roundings=2"), multiplied);
}

TEST(Dequantize, a_narrow_intermediate_pays_for_what_cancels_and_a_scale_of_nan_is_refused) {
  OpCase c("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", "q4_1"}});
  c.put("x", draw(Shape1::gaussian, 32, 1));
  const Truth wide = c.truth("mid=f32 roundings=2"), narrow = c.truth("mid=f16 roundings=2");
  for (std::size_t i = 0; i < 32; ++i) EXPECT_GT(narrow.limit[i], 1000 * wide.limit[i]);
  OpCase d("dequantize", {{"rows", "1"}, {"cols", "32"}, {"from", "int8_tok"}});
  d.put("x", draw(Shape1::gaussian, 32, 1));
  std::fill_n(d.set.at("x").planes[1].bytes.begin(), 4, std::byte{0xff});
  EXPECT_EQ(kind_of([&] { d.truth(""); }), InputErrorKind::bad_scale);
  EXPECT_EQ(
      kind_of([] { OpCase("dequantize", {{"rows", "1"}, {"cols", "31"}, {"from", "q8_0"}}).truth(""); }),
      InputErrorKind::ragged_block);
}

TEST(Requantize, the_progressive_chain_and_its_faults) {
  OpCase c("requantize", {{"rows", "16"}, {"cols", "128"}, {"from", "e4m3fn_tensor"}, {"to", "int4_ch"}});
  const Values x = c.put("x", draw(Shape1::peaked, 2048, 15));
  const Truth t = c.truth("");
  const Format& to = format("int4_ch");
  expect_pass(t, decoded(to, {16, 128}, x, {}));
  expect_caught(t, decoded(to, {16, 128}, x, {.fault = 1.01}));
  // Skipping the first step: int4 from the unquantised numbers.
  expect_caught(t, decoded(to, {16, 128}, draw(Shape1::peaked, 2048, 15), {}));
}

// int4 in groups, to FP8 under one scale, to int4 per channel under a second one: the stages one after the
// other, as kernels take them.
std::vector<double> two_stages(const Shape& shape, const Values& x, const Quantiser& first,
                               const Quantiser& second, bool through_fp8 = true) {
  const std::vector<double> in_fp8 = decoded(format("e4m3fn_tensor"), shape, x, first);
  float absmax = 0;
  for (const float each : x) absmax = std::max(absmax, std::fabs(each));
  const float scale = first.reciprocal_scale ? absmax * (1.0F / 448.0F) : absmax / 448.0F;
  Values e;
  for (std::size_t i = 0; i < x.size(); ++i)
    e.push_back(through_fp8 ? static_cast<float>(in_fp8[i] / static_cast<double>(scale)) : x[i] / scale);
  std::vector<double> y = decoded(format("int4_ch"), shape, e, second);
  for (double& each : y) each *= static_cast<double>(scale);
  return y;
}

TEST(Requantize, int4_in_groups_by_fp8_to_int4_per_channel_is_judged_as_a_whole) {
  const Shape shape{8, 256};
  for (const char* from : {"int4_g32", "int4_g32_bf16", "f32"})
    for (const Shape1 kind : {Shape1::gaussian, Shape1::peaked}) {
      OpCase c("requantize", {{"rows", "8"}, {"cols", "256"}, {"from", from}, {"to", "int4_ch_tensor"}});
      const Values x = c.put("x", draw(kind, 2048, 27));
      for (const bool scale : {false, true})
        for (const bool code : {false, true}) {
          const Quantiser q{.reciprocal_scale = scale, .reciprocal_code = code};
          const std::string own = std::string("scale=") + (scale ? "reciprocal" : "divide") +
                                  " code=" + (code ? "reciprocal" : "divide");
          const std::vector<double> y = two_stages(shape, x, q, q);
          const Truth decided = c.truth(own);
          expect_pass(decided, y);
          for (const double limit : decided.limit) EXPECT_EQ(limit, 0);
          expect_pass(c.truth("scale=any code=any"), y);
        }
      const Truth t = c.truth("scale=any code=any");
      // The FP8 stage left out; a scale dropped, and one that is off; codes cut toward zero.
      expect_caught(t, two_stages(shape, x, {}, {}, false));
      expect_caught(t, two_stages(shape, x, {}, {.fixed_scale = 1}));
      expect_caught(t, two_stages(shape, x, {}, {.fault = 1.01}));
      expect_caught(t, two_stages(shape, x, {}, {.rounding = Rounding::toward_zero}));
      expect_caught(t, two_stages(shape, x, {.rounding = Rounding::toward_zero}, {}));
    }
}

TEST(Requantize, nvfp4_into_e4m3fn_with_scale_one_clamps_at_448) {
  OpCase c("requantize",
           {{"rows", "4"}, {"cols", "64"}, {"from", "nvfp4"}, {"to", "e4m3fn_tensor"}, {"scale", "one"}});
  Values values = draw(Shape1::gaussian, 256, 16);
  values[5] = 2000;
  const Values x = c.put("x", values);
  const Truth t = c.truth("");
  EXPECT_EQ(t.value[5], 448);
  expect_pass(t, decoded(format("e4m3fn_tensor"), {4, 64}, x, {.fixed_scale = 1}));
  expect_caught(t, decoded(format("e4m3fn_tensor"), {4, 64}, x, {}));
  EXPECT_EQ(kind_of([] {
              OpCase("requantize",
                     {{"rows", "1"}, {"cols", "32"}, {"from", "q8_0"}, {"to", "q4_0"}, {"scale", "one"}})
                  .truth("");
            }),
            InputErrorKind::bad_value);
}

// The scale that a first request locks for ever: K constant 200, first request in [-5, 5].
double stored_after(float first_max, float later, const char* constant = "200") {
  OpCase c("kv_write", {{"tokens", "1"},
                        {"heads", "1"},
                        {"d", "2"},
                        {"to", "e4m3fn_tensor"},
                        {"policy", "locked"},
                        {"constant", constant}});
  c.put("first", {-first_max, first_max});
  c.put("x", {later, 0});
  return c.truth("").value[0];
}
double code_after(float first_max, float later) {
  return stored_after(first_max, later) / static_cast<double>(first_max / 200.0F);
}

TEST(KvWrite, a_locked_scale_clips_a_later_request) {
  EXPECT_EQ(5.0F / 200.0F, 0.025F);
  EXPECT_EQ(448 * (5.0F / 200.0F), 11.2F);
  for (const auto& [later, percent] : {std::pair{20.0F, 44.0}, {15.0F, 25.3}, {50.0F, 77.6}}) {
    const double back = stored_after(5, later);
    EXPECT_EQ(static_cast<float>(back), 11.2F);
    EXPECT_EQ(std::round(1000 * (later - back) / later) / 10, percent) << later;
  }
  EXPECT_EQ(code_after(5, 20), 448);
  EXPECT_EQ(code_after(50, 2), 8);  // the other way round: 8 of 448, no crash, little precision
  // V's constant: 400 is a tie of e4m3fn, and goes to 384.
  EXPECT_EQ(static_cast<float>(stored_after(5, 20, "100")), 19.2F);
}

TEST(KvWrite, each_policy_stores_by_its_own_scale_and_another_policys_is_caught) {
  const std::map<std::string, std::string> policies = {
      {"fixed", "e4m3fn_tensor"}, {"locked", "e4m3fn_tensor"}, {"request", "e4m3fn_tensor"},
      {"token", "e4m3fn_tok"},    {"head", "int8_head"},       {"calibrated", "int8_tensor"}};
  for (const auto& [policy, name] : policies) {
    OpCase c("kv_write",
             {{"tokens", "8"}, {"heads", "2"}, {"d", "16"}, {"to", name}, {"policy", policy}, {"page", "2"}});
    const Values x = c.put("x", draw(Shape1::gaussian, 256, 18, 7));
    float first_max = 0, x_max = 0;
    for (const float each : x) x_max = std::max(x_max, std::fabs(each));
    if (policy == "locked" || policy == "calibrated")
      for (const float each : c.put("first", draw(Shape1::gaussian, 256, 19, 3)))
        first_max = std::max(first_max, std::fabs(each));
    const Values slots = c.read("slots");
    Values placed(256);
    for (std::size_t t = 0; t < 8; ++t)
      std::copy_n(x.begin() + t * 32, 32, placed.begin() + static_cast<std::size_t>(slots[t]) * 32);
    const Format& to = format(name);
    Quantiser q;
    if (policy == "fixed") q.fixed_scale = 1;
    if (policy == "locked") q.fixed_scale = first_max / 200.0F;
    if (policy == "calibrated") q.fixed_scale = first_max / 127.0F;
    const Truth t = c.truth("");
    const Shape shape{8, 2, 16};
    expect_pass(t, decoded(to, shape, placed, q));
    expect_caught(t, decoded(to, shape, x, q));  // the slots ignored
    const float other = x_max / 300.0F;
    expect_caught(t, decoded(to, shape, placed, {.fixed_scale = other}));
  }
}

TEST(KvWrite, refuses_what_no_policy_can_mean) {
  const auto attempt = [](const char* policy, const char* to, const char* page) {
    return [=] {
      OpCase("kv_write",
             {{"tokens", "6"}, {"heads", "2"}, {"d", "32"}, {"to", to}, {"policy", policy}, {"page", page}})
          .spec("x");
    };
  };
  EXPECT_EQ(kind_of(attempt("token", "e4m3fn_tensor", "0")), InputErrorKind::bad_value);
  EXPECT_EQ(kind_of(attempt("fixed", "e4m3fn", "0")), InputErrorKind::bad_value);
  EXPECT_EQ(kind_of(attempt("fixed", "e4m3fn_tensor", "4")), InputErrorKind::ragged_block);
  OpCase c("kv_write", {{"tokens", "2"}, {"heads", "1"}, {"d", "2"}, {"to", "int8_tensor"}});
  c.put("x", {1, 2, 3, 4});
  c.set.insert_or_assign("slots", encode_tensor(format("int32"), {2}, Values{0, 7}));
  EXPECT_NE(message_of([&] { c.truth(""); }).find("slots[1]=7"), std::string::npos);
}

}  // namespace
}  // namespace assay::testing
