#include "reference/ops/moe_testing.hpp"
#include "reference/real/mp.hpp"

namespace assay::testing {
namespace {

using namespace mixture;
using Real = mp::Real200;

// What the path makes of the exact h.
void cast(std::vector<Real>& h, std::string_view a) {
  if (a == "f32") return;
  Real largest = 0;
  for (const Real& each : h) largest = std::max(largest, Real(abs(each)));
  const std::string_view element = format(a).element;
  const Real scale = a.ends_with("_tok") ? largest / format(a).scale_divisor : Real(1);
  for (Real& each : h)
    each = scale * Real(round_to(scalar_format(element), static_cast<double>(each / scale)));
}
Real size_of(const Real& y) { return abs(y) + Real(0.1); }

// e4m3 x e4m3 by one unit and bf16 x bf16 by another, as a checkpoint with w2 left in bf16 is run.
TEST(Moe, the_second_product_may_have_a_unit_of_its_own) {
  const Moe m("e4m3fn_tok", "e4m3fn_tok", "f32", 1, "bf16");
  const Truth two = m.c.truth("acc=hopper_fp8 order=sequential down_acc=hopper_bf16"),
              wide = m.c.truth("acc=hopper_fp8 order=sequential down_acc=f32");
  ASSERT_EQ(two.value.size(), kTokens * kHidden);
  for (std::size_t i = 0; i < two.value.size(); ++i) {
    EXPECT_TRUE(std::isfinite(two.limit[i])) << i;
    EXPECT_LE(std::fabs(two.value[i] - wide.value[i]), two.limit[i] + wide.limit[i]) << i;
  }
  EXPECT_NE(two.limit, wide.limit);
  // hopper_fp8 takes no bf16.
  EXPECT_EQ(kind_of([&] { m.c.truth("acc=hopper_fp8 order=sequential"); }), InputErrorKind::bad_value);
  EXPECT_EQ(kind_of([&] { m.c.truth("acc=hopper_fp8 down_acc=hopper_bf17"); }), InputErrorKind::bad_contract);
}

TEST(Moe, the_value_agrees_with_mpfr_and_the_declared_casts) {
  for (const auto& [a, w] : {std::pair{"bf16", "bf16"},
                             {"bf16", "int4_g32"},
                             {"int8_tok", "int4_ch"},
                             {"e4m3fn_tok", "e4m3fn_tok"}}) {
    const Moe m(a, w, "f32");
    const Truth t = m.c.truth(std::string(a) == "int8_tok" ? "acc=i32" : "");
    const auto operands = [&](const char* tensor) {
      std::vector<double> numbers = decode_tensor(m.c.set.at(tensor));
      for (double& each : numbers)
        if (std::string_view(a) == "bf16") each = round_bf16(each);
      return numbers;
    };
    const std::vector<double> x = operands("x"), w13 = operands("w13"), w2 = operands("w2");
    for (std::size_t token = 0; token < kTokens; token += 2)
      for (std::size_t i = 0; i < kHidden; i += 21) {
        Real y = 0;
        for (std::size_t s = 0; s < kTopk; ++s) {
          const std::size_t e = static_cast<std::size_t>(m.ids[token * kTopk + s]);
          Real out = 0;
          std::vector<Real> h(kInter);
          for (std::size_t r = 0; r < kInter; ++r) {
            Real g = 0, u = 0;
            for (std::size_t l = 0; l < kHidden; ++l) {
              const Real gate = Real(x[token * kHidden + l]) * Real(w13[(e * 2 * kInter + r) * kHidden + l]);
              const Real up =
                  Real(x[token * kHidden + l]) * Real(w13[(e * 2 * kInter + kInter + r) * kHidden + l]);
              g += gate, u += up;
            }
            const Real silu = g / (1 + exp(-g));
            h[r] = silu * u;
          }
          cast(h, a);
          for (std::size_t r = 0; r < kInter; ++r) out += Real(w2[(e * kHidden + i) * kInter + r]) * h[r];
          y += Real(m.weights[token * kTopk + s]) * out;
        }
        const std::size_t at = token * kHidden + i;
        ASSERT_LE(static_cast<double>(abs(y - Real(t.value[at]))),
                  t.limit[at] + 0x1p-24 * std::fabs(t.value[at]))
            << a << " x " << w;
        // int8: dozens of roundings in f32 on the way, and no code of these is in doubt. bf16: h is known to
        // parts of its own step, and some of 32 in a sum are in doubt by one.
        ASSERT_LE(t.limit[at],
                  (std::string(a) == "int8_tok" ? 0x1p-17 : 0x1p-5) * static_cast<double>(size_of(y)))
            << a << " x " << w;
      }
  }
}

TEST(Moe, correct_kernels_of_every_path_stay_within_the_limit_and_faults_are_caught) {
  struct Row {
    const char *a, *w, *path, *element, *contract;
    double largest;
  };
  const Row rows[] = {{"f32", "f32", "f32", "", "", 0},
                      {"bf16", "bf16", "bf16", "", "", 0},
                      {"f16", "f16", "f16", "", "", 0},
                      {"bf16", "int4_g32", "bf16", "", "", 0},
                      {"int8_tok", "int4_ch", "codes", "int8", "acc=i32", 127},
                      {"int8_tok", "e4m3fn_tok", "codes", "int8", "", 127},
                      {"e4m3fn_tok", "e4m3fn_tok", "codes", "e4m3fn", "", 448}};
  for (const Row& row : rows)
    for (const float size : {0.1F, 1.0F, 20.0F})
      for (const char* out : {"f32", "bf16"}) {
        const Moe m(row.a, row.w, out, size);
        const Truth t = m.c.truth(row.contract);
        const auto run = [&](const Faults& f) {
          return kernel(m, row.path, row.element, row.largest, out, f);
        };
        const Judgement good = judge(t, run({}));
        EXPECT_EQ(good.bad, 0U) << row.a << " x " << row.w << " " << good.first;
        expect_caught(t, run({.swap_gate_and_up = true}));
        expect_caught(t, run({.forget_weight = true}));
        expect_caught(t, run({.neighbour_expert = true}));
        expect_caught(t, run({.no_silu = true}));
        if (std::string_view(row.path) == "f32" || std::string_view(row.path) == "f16")
          expect_caught(t, run({.scale = 1.01}));
      }
}

TEST(Moe, an_intermediate_cast_passes_only_where_declared) {
  const Moe m("f32", "f32", "f32");
  // h in bf16 between the products, everything else f32
  expect_caught(m.c.truth(""), kernel(m, "bf16", "", 0, "f32"));
  expect_pass(m.c.truth(""), kernel(m, "f32", "", 0, "f32"));
  expect_caught(m.c.truth("gate_up=bf16 expert_out=bf16"), kernel(m, "f32", "", 0, "f32"));
}

TEST(Moe, a_declared_cast_that_is_skipped_is_caught_on_every_path) {
  struct Row {
    const char *a, *w, *path, *element, *contract;
    double largest;
  };
  for (const Row& row :
       {Row{"bf16", "bf16", "bf16", "", "order=lanes:8", 0}, Row{"f16", "f16", "f16", "", "order=lanes:8", 0},
        Row{"int8_tok", "int4_ch", "codes", "int8", "acc=i32", 127},
        Row{"e4m3fn_tok", "e4m3fn_tok", "codes", "e4m3fn", "order=lanes:8", 448}}) {
    const Moe m(row.a, row.w, "f32");
    const Truth t = m.c.truth(row.contract);
    const Values kept = kernel(m, row.path, row.element, row.largest, "f32");
    const Values skipped = kernel(m, row.path, row.element, row.largest, "f32", {.skip_cast = true});
    expect_pass(t, kept);
    EXPECT_GT(judge(t, skipped).bad, t.value.size() / 4) << row.a;
  }
}

// vLLM and others keep h in bf16 before they quantise it: neither twin passes as the other.
TEST(Moe, h_in_bf16_before_its_codes_is_a_declaration) {
  for (const auto& [a, element, largest] :
       {std::tuple{"int8_tok", "int8", 127.0}, {"e4m3fn_tok", "e4m3fn", 448.0}}) {
    const Moe m(a, a, "f32");
    const std::string contract = std::string(element) == "int8" ? "acc=i32" : "order=lanes:8";
    const Truth plain = m.c.truth(contract), narrow = m.c.truth(contract + " h=bf16");
    const Values in_f32 = kernel(m, "codes", element, largest, "f32");
    const Values in_bf16 = kernel(m, "codes", element, largest, "f32", {.h = "bf16"});
    expect_pass(plain, in_f32);
    expect_pass(narrow, in_bf16);
    EXPECT_GT(judge(plain, in_bf16).bad, plain.value.size() / 8) << a;
    EXPECT_GT(judge(narrow, in_f32).bad, plain.value.size() / 8) << a;
  }
}

// int4 under W4A8 with w2 left in bf16: codes in int32 first, h rounded to bf16 and summed in f32 then.
TEST(Moe, each_product_takes_the_path_of_its_own_weights) {
  const Moe m("int8_tok", "int4_ch", "f32", 1, "bf16");
  const Truth t = m.c.truth("acc=i32 order=lanes:8");
  expect_pass(t, kernel(m, "codes", "int8", 127, "f32", {.down_path = "bf16"}));
  expect_caught(t, kernel(m, "codes", "int8", 127, "f32", {.down_path = "f32"}));
  // No product of this call is of integers: acc=i32 is then refused, as for one format.
  EXPECT_NE(message_of([] { Moe("bf16", "bf16", "f32").c.truth("acc=i32"); }).find("acc=i32"),
            std::string::npos);
}

// c (w2 h), or w2 (c h): the codes of c h are others than those of h only by the sign and by roundings, the
// rounded f16 is.
TEST(Moe, the_weight_before_or_after_the_second_product_is_a_declaration) {
  const Moe m("f16", "f16", "f32");
  const Values after = kernel(m, "f16", "", 0, "f32");
  const Values before = kernel(m, "f16", "", 0, "f32", {.weight_before = true});
  expect_pass(m.c.truth("order=lanes:8"), after);
  expect_pass(m.c.truth("order=lanes:8 weight=before"), before);
  expect_caught(m.c.truth("order=lanes:8"), before);
  expect_caught(m.c.truth("order=lanes:8 weight=before"), after);
}

TEST(Moe, a_nan_poisons_its_token_alone_and_a_bad_id_is_refused) {
  Moe m("bf16", "bf16", "f32");
  Values x = m.x;
  x[2 * kHidden + 5] = NAN;
  m.c.put("x", x);
  const Truth t = m.c.truth("");
  for (std::size_t i = 0; i < t.value.size(); ++i) EXPECT_EQ(std::isnan(t.value[i]), i / kHidden == 2) << i;
  Values ids = m.ids;
  ids[3] = 4;
  m.c.set.insert_or_assign("topk_ids", encode_tensor(format("int32"), {5, 2}, ids));
  EXPECT_NE(message_of([&] { m.c.truth(""); }).find("topk_ids[1,1]=4"), std::string::npos);
  EXPECT_EQ(kind_of([] {
              OpCase("moe",
                     {{"tokens", "1"}, {"hidden", "2"}, {"inter", "2"}, {"experts", "2"}, {"topk", "3"}})
                  .spec("x");
            }),
            InputErrorKind::bad_value);
}

}  // namespace
}  // namespace assay::testing
