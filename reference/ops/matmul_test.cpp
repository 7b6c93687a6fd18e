#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/ops/dot.hpp"
#include "reference/ops/op_testing.hpp"
#include "reference/real/mp.hpp"

namespace assay::testing {
namespace {

using Real = mp::Real200;

// Operands of a kernel: values, one scale per row, the type and order of its sums.
struct Multiply {
  Values a, b;
  Values a_scale = {}, b_scale = {};  // empty: none
  std::string_view acc = "f32", order = "lanes", out = "bf16";
  double fault = 1;
  int drop = -1;
  std::string_view unit = {}, unit_format = {};
};

Values multiply(const OpCase& c, const Multiply& k) {
  const std::size_t m = c.attributes.integer("m"), n = c.attributes.integer("n"),
                    depth = c.attributes.integer("k");
  const Arithmetic rd{k.acc}, f32{"f32"}, out{k.out};
  Values y, terms(depth);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const float *a = k.a.data() + i * depth, *b = k.b.data() + j * depth;
      float sum = 0;
      if (!k.unit.empty()) {
        sum = static_cast<float>(
            fused_dot(matrix_unit(k.unit), {{a, depth}, k.unit_format}, {{b, depth}, k.unit_format}, 0));
      } else {
        for (std::size_t l = 0; l < depth; ++l)
          terms[l] = static_cast<int>(l) == k.drop ? 0.0F : rd(double(a[l]) * b[l]);
        sum = sum_in(rd, terms, k.order);
      }
      float z = f32(double(sum) * k.fault);
      if (!k.a_scale.empty()) z = f32(double(z) * k.a_scale[i % k.a_scale.size()]);
      if (!k.b_scale.empty()) z = f32(double(z) * k.b_scale[j % k.b_scale.size()]);
      y.push_back(out(double(z)));
    }
  return y;
}

struct Case {
  OpCase c;
  Values a, b;
  explicit Case(std::map<std::string, std::string> given, Shape1 shape = Shape1::gaussian, float size = 1)
      : c("matmul", [&] {
          for (const auto& [key, value] :
               std::map<std::string, std::string>{{"m", "3"}, {"n", "16"}, {"k", "256"}})
            given.emplace(key, value);
          return given;
        }()) {
    a = c.put("a", draw(shape, element_count(c.spec("a").shape), 21, size));
    b = c.put("b", draw(shape == Shape1::gaussian ? Shape1::gaussian : Shape1::alternating,
                        element_count(c.spec("b").shape), 22, size));
  }
  Values plane(std::string_view tensor, std::size_t which) const {
    const Plane& p = c.set.at(std::string(tensor)).planes.at(which);
    const Encoded alone{
        p.spec.format, p.spec.shape, {{{"", p.spec.format, p.spec.shape, p.spec.bytes}, p.bytes}}};
    const std::vector<double> decoded = decode_tensor(alone);
    return {decoded.begin(), decoded.end()};
  }
};

Values rounded_to(std::string_view name, Values x) {
  for (float& each : x) each = static_cast<float>(round_to(scalar_format(name), each));
  return x;
}

TEST(Matmul, the_exact_value_agrees_with_mpfr_for_every_pair_of_formats) {
  const std::pair<const char*, const char*> pairs[] = {
      {"f32", "f32"},
      {"f16", "f16"},
      {"bf16", "bf16"},
      {"bf16", "int4_g32"},
      {"int8_tok", "int4_ch"},
      {"f32", "q8_0"},
      {"f32", "q4_0"},
      {"bf16", "nvfp4"},
      {"e4m3fn_tok", "e4m3fn_tok"},
      {"f32", "q4_1"},
      {"bf16", "mxfp4"},
      {"f32", "iq4_nl"},
      {"e4m3fn", "e4m3fn"},
      {"int8_tensor", "int8_tok"},
  };
  for (const auto& [a, b] : pairs)
    for (const Shape1 shape : {Shape1::gaussian, Shape1::peaked, Shape1::alternating}) {
      const Case k({{"a", a}, {"b", b}, {"dtype", "f32"}}, shape);
      const std::string contract = std::string(a).starts_with("int8") ? "acc=i32" : "";
      const Contract parsed = Contract::parse(contract, k.c.op_row->contract);
      const std::string path = resolve_path("auto", format(a), format(b));
      const Operands rows(k.c.set.at("a"), path, Side::activations, 1),
          columns(k.c.set.at("b"), path, Side::weights, 1);
      const Dot dot(parsed, rows.element(), columns.element(), false);
      const std::vector<double> left = decode_tensor(k.c.set.at("a")), right = decode_tensor(k.c.set.at("b"));
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 16; j += 5) {
          Real exact = 0, absolute = 0;
          for (std::size_t l = 0; l < 256; ++l) {
            exact += Real(left[i * 256 + l]) * Real(right[j * 256 + l]);
            absolute += abs(Real(left[i * 256 + l]) * Real(right[j * 256 + l]));
          }
          const DotResult r = dot(rows.row(i), columns.row(j));
          const double error = static_cast<double>(abs(exact - Real(r.exact)));
          ASSERT_LE(error, r.certificate) << a << " x " << b;
          ASSERT_LE(r.certificate, 265 * 0x1p-53 * static_cast<double>(absolute)) << a << " x " << b;
        }
    }
}

TEST(Matmul, correct_floating_kernels_of_every_type_and_order_stay_within_the_limit) {
  double worst = 0;
  for (const std::string type : {"f32", "f16", "bf16"})
    for (const std::string_view acc : {"f32", "f16", "bf16"})
      for (const Shape1 shape : {Shape1::gaussian, Shape1::peaked, Shape1::alternating, Shape1::tiny})
        for (const std::string_view order : {"sequential", "tree", "lanes", "reversed"}) {
          const Case k({{"a", type}, {"dtype", "f32"}}, shape);
          const std::string declared = order == "tree"         ? "tree"
                                       : order == "sequential" ? "sequential"
                                                               : "any";
          const Judgement j =
              judge(k.c.truth("acc=" + std::string(acc) + " order=" + declared),
                    multiply(k.c, {.a = k.a, .b = k.b, .acc = acc, .order = order, .out = "f32"}));
          if (acc != "f32" && type == "f32")
            continue;  // products of f32 do not fit there, and overflow claims nothing
          ASSERT_EQ(j.bad, 0U) << type << acc << order << j.first;
          worst = std::max(worst, j.worst);
        }
  // Errors of 256 roundings add up like a random walk, to 1 / sqrt(256) of their worst case.
  EXPECT_GT(worst, 1 / std::sqrt(256.0)) << "the limit has become loose";
}

TEST(Matmul, small_integers_are_exact_in_any_order_and_one_step_is_caught) {
  OpCase c("matmul", {{"m", "2"}, {"n", "2"}, {"k", "512"}, {"a", "f16"}, {"dtype", "f32"}});
  Values x = draw(Shape1::gaussian, 1024, 8, 3);
  for (float& each : x) each = std::round(each);
  const Values a = c.put("a", x), b = c.put("b", x);
  const Truth t = c.truth("acc=f32");
  // Every partial sum is an integer below 2^24: nothing is rounded, but for the reference's own 512 terms in
  // double and the few operations of its certificate.
  for (std::size_t i = 0; i < t.limit.size(); ++i) {
    double magnitude = 0;
    for (std::size_t l = 0; l < 512; ++l)
      magnitude += std::fabs(double{a[i / 2 * 512 + l]} * double{b[i % 2 * 512 + l]});
    EXPECT_LE(t.limit[i], error_of_doubles(512 + 8, magnitude));
  }
  Values y = multiply(c, {.a = a, .b = b, .order = "tree", .out = "f32"});
  expect_pass(t, y);
  y[3] = std::nextafter(y[3], 0.0F);
  expect_caught(t, y);
}

TEST(Matmul, a_matrix_unit_passes_as_itself_and_is_caught_as_plain_f32) {
  const Case k({{"a", "e4m3fn"}, {"k", "4096"}, {"dtype", "f32"}});
  Values a = k.a, b = k.b;
  for (float& each : a) each = std::fabs(each);
  for (float& each : b) each = std::fabs(each);
  OpCase c = k.c;
  a = c.put("a", a);
  b = c.put("b", b);
  const Values y = multiply(c, {.a = a, .b = b, .out = "f32", .unit = "hopper_fp8", .unit_format = "e4m3fn"});
  expect_pass(c.truth("acc=hopper_fp8"), y);
  expect_caught(c.truth("acc=f32"), y);
  EXPECT_EQ(kind_of([&] { k.c.truth("acc=no_such_unit"); }), InputErrorKind::bad_value);
}

TEST(Matmul, w4a16_dequantises_to_bf16_first_and_a_wrong_nibble_is_caught) {
  const Case k({{"a", "bf16"}, {"b", "int4_g32"}, {"path", "bf16"}});
  const Truth t = k.c.truth("acc=f32");
  const Values weights = rounded_to("bf16", k.b);
  expect_pass(t, multiply(k.c, {.a = k.a, .b = weights}));
  expect_caught(t, multiply(k.c, {.a = k.a, .b = weights, .fault = 1.01}));
  Values swapped = weights;
  for (std::size_t i = 0; i + 1 < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
  expect_caught(t, multiply(k.c, {.a = k.a, .b = swapped}));
}

TEST(Matmul, w4a8_is_exact_in_i32_and_only_the_epilogue_rounds) {
  const Case k({{"a", "int8_tok"}, {"b", "int4_ch"}, {"dtype", "f32"}, {"k", "2048"}});
  const Values a = k.plane("a", 0), b = k.plane("b", 0), sa = k.plane("a", 1), sb = k.plane("b", 1);
  const Truth t = k.c.truth("acc=i32");
  for (std::size_t i = 0; i < t.value.size(); ++i) EXPECT_LE(t.limit[i], 5 * 0x1p-24 * std::fabs(t.value[i]));
  expect_pass(t, multiply(k.c, {.a = a, .b = b, .a_scale = sa, .b_scale = sb, .out = "f32"}));
  expect_caught(t, multiply(k.c, {.a = a, .b = b, .a_scale = sa, .b_scale = sb, .out = "f32", .drop = 5}));
  Values wrong_scale = sb;
  wrong_scale[2] = sb[3];
  expect_caught(t, multiply(k.c, {.a = a, .b = b, .a_scale = sa, .b_scale = wrong_scale, .out = "f32"}));
  EXPECT_EQ(kind_of([] { Case({{"a", "bf16"}, {"b", "bf16"}}).c.truth("acc=i32"); }),
            InputErrorKind::bad_value);
}

TEST(Matmul, w8a8_with_scales_per_token_and_channel) {
  const Case k({{"a", "e4m3fn_tok"}, {"b", "e4m3fn_tok"}});
  const Values a = k.plane("a", 0), b = k.plane("b", 0), sa = k.plane("a", 1), sb = k.plane("b", 1);
  const Truth t = k.c.truth("acc=f32");
  expect_pass(t, multiply(k.c, {.a = a, .b = b, .a_scale = sa, .b_scale = sb}));
  expect_caught(t, multiply(k.c, {.a = a, .b = b, .a_scale = sa, .b_scale = sb, .fault = 1.01}));
  expect_caught(t, multiply(k.c, {.a = a, .b = b, .a_scale = {sa[0]}, .b_scale = sb}));
}

// What the FP8 path of NVFP4 multiplies.
Multiply fp8_path(const Case& k) {
  float absmax = 0;
  for (const float x : k.a) absmax = std::max(absmax, std::fabs(x));
  const float scale = absmax / 448.0F;
  Multiply how{.a = k.a, .b = rounded_to("e4m3fn", k.b), .a_scale = {scale}, .out = "f32"};
  for (float& x : how.a) x /= scale;
  how.a = rounded_to("e4m3fn", how.a);
  return how;
}

TEST(Matmul, the_two_nvfp4_paths_pass_as_themselves_and_are_told_apart) {
  const Case fp8({{"a", "bf16"}, {"b", "nvfp4"}, {"path", "e4m3fn"}, {"dtype", "f32"}});
  const Case wide({{"a", "bf16"}, {"b", "nvfp4"}, {"path", "bf16"}, {"dtype", "f32"}});
  const Values by_fp8 = multiply(fp8.c, fp8_path(fp8));
  const Values by_bf16 = multiply(wide.c, {.a = wide.a, .b = rounded_to("bf16", wide.b), .out = "f32"});
  expect_pass(fp8.c.truth("acc=f32"), by_fp8);
  expect_pass(wide.c.truth("acc=f32"), by_bf16);
  expect_caught(wide.c.truth("acc=f32"), by_fp8);
}

TEST(Matmul, nvfp4_multiplied_by_its_global_scale_instead_of_divided_is_caught) {
  const Case k({{"a", "bf16"}, {"b", "nvfp4"}, {"path", "e4m3fn"}, {"dtype", "f32"}});
  const Values global = k.plane("b", 2);
  ASSERT_EQ(global.size(), 1U);
  Multiply good = fp8_path(k), bad = good;
  for (std::size_t i = 0; i < bad.b.size(); ++i) bad.b[i] = k.b[i] * global[0] * global[0];
  bad.b = rounded_to("e4m3fn", bad.b);  // everything clamps at 448
  EXPECT_GT(std::count(bad.b.begin(), bad.b.end(), 448.0F), 100);
  expect_pass(k.c.truth("acc=f32"), multiply(k.c, good));
  expect_caught(k.c.truth("acc=f32"), multiply(k.c, bad));
}

TEST(Matmul, blocks_on_a_unit_with_block_scales_and_one_scale_halved_is_caught) {
  struct Unit {
    const char *format, *acc;
    std::size_t block, scale_plane;
  };
  for (const Unit& u : {Unit{"nvfp4", "blackwell_nvfp4", 16, 1}, Unit{"mxfp4", "blackwell_mxfp4", 32, 1}}) {
    Case x({{"a", u.format}, {"b", u.format}, {"path", "blocks"}, {"dtype", "f32"}});
    const std::size_t depth = 256, blocks = depth / u.block;
    const Values a = x.plane("a", 0), b = x.plane("b", 0), a_scale = x.plane("a", u.scale_plane),
                 b_scale = x.plane("b", u.scale_plane);
    const bool nvfp4 = u.block == 16;
    const double global = nvfp4 ? double(x.plane("a", 2)[0]) * x.plane("b", 2)[0] : 1;
    const auto kernel = [&](float first) {
      Values y;
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 16; ++j) {
          Values scale(b_scale.begin() + j * blocks, b_scale.begin() + (j + 1) * blocks);
          scale.front() *= first;
          const Operand left{{a.data() + i * depth, depth}, "", {a_scale.data() + i * blocks, blocks}};
          const Operand right{{b.data() + j * depth, depth}, "", scale};
          y.push_back(static_cast<float>(fused_dot(matrix_unit(u.acc), left, right, 0) / global));
        }
      return y;
    };
    const std::string contract = std::string("acc=") + u.acc + " epilogue_roundings=2";
    const Truth truth = x.c.truth(contract);
    EXPECT_EQ(judge(truth, kernel(1)).bad, 0u) << u.format;
    EXPECT_GT(judge(truth, kernel(0.5F)).bad, 40u) << u.format;
    EXPECT_THROW(x.c.truth("acc=hopper_fp8"), InputError);
  }
}

// ggml on a CPU: activations to q8_0, integer dots of 32, f32 sums of block results.
TEST(Matmul, ggml_weights_times_activations_quantised_to_q8_0) {
  for (const char* weights : {"q8_0", "q4_0", "iq4_nl", "q5_1"}) {
    const Case k({{"a", "f32"}, {"b", weights}, {"path", "q8"}, {"dtype", "f32"}});
    const Values a = [&] {
      const std::vector<double> d = decode_tensor(encode_tensor(format("q8_0"), k.c.spec("a").shape, k.a));
      return Values(d.begin(), d.end());
    }();
    const Truth t = k.c.truth("acc=f32");
    expect_pass(t, multiply(k.c, {.a = a, .b = k.b, .out = "f32"}));
    expect_caught(t, multiply(k.c, {.a = a, .b = k.b, .out = "f32", .fault = 1.01}));
    expect_caught(t, multiply(k.c, {.a = a, .b = k.b, .out = "f32", .drop = 100}));
    // Without the quantisation of the activations it is another path, and the plain path's limit says so.
    const Case plain({{"a", "f32"}, {"b", weights}, {"path", "f32"}, {"dtype", "f32"}});
    expect_pass(plain.c.truth("acc=f32"), multiply(plain.c, {.a = plain.a, .b = plain.b, .out = "f32"}));
    expect_caught(plain.c.truth("acc=f32"), multiply(plain.c, {.a = a, .b = k.b, .out = "f32"}));
  }
}

// What PyTorch's allow_tf32 makes of f32: a unit cuts the operands that it is handed, or they are rounded
// before.
TEST(Matmul, tf32_is_a_path_and_its_rounding_a_word) {
  const Case k({{"a", "f32"}, {"path", "tf32"}, {"dtype", "f32"}});
  const Case plain({{"a", "f32"}, {"path", "f32"}, {"dtype", "f32"}});
  const std::pair<const char*, Rounding> ways[] = {{"nearest_even", Rounding::nearest_even},
                                                   {"nearest_away", Rounding::nearest_away},
                                                   {"toward_zero", Rounding::toward_zero}};
  for (const auto& [word, rounding] : ways) {
    const auto cut = [&](Values x) {
      for (float& each : x)
        each = static_cast<float>(round_to(scalar_format("tf32"), each, {.rounding = rounding}));
      return x;
    };
    const Multiply by_unit{
        .a = cut(k.a), .b = cut(k.b), .out = "f32", .unit = "hopper_tf32", .unit_format = "tf32"};
    const Values y = multiply(k.c, by_unit);
    const std::string unit = "acc=hopper_tf32 order=sequential tf32=";
    expect_pass(k.c.truth(unit + word), y);
    expect_pass(k.c.truth(unit + "any"), y);
    EXPECT_GT(judge(plain.c.truth("acc=f32"), y).bad, y.size() / 4);
    expect_caught(k.c.truth(unit + (rounding == Rounding::toward_zero ? "nearest_even" : "toward_zero")), y);
    // Without the conversion it is another path.
    const Values kept = multiply(k.c, {.a = k.a, .b = k.b, .out = "f32"});
    expect_caught(k.c.truth(std::string("acc=f32 tf32=") + word), kept);
  }
}

TEST(Matmul, nan_and_inf_reach_their_row_alone) {
  OpCase c("matmul", {{"m", "2"}, {"n", "2"}, {"k", "3"}, {"a", "f32"}, {"dtype", "f32"}});
  c.put("a", {1, NAN, 2, 1, 1, INFINITY});
  c.put("b", {1, 1, 1, 1, 1, 0});
  const Truth t = c.truth("");
  EXPECT_TRUE(std::isnan(t.value[0]) && std::isnan(t.value[1]) && std::isnan(t.value[3]));
  EXPECT_EQ(t.value[2], INFINITY);
}

TEST(Matmul, what_may_overflow_claims_nothing_and_what_must_overflow_is_inf) {
  OpCase c("matmul", {{"m", "1"}, {"n", "1"}, {"k", "2"}, {"a", "f32"}, {"dtype", "f16"}});
  c.put("a", {300, 300});
  c.put("b", {300, 300});
  EXPECT_EQ(c.truth("acc=f32").value[0], INFINITY);
  EXPECT_EQ(c.truth("acc=f32 overflow=saturate").value[0], 65504);
  expect_pass(c.truth("acc=f32 overflow=saturate"), Values{65504});
  expect_caught(c.truth("acc=f32"), Values{65504});
}

TEST(Matmul, bad_input_is_refused_by_name_and_value) {
  EXPECT_EQ(kind_of([] { Case({{"k", "33"}, {"a", "f32"}, {"b", "q8_0"}}); }), InputErrorKind::ragged_block);
  EXPECT_EQ(kind_of([] { Case(std::map<std::string, std::string>{{"a", "bf17"}}); }),
            InputErrorKind::unknown_name);
  EXPECT_EQ(kind_of([] { Case({{"a", "bf16"}, {"path", "codes"}}).c.truth(""); }), InputErrorKind::bad_value);
  Case k({{"a", "e4m3fn_tok"}, {"b", "e4m3fn_tok"}});
  Plane& scales = k.c.set.at("a").planes.at(1);
  std::fill(scales.bytes.begin(), scales.bytes.begin() + 4, std::byte{0xff});
  EXPECT_EQ(kind_of([&] { k.c.truth(""); }), InputErrorKind::bad_scale);
}

}  // namespace
}  // namespace assay::testing
