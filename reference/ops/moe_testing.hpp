// A small mixture of experts for tests: its inputs, and a kernel of any path in f32, correct or with one
// fault.
#pragma once

#include "reference/formats/scaled.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing::mixture {

constexpr std::size_t kTokens = 5, kHidden = 64, kInter = 32, kExperts = 4, kTopk = 2;

struct Moe {
  OpCase c;
  // Decoded; where both formats share a scale along a row, codes, and the scales apart.
  Values x, w13, w2, x_scale, w13_scale, w2_scale, weights, ids;
  Moe(const char* a, const char* w, const char* dtype, float size = 1, const char* w2_format = nullptr)
      : c("moe", {{"tokens", "5"},
                  {"hidden", "64"},
                  {"inter", "32"},
                  {"experts", "4"},
                  {"topk", "2"},
                  {"a", a},
                  {"w", w},
                  {"w2", w2_format == nullptr ? w : w2_format},
                  {"dtype", dtype}}) {
    x = c.put("x", draw(Shape1::gaussian, kTokens * kHidden, 31, size));
    w13 = c.put("w13", draw(Shape1::gaussian, kExperts * 2 * kInter * kHidden, 32, 0.1F));
    w2 = c.put("w2", draw(Shape1::gaussian, kExperts * kHidden * kInter, 33, 0.1F));
    weights = c.put("topk_weights", draw(Shape1::gaussian, kTokens * kTopk, 34));
    ids = c.read("topk_ids");
    if (!std::string_view(a).ends_with("_tok")) return;
    x = plane("x", 0), w13 = plane("w13", 0);
    x_scale = row_scales("x"), w13_scale = row_scales("w13");
    if (w2_format == nullptr) w2 = plane("w2", 0), w2_scale = row_scales("w2");
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

// What is wrong with a kernel, and the choices that a correct one has.
struct Faults {
  double scale = 1;
  bool swap_gate_and_up = false, forget_weight = false, neighbour_expert = false, no_silu = false,
       skip_cast = false;
  std::string_view order = "lanes";  // of sum_in
  bool weight_before = false;        // w2 (c h)
  bool weight_last = false;          // and c behind the rounding to `h`, which no contract says
  bool reciprocal = false;           // h times a rounded 1 / scale
  std::string_view h = "f32";        // the type of silu(g) v
  double silu_error = 0;             // relative, at most silu_ulp of 2^-23
  std::string_view down_path = {};   // of the second product, where it is not the first's; no codes
};

// The op in f32, operands rounded to `type` where the path says so, h quantised per token where codes are
// multiplied (small sums of integer codes are exact in f32).
inline Values kernel(const Moe& m, std::string_view path, std::string_view element, double largest_code,
                     std::string_view out, const Faults& f = {}) {
  const Arithmetic rd{"f32"}, store{out};
  const std::string_view down_path = f.down_path.empty() ? path : f.down_path;
  const auto dot = [&](const float* a, const float* b, std::size_t n, std::string_view by) {
    const auto operand = [&](float v) { return by == "codes" || f.skip_cast ? v : Arithmetic{by}(v); };
    Values terms;
    for (std::size_t i = 0; i < n; ++i) terms.push_back(rd(double(operand(a[i])) * operand(b[i])));
    return sum_in(rd, terms, f.order);
  };
  // (c s_a) s_b
  const auto scaled = [&](float sum, float left, float right, std::string_view by) {
    return by == "codes" ? rd(double(rd(double(sum) * left)) * right) : sum;
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
          return scaled(dot(&m.x[t * kHidden], m.gate(e, at), kHidden, path), scale_of(m.x_scale, t),
                        scale_of(m.w13_scale, e * 2 * kInter + at), path);
        };
        float g = row(r), u = row(kInter + r);
        if (f.swap_gate_and_up) std::swap(g, u);
        const float activated =
            f.no_silu ? g : rd(double(g) / rd(1.0 + rd(std::exp(-double(g)))) * (1 + f.silu_error));
        float made = rd(rd(double(activated) * u) * f.scale);
        if (f.weight_before && !f.weight_last) made = rd(double(made) * m.weights[t * kTopk + s]);
        h[r] = Arithmetic{f.h}(made);
        if (f.weight_before && f.weight_last) h[r] = rd(double(h[r]) * m.weights[t * kTopk + s]);
        absmax = std::max(absmax, std::fabs(h[r]));
      }
      const float scale = absmax / static_cast<float>(largest_code);
      const float inverse = 1.0F / scale;
      for (float& each : h) {
        if (down_path != "codes") break;
        const float quotient = f.reciprocal ? each * inverse : each / scale;
        each = f.skip_cast ? quotient : static_cast<float>(round_to(scalar_format(element), quotient));
      }
      for (std::size_t i = 0; i < kHidden; ++i) {
        const float out_e = scaled(dot(h.data(), &m.w2[(e * kHidden + i) * kInter], kInter, down_path), scale,
                                   scale_of(m.w2_scale, e * kHidden + i), down_path);
        const float c = f.forget_weight || f.weight_before ? 1.0F : m.weights[t * kTopk + s];
        y[t * kHidden + i] = rd(double(y[t * kHidden + i]) + rd(double(out_e) * c));
      }
    }
  for (float& each : y) each = store(each);
  return y;
}

}  // namespace assay::testing::mixture
