#include <algorithm>
#include <cmath>

#include "cases/studies/adversary/attention_kernel.hpp"
#include "reference/formats/rotation.hpp"

namespace assay::adversary {

double as_operand(const Problem& p, const std::string& format, double x) {
  const bool cut = format == "tf32" && p.is("tf32", "cut");
  return round_to(
      scalar_format(format), x,
      {.rounding = cut ? Rounding::toward_zero : Rounding::nearest_even, .overflow = Overflow::ieee});
}

double as_cast(const Problem& p, const std::string& format, double x, Overflow overflow) {
  const Rounding rounding = p.is("casts", "cut") ? Rounding::toward_zero : Rounding::nearest_even;
  return round_to(scalar_format(format), x, {.rounding = rounding, .overflow = overflow});
}

AttentionQuery converted_query(const Problem& p, std::span<const double> row) {
  const Arithmetic f32("f32");
  AttentionQuery q;
  q.x.assign(row.begin(), row.end());
  const std::string& to = p.text("q");
  if (to == "none") return q;
  if (to == "f16" || to == "bf16" || to == "tf32") {
    for (double& each : q.x) each = as_operand(p, to, each);
    return q;
  }
  const auto absmax = [](std::span<const double> x) {
    double most = 0;
    for (const double each : x) most = std::max(most, std::fabs(each));
    return most;
  };
  // Codes by division or by a reciprocal, their scale likewise; where a reciprocal overflows a kernel
  // divides.
  const auto quantised = [&](std::span<double> x, double most, const auto& round) {
    const double a = absmax(x);
    double s = p.is("q_scale", "divide") ? f32.div(a, most) : f32.mul(a, f32.div(1, most));
    if (s == 0) s = 1;
    const double direct = f32.div(most, a), inverse = f32.div(1, s);
    for (double& each : x) {
      double t = f32.div(each, s);
      if (p.is("q_code", "reciprocal") && std::isfinite(inverse)) t = f32.mul(each, inverse);
      if (p.is("q_code", "direct") && std::isfinite(direct) && a > 0) t = f32.mul(each, direct);
      each = round(t);
    }
    return s;
  };
  if (to == "q8_0") {
    const Arithmetic f16("f16");
    for (std::size_t at = 0; at < q.x.size(); at += 32) {
      const std::span<double> block(q.x.data() + at, std::min<std::size_t>(32, q.x.size() - at));
      const double s = f16.round(quantised(
          block, 127, [&](double t) { return p.is("q_ties", "even") ? std::nearbyint(t) : std::round(t); }));
      q.block_scales.push_back(absmax(block) == 0 ? 0 : s);
    }
    return q;
  }
  const ScalarFormat& code = scalar_format(to);
  q.scale = quantised(q.x, code.max_finite, [&](double t) { return round_to(code, t); });
  return q;  // codes, by a scalar accumulator too
}

// D H o / sqrt(32) on groups of 32: a butterfly in f32, the factor before it, after it, or in two steps.
void unrotate_row(const Problem& p, std::vector<double>& o) {
  const Arithmetic f32("f32");
  const double root = f32.round(1 / std::sqrt(32.0));
  const std::string& when = p.text("unrotate");
  for (std::size_t at = 0; at < o.size(); at += 32) {
    double* y = o.data() + at;
    const auto times = [&](double factor) {
      for (int i = 0; i < 32; ++i) y[i] = f32.mul(y[i], factor);
    };
    if (when == "before") times(root);
    if (when == "in_two") times(0.25);
    for (int half = 1; half < 32; half *= 2)
      for (int i = 0; i < 32; ++i)
        if ((i & half) == 0) {
          const double a = y[i], b = y[i + half];
          y[i] = f32.add(a, b), y[i + half] = f32.sub(a, b);
        }
    if (when == "after") times(root);
    if (when == "in_two") times(f32.round(std::sqrt(0.5)));
    for (int i = 0; i < 32; ++i) y[i] *= kTq3SignList[static_cast<std::size_t>(i)];
  }
}

}  // namespace assay::adversary
