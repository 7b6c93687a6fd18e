#include "reference/ops/attention/limits/detap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/ops/attention/limits/detap_contract.hpp"

namespace assay {
namespace {

using namespace detap;

// Everything of a row that its columns share.
struct RowError {
  double theta = kInf, e_l = kInf;
  double weight = 0;  // W
  double tiles = 0;   // that the row may touch
  double changes = 0;
  // Weights of certified.hpp (relative to 2^M) times this are relative to the largest logit.
  double to_top = 1;
};

RowError row_error(const AttentionGeometry& g, const Kernel& kernel, const AttentionRow& row, double sink,
                   const Conversions& applied, std::size_t at) {
  RowError e;
  // A sink so far below the keys weighs less than the flush that every key is allowed, however it is rounded.
  const bool sunk =
      g.sinks && std::isfinite(sink) && sink >= row.largest_logit - kSunk - kSunkSlope * std::fabs(sink);
  const double top = sunk ? std::max(row.largest_logit, sink) : row.largest_logit;
  e.to_top = std::exp(row.log2_reference * 0.6931471805599453 - top) * (1 - 0x1p-30);
  e.weight = row.weight_sum * e.to_top;
  const auto n = static_cast<double>(row.keys);
  const double longest = static_cast<double>(std::min(row.span, kernel.split > 1 ? kernel.part : row.span));
  const double tiles = std::ceil(longest / static_cast<double>(kernel.tile)) + 1;  // unaligned start
  e.tiles = tiles;
  const double b = row.norm_product, x = b + row.bias_max + (sunk ? std::fabs(sink) : 0.0);
  const double abs_sum = row.q_norm * row.k_norm + Conversions::of(applied.minimum_size, at);
  const double subnormal =
      std::max(std::ldexp(row.k_norm, kernel.q_emin), std::ldexp(row.q_norm, kernel.k_emin));
  const DotError qk(kernel.qk, kernel.of_qk(g.d), abs_sum, subnormal, kernel.qk_scaled);
  const double root = std::sqrt(static_cast<double>(g.d));
  // Codes of q summed in 16 bits, in units of their own scale.
  if (kernel.q_code > 0 && kernel.qk.kind == Accumulator::Kind::floating && kernel.qk.precision.p < 24)
    return e;
  const double q_most = kernel.q_code > 0 ? kernel.q_code * root : row.q_norm;
  const double k_most = kernel.k_code > 0 ? kernel.k_code * root : row.k_norm;
  if (!Kernel::holds(kernel.qk, q_most * k_most)) return e;
  // Into B and X too, to first order.
  double conversions = applied.uncertainty(at) * row.k_norm * (1 + 32 * kU) +
                       Conversions::of(applied.minimum_error, at) * (1 + 32 * kU);
  if (kernel.converts_k) conversions += kernel.convert.u * abs_sum + kernel.convert.tiny * root * row.q_norm;
  if (kernel.k_rounds) conversions += 2 * kU * abs_sum;
  if (kernel.q_blocks)
    conversions += row.q_norm * (0.5 / 127 + 0x1p-11) * (1 + 0x1p-9) * root * row.k_norm +
                   0x1p-24 * 127 * root * row.k_norm;
  else if (kernel.converts_q)
    conversions += kernel.q.u * abs_sum + kernel.q.tiny * root * row.k_norm;
  if ((kernel.converts_k && row.k_norm >= kernel.convert.largest) ||
      (kernel.converts_q && !kernel.q_blocks && row.q_norm >= kernel.q.largest))
    return e;
  double lambda = g.scale * (qk((abs_sum + conversions) * (1 + 4 * kU)) + conversions);
  lambda += 4 * kU * b + 10 * kU * x;
  if (kernel.scores_cast) {
    lambda += kernel.scores.u * x + kernel.scores.tiny;
    if (x + lambda >= kernel.scores.largest) return e;
  }
  if (g.softcap > 0) lambda += g.softcap * kU * (8 + 2 * kernel.tanh_ulp);
  if (g.alibi) lambda += 4 * kU * row.bias_max + kU * x;
  if (kernel.split > 1) lambda += kU * (6 * x + 6 * std::log(n + 2) + 6);
  e.changes = tiles - 1 + (kernel.split > 1 ? 2 : 0);
  if (static_cast<double>(row.span) <= static_cast<double>(kernel.tile) && kernel.split == 1) e.changes = 0;
  double exponent = lambda + (1 + e.changes) * std::log1p(2 * kU * kernel.exp_ulp) + 4 * kU;
  if (kernel.cast_in_sum && !kernel.p_exact) exponent += std::log1p(kernel.p.u);
  e.theta = std::expm1(exponent) * (1 + 0x1p-40);
  const double depth = kernel.rowsum_height(n, tiles);
  const auto terms = static_cast<std::int64_t>(depth) + 1;
  const DotError sum(kernel.rowsum, {terms, terms, 1, depth}, 1.0, 0.0);
  const double absolute = kernel.cast_in_sum
                              ? n * (kernel.p_exact ? kFlush : kernel.p.tiny / kernel.p_scale + kFlush)
                              : (n + 1) * kFlush;
  // Before its maximum is met, a key's weight is up to 1; a maximum over the keys alone leaves the sink above 1.
  const double sink_above = sunk ? std::max(1.0, std::exp(sink - row.largest_logit + lambda)) : 0;
  if (!((n + sink_above) * (1 + e.theta) * (1 + depth * unit_roundoff(kernel.rowsum.precision)) <
        kernel.largest_sum))
    return e;
  e.e_l = sum(e.weight * (1 + e.theta)) / e.weight + e.changes * kernel.rowsum_u * 1.01 + absolute / e.weight;
  return e;
}

}  // namespace

AttentionLimits detap_limits(const AttentionProblem& p, const CertifiedAttention& exact,
                             const Contract& contract, const Conversions& applied) {
  const AttentionGeometry& g = p.geometry();
  Kernel kernel(contract, p);  // g is of the converted problem: formats whose decoding needs no rounding
  if (applied.kv) kernel.converts_k = kernel.converts_v = false;
  if (applied.q) kernel.converts_q = kernel.q_blocks = false;
  const auto dv = static_cast<std::size_t>(g.dv);
  AttentionLimits out{exact.value, std::vector<double>(exact.value.size(), 0.0)};
  std::vector<double> before(dv), certificate(dv);
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t i = 0; i < g.rows; ++i)
      for (std::int64_t h = 0; h < g.heads; ++h) {
        const auto at = static_cast<std::size_t>(p.out_index(b, i, h));
        const AttentionRow& row = exact.rows[at / dv];
        if (g.sinks && p.sink(h) == kInf) {  // 0 or NaN, by whether the maximum is taken over the sink too
          std::fill_n(out.limit.begin() + static_cast<std::ptrdiff_t>(at), dv, kInf);
          continue;
        }
        if (row.keys == 0) {  // zeros are exact; where nothing is claimed, so it is said
          for (std::size_t c = 0; c < dv; ++c)
            if (!exact.claimed.empty() && !exact.claimed[at + c]) out.limit[at + c] = kInf;
          continue;
        }
        const RowError e = row_error(g, kernel, row, p.sink(h), applied, at / dv);
        const bool hopeless =
            !(e.theta < 0.5) || !(e.e_l < 0.5) || !(kernel.p_scale * (1 + e.theta) < kernel.p.largest);
        const double tiny = (kernel.p_exact ? 0.0 : kernel.p.tiny / kernel.p_scale) + kFlush;
        const double largest_v = exact.value_max;
        const double subnormal =
            std::max(std::ldexp(largest_v, kernel.p_emin), std::ldexp(kernel.p_scale, kernel.v_emin));
        // Weights are relative to a maximum of their own time: rescaled by what is no power of two.
        const DotError pv(kernel.pv, kernel.of_pv(row, e.tiles), largest_v * kernel.p_scale, subnormal, true);
        // Products relative to the largest logit, as the kernel scales them.
        const double top = e.weight * kernel.p_scale;
        const double u_p = kernel.p_exact ? 0.0 : kernel.p.u;
        for (std::size_t c = 0; c < dv; ++c) {
          const double o = std::fabs(exact.value[at + c]);
          certificate[c] = exact.certificate[at + c];
          if (hopeless || !std::isfinite(o)) {
            before[c] = std::isfinite(o) ? kInf : 0.0;
            continue;
          }
          const double a = exact.absolute[at + c], d = exact.deviation[at + c];
          // What is summed before the largest weight is met is not yet scaled down by it: transient overflow.
          const double all =
              exact.key_sum[at + c] * row.weight_sum * kernel.p_scale * (1 + e.theta) * (1 + u_p);
          const double chain = std::min(all, static_cast<double>(kernel.promote) * largest_v *
                                                 kernel.p_scale * (1 + e.theta) * (1 + u_p));
          const double codes =
              static_cast<double>(std::min(kernel.promote, row.keys)) * kernel.v_code * kernel.p_scale;
          if (!Kernel::holds(kernel.pv, codes) || !(chain + pv(chain) < kernel.largest_pv) ||
              !(all + pv(all) < kF32Max)) {
            before[c] = kInf;
            continue;
          }
          double n = kernel.cast_in_sum ? 0.0 : u_p * a;
          n += std::min(a, tiny * exact.key_sum[at + c] / e.to_top);
          n += pv(a * top * (1 + e.theta) * (1 + u_p)) / top * (1 + 1.1 * e.changes * kernel.pv_u);
          n += (e.changes * kernel.pv_u +
                (kernel.split > 1 ? static_cast<double>(kernel.split) + 4 + 2 * kernel.div_ulp : 0.0) * kU) *
               a * 1.01;
          if (a > 0) n += e.changes * kernel.pv_tiny / top * (1 + 1.1 * e.changes * kernel.pv_u);
          if (kernel.converts_v) {
            n += kernel.convert.u * a + kernel.convert.tiny;
            if (largest_v >= kernel.convert.largest) n = kInf;
          }
          if (kernel.v_rounds) n += 2 * kU * a;
          const double r =
              (e.theta * d / (1 - e.theta) + (1 + e.theta) / (1 - e.theta) * n + o * e.e_l) / (1 - e.e_l);
          before[c] = r * (1 + 8 * kU) + (3 + 2 * kernel.div_ulp) * kU * (o + r);
        }
        if (g.rotate == RotateKind::qkv)
          unrotate(out.value.data() + at, before.data(), certificate.data(), dv);
        for (std::size_t c = 0; c < dv; ++c) {
          double o = std::fabs(out.value[at + c]), r = before[c];
          if (kernel.out_cast) {
            r += kernel.out.u * (o + r) + kernel.out.tiny;
            if (o + r >= kernel.out.largest) r = kInf;
          }
          r += kernel.dtype.u * (o + r) + kernel.dtype.tiny;
          double limit = r * (1 + 0x1p-40) + certificate[c];
          if (!(o + limit < kernel.dtype.largest)) limit = kInf;
          // Logits that may overflow to -Inf may hide their keys, and a NaN of V with them.
          if (std::isnan(out.value[at + c])) limit = e.theta < 0.5 ? 0 : kInf;
          if (!exact.claimed.empty() && !exact.claimed[at + c]) limit = kInf;
          out.limit[at + c] = limit;
        }
      }
  return out;
}

}  // namespace assay
