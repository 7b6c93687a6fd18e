#include "reference/formats/scaled.hpp"
#include "reference/ops/op_testing.hpp"
#include "reference/real/mp.hpp"

namespace assay::testing {
namespace {

using Real = mp::Real200;

constexpr std::size_t kTokens = 5, kHidden = 64, kInter = 32, kExperts = 4, kTopk = 2;

struct Moe {
  OpCase c;
  // Decoded; where both formats share a scale along a row, codes, and the scales apart.
  Values x, w13, w2, x_scale, w13_scale, w2_scale, weights, ids;
  Moe(const char* a, const char* w, const char* dtype, float size = 1)
      : c("moe", {{"tokens", "5"},
                  {"hidden", "64"},
                  {"inter", "32"},
                  {"experts", "4"},
                  {"topk", "2"},
                  {"a", a},
                  {"w", w},
                  {"dtype", dtype}}) {
    x = c.put("x", draw(Shape1::gaussian, kTokens * kHidden, 31, size));
    w13 = c.put("w13", draw(Shape1::gaussian, kExperts * 2 * kInter * kHidden, 32, 0.1F));
    w2 = c.put("w2", draw(Shape1::gaussian, kExperts * kHidden * kInter, 33, 0.1F));
    weights = c.put("topk_weights", draw(Shape1::gaussian, kTokens * kTopk, 34));
    ids = c.read("topk_ids");
    if (!std::string_view(a).ends_with("_tok")) return;
    x = plane("x", 0), w13 = plane("w13", 0), w2 = plane("w2", 0);
    x_scale = row_scales("x"), w13_scale = row_scales("w13"), w2_scale = row_scales("w2");
  }
  Values row_scales(std::string_view tensor) const {
    const Encoded& t = c.set.at(std::string(tensor));
    const Values all = plane(tensor, 1);
    Values scales;
    for (std::int64_t at = 0; at < element_count(t.shape); at += t.shape.back())
      scales.push_back(
          all[static_cast<std::size_t>(scale_index(format(t.format).axis, axes_of(t.shape), at))]);
    return scales;
  }
  Values plane(std::string_view tensor, std::size_t which) const {
    const Plane& p = c.set.at(std::string(tensor)).planes.at(which);
    const Encoded alone{
        p.spec.format, p.spec.shape, {{{"", p.spec.format, p.spec.shape, p.spec.bytes}, p.bytes}}};
    const std::vector<double> decoded = decode_tensor(alone);
    return {decoded.begin(), decoded.end()};
  }
  const float* gate(std::size_t e, std::size_t r) const {
    return w13.data() + (e * 2 * kInter + r) * kHidden;
  }
};

struct Faults {
  double scale = 1;
  bool swap_gate_and_up = false, forget_weight = false, neighbour_expert = false, no_silu = false,
       skip_cast = false;
};

// The op in f32, operands rounded to `type` where the path says so, h quantised per token where codes are multiplied
// (small sums of integer codes are exact in f32).
Values kernel(const Moe& m, std::string_view path, std::string_view element, double largest_code,
              std::string_view out, const Faults& f = {}) {
  const Arithmetic rd{"f32"}, store{out};
  const auto operand = [&](float v) { return path == "codes" || f.skip_cast ? v : Arithmetic{path}(v); };
  const auto dot = [&](const float* a, const float* b, std::size_t n) {
    Values terms;
    for (std::size_t i = 0; i < n; ++i) terms.push_back(rd(double(operand(a[i])) * operand(b[i])));
    return sum_in(rd, terms, "lanes");
  };
  const bool codes = path == "codes";
  // (c s_a) s_b
  const auto scaled = [&](float sum, float left, float right) {
    return codes ? rd(double(rd(double(sum) * left)) * right) : sum;
  };
  const auto scale_of = [](const Values& scales, std::size_t row) {
    return scales.empty() ? 1.0F : scales[row];
  };
  Values y(kTokens * kHidden, 0.0F);
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t s = 0; s < kTopk; ++s) {
      std::size_t e = static_cast<std::size_t>(m.ids[t * kTopk + s]);
      if (f.neighbour_expert) e = (e + 1) % kExperts;
      Values h(kInter);
      float absmax = 0;
      for (std::size_t r = 0; r < kInter; ++r) {
        const auto row = [&](std::size_t at) {
          return scaled(dot(&m.x[t * kHidden], m.gate(e, at), kHidden), scale_of(m.x_scale, t),
                        scale_of(m.w13_scale, e * 2 * kInter + at));
        };
        float g = row(r), u = row(kInter + r);
        if (f.swap_gate_and_up) std::swap(g, u);
        const float activated = f.no_silu ? g : rd(double(g) / rd(1.0 + rd(std::exp(-double(g)))));
        h[r] = rd(rd(double(activated) * u) * f.scale);
        absmax = std::max(absmax, std::fabs(h[r]));
      }
      const float scale = absmax / static_cast<float>(largest_code);
      for (float& each : h)
        if (codes)
          each =
              f.skip_cast ? each / scale : static_cast<float>(round_to(scalar_format(element), each / scale));
      for (std::size_t i = 0; i < kHidden; ++i) {
        const float out_e = scaled(dot(h.data(), &m.w2[(e * kHidden + i) * kInter], kInter), scale,
                                   scale_of(m.w2_scale, e * kHidden + i));
        const float c = f.forget_weight ? 1.0F : m.weights[t * kTopk + s];
        y[t * kHidden + i] = rd(double(y[t * kHidden + i]) + rd(double(out_e) * c));
      }
    }
  for (float& each : y) each = store(each);
  return y;
}

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
        // int8: dozens of roundings in f32 on the way, and no code of these is in doubt. bf16: h is known to parts of its
        // own step, and some of 32 in a sum are in doubt by one.
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
