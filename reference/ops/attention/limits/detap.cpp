#include "reference/ops/attention/limits/detap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rule.hpp"
#include "reference/ops/attention/limits/detap_contract.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

using namespace detap;

// Everything of a row that its columns share.
struct RowError {
  double theta = kInf, e_l = kInf;
  double largest = kInf;  // of a weight as the kernel has it, relative to the exact one
  double weight = 0;      // W
  double spread = 1;      // >= 1 - p of the largest logit
  double tiles = 0;       // that the row may touch
  double changes = 0;
  double flush = kFlush;    // of a weight, in units of the largest
  double slip = 0;          // the part of it that may exceed the weight
  double unnormalised = 0;  // how far weights of merged log-sum-exps may be from adding up to 1
  // Weights of certified.hpp (relative to 2^M) times this are relative to the largest logit.
  double to_top = 1;
};

// Of the columns of one block of tq3_0.
constexpr std::size_t kRotatedBlock = 32;
double block_sum(const std::vector<double>& columns, std::size_t first) {
  double sum = 0;
  for (std::size_t c = first; c < first + kRotatedBlock; ++c) sum += columns[c];
  return sum;
}

// Steps of the online softmax that a part may take. A window may begin inside of a tile; a page that is no
// multiple of a tile may end one.
double most_tiles(const AttentionGeometry& g, const Kernel& kernel, const AttentionRow& row) {
  const auto longest = static_cast<double>(kernel.split > 1 ? std::min(row.span, kernel.part) : row.span);
  const auto tile = static_cast<double>(kernel.tile), page = static_cast<double>(g.page);
  double tiles = std::ceil(longest / tile) + 1;  // unaligned start
  if (page > tile && std::fmod(page, tile) != 0)
    tiles = std::max(tiles, (std::ceil(longest / page) + 1) * std::ceil(page / tile));
  const bool one = kernel.split == 1 && row.first == 0 && longest <= tile;
  return one ? 1 : tiles;
}

// 1. Logits: lambda; +Inf where one may overflow.
double logit_error(const AttentionGeometry& g, const Kernel& kernel, const AttentionRow& row, double x,
                   const Conversions& applied, std::size_t at, std::size_t kv_head) {
  const double b = row.norm_product,
               abs_sum = row.q_norm * row.k_norm + Conversions::of(applied.minimum_size, at);
  const double subnormal =
      std::max(std::ldexp(row.k_norm, kernel.q_emin), std::ldexp(row.q_norm, kernel.k_emin));
  const SumShape shape = kernel.of_qk(g.d);
  const DotError qk(kernel.qk, shape, abs_sum, subnormal, kernel.qk_scaled);
  const double root = std::sqrt(static_cast<double>(g.d));
  // Codes of q summed in 16 bits, in units of their own scale.
  if (kernel.q_code > 0 && kernel.qk.kind == Accumulator::Kind::floating && kernel.qk.precision.p < 24)
    return kInf;
  const double q_most = kernel.q_code > 0 ? kernel.q_code * root : row.q_norm;
  const double k_most = kernel.k_code > 0 ? kernel.k_code * root : row.k_norm;
  if (!Kernel::holds(kernel.qk, q_most * k_most)) return kInf;
  // Into B and X too, to first order.
  double conversions = applied.uncertainty(at) * row.k_norm * (1 + 32 * kU) +
                       Conversions::of(applied.minimum_error, at) * (1 + 32 * kU);
  if (kernel.converts_k) conversions += kernel.convert.u * abs_sum + kernel.convert.tiny * root * row.q_norm;
  if (kernel.k_rounds) conversions += kernel.k_decoder * abs_sum + kernel.k_tiny * root * row.q_norm;
  if (!applied.k_undecided.empty()) conversions += applied.k_undecided[kv_head] * row.q_norm * (1 + 32 * kU);
  if (kernel.q_blocks)
    conversions += row.q_norm * (0.5 / 127 + 0x1p-11) * (1 + 0x1p-9) * root * row.k_norm +
                   0x1p-24 * 127 * root * row.k_norm;
  else if (kernel.converts_q)
    conversions += kernel.q.u * abs_sum + kernel.q.tiny * root * row.k_norm;
  if (kernel.rounds_scaled_q) {
    conversions += kernel.scaled_q.u * abs_sum + kernel.scaled_q.tiny * root * row.k_norm / g.scale;
    if (applied.q && applied.q_rounds)  // a kernel may round the product alone
      conversions += kernel.scaled_q.u * abs_sum + kernel.scaled_q.tiny * root * row.k_norm;
    // With log2 e in the scale; an infinity times a K of 0 is NaN.
    if (!claims(Rule::logit_overflow, 1.5 * g.scale * row.q_norm < kernel.scaled_q.largest)) return kInf;
  }
  if ((kernel.converts_k && row.k_norm >= kernel.convert.largest) ||
      (kernel.converts_q && !kernel.q_blocks && row.q_norm >= kernel.q.largest))
    return kInf;
  conversions = rule(Rule::logit_conversion, conversions);
  const double products = (abs_sum + conversions) * (1 + 4 * kU);
  // Blocks of codes under one scale hold 16 at least, and each may have the term of a minimum.
  const double whole = Kernel::of_whole_sums(
      kernel.qk, static_cast<double>(g.d) / 8 + 2 + static_cast<double>(shape.parts + shape.blocks));
  double sum = g.scale * (qk(products) + whole * products);
  if (kernel
          .scales_q) {  // what underflows in the sum of scaled products is not scaled down, what overflows is
    const DotError scaled(kernel.qk, shape, g.scale * abs_sum, std::max(1.0, g.scale) * subnormal,
                          kernel.qk_scaled);
    sum = std::max(sum, scaled(g.scale * products));
    const double most = 2 * std::max(1.0, g.scale) * row.q_norm;  // 2: log2 e
    if (!claims(Rule::logit_overflow, most < kF32Max)) return kInf;
  }
  double lambda = rule(Rule::logit_sum, sum) + g.scale * conversions;
  if (kernel.scales_q) lambda += rule(Rule::logit_q_underflow, 0x1p-149 * root * row.k_norm);
  const double shift = kernel.fused_argument ? std::log(kernel.p_scale) : 0;  // added to the argument
  const double of_exponent = kernel.lag > 1 ? 9 : 5, most = x + lambda;       // as the kernel has it
  lambda += rule(Rule::logit_argument,
                 kU * (1 + 8 * kU) *
                     (2 * (b + lambda) + of_exponent * (most + shift) + (g.alibi ? row.bias_max + most : 0)));
  Joined joined = kernel.of_logits;
  if (kernel.q_code > 0 && row.q_norm > 0)
    joined.with(row.q_norm / (root * kernel.q_code), row.q_norm / kernel.q_code);
  if (!claims(Rule::logit_overflow, joined.fits())) return kInf;
  if (!joined.is_normal()) {
    const double codes = q_most * (kernel.k_most > 0 ? kernel.k_most * root : row.k_norm);
    lambda += rule(Rule::logit_argument, (1.5 + std::max(0.5, kernel.div_ulp)) * 0x1p-149 * joined.most *
                                             std::max(1.0, g.softcap) * codes);
  }
  if (kernel.scores_cast) {
    lambda += rule(Rule::logit_scores, kernel.scores.u * x + kernel.scores.tiny);
    // Of base 2: log2 e times as large.
    if (!claims(Rule::logit_overflow, (x + lambda) * 1.4427 < kernel.scores.largest)) return kInf;
  }
  // Each of these is relative to the capped logit, or to what tanh contracts, |z| sech^2 z <= |tanh z|.
  if (g.softcap > 0)
    lambda +=
        rule(Rule::logit_softcap, std::min(g.softcap, b + lambda) * kU *
                                      (8 + 2 * kernel.tanh_ulp + 2 * std::max(0.0, kernel.div_ulp - 2)));
  return lambda;
}

RowError row_error(const AttentionGeometry& g, const Kernel& kernel, const AttentionRow& row, double sink,
                   const Conversions& applied, std::size_t at, std::size_t kv_head) {
  RowError e;
  // A sink so far below the keys weighs less than the flush that every key is allowed, however it is rounded.
  const bool sunk =
      g.sinks && std::isfinite(sink) && sink >= row.largest_logit - kSunk - kSunkSlope * std::fabs(sink);
  const double top = sunk ? std::max(row.largest_logit, sink) : row.largest_logit;
  const double to_top = std::exp(row.log2_reference * 0.6931471805599453 - top);
  e.to_top = to_top * (1 - 0x1p-30);
  e.weight = row.weight_sum * e.to_top;
  e.spread = std::clamp(row.weight_sum * to_top - 1, 0.0, 1.0) + 0x1p-46 * (1 + std::fabs(top));
  const auto n = static_cast<double>(row.keys);
  e.tiles = most_tiles(g, kernel, row);
  const double x = row.norm_product + row.bias_max + (sunk ? std::fabs(sink) : 0.0);
  double lambda = logit_error(g, kernel, row, x, applied, at, kv_head);
  if (!(lambda < kInf)) return e;
  // A sink that enters last rescales what a single tile has left as well.
  const double merges = kernel.merges(n), sinks = sunk ? 1 : 0;
  if (kernel.split > 1 && !kernel.states) {
    // One log-sum-exp of a part, of up to n weights; then, merged two by two, one of two of them each time.
    // A row sum is up to n e^lag, and of cast weights 2^p_shift times as large.
    const double log_sum =
                     std::log(n) + std::log(kernel.lag) + (kernel.cast_in_sum ? std::log(kernel.p_scale) : 0),
                 reach = x + log_sum + 2, again = kernel.once ? 0 : merges, ln2 = 0.7;
    lambda += rule(Rule::weight_log,
                   kU * (6 + 3 * again) * reach + 2 * kU * kernel.exp_ulp * (log_sum + 1 + again * ln2));
    // Weights exp(lse_i - lse) of two parts add up to 1 but for the roundings of lse, its log and both exps,
    // and nothing divides by their sum.
    e.unnormalised = again * (kU * (2 * reach + 4) + 2 * kU * kernel.exp_ulp * (ln2 + 1)) * 1.01;
  }
  e.changes = e.tiles - 1 + merges + sinks;
  const double exp_error = std::log1p(2 * kU * kernel.exp_ulp), fused = kernel.fused_argument ? kU * x : 0;
  // Factors that many keys share move them against each other by half of what they are off.
  const double rescales = kernel.split > 1 ? e.tiles - 1 : 0.5 * (e.tiles - 1),
               joins = kernel.states ? 0.5 * merges : merges, lasts = kernel.fused_argument ? 0.5 * sinks : 0;
  double exponent = lambda + rule(Rule::logit_argument, (rescales + joins + lasts) * fused) +
                    rule(Rule::weight_exp, exp_error) + rule(Rule::weight_rescale, rescales * exp_error) +
                    rule(Rule::weight_merge, joins * exp_error) + rule(Rule::weight_sink, lasts * exp_error) +
                    4 * kU;
  e.largest = std::exp(exponent + e.changes * (exp_error + fused)) * (1 + 0x1p-40);
  const bool sums_casts = kernel.cast_in_sum && !kernel.p_exact;
  if (sums_casts) exponent += rule(Rule::weight_cast, std::log1p(kernel.p.u));
  e.theta = std::expm1(exponent) * (1 + 0x1p-40);
  e.slip = (1 + e.changes) * kernel.exp_ulp * 0x1p-149 * kernel.lag;
  e.flush = kFlush * kernel.lag + e.slip;
  const double depth = kernel.rowsum_height(row, e.tiles);
  const auto terms = static_cast<std::int64_t>(depth) + 1;
  const DotError sum(kernel.rowsum, {terms, terms, 1, depth}, 1.0, 0.0);
  double absolute = (n + 1) * e.flush;
  if (sums_casts) absolute += n * kernel.p.tiny / kernel.p_scale;
  // A unit that reads subnormal operands as 0.
  if (kernel.rowsum.unit != nullptr && kernel.rowsum.unit->combine == Combine::pairwise_flush)
    absolute +=
        n * std::ldexp(1.0, emin_of(kernel.rowsum.unit->inputs)) / (kernel.cast_in_sum ? kernel.p_scale : 1);
  // Before its maximum is met, a key's weight is up to e^lag; a maximum over the keys alone leaves the sink
  // above 1.
  const double sink_above = sunk ? std::max(1.0, std::exp(sink - row.largest_logit + lambda)) : 0;
  const double shifted = kernel.cast_in_sum ? kernel.p_scale * (1 + kernel.p.u) : 1;
  const double steps = sums_casts ? n * kernel.p.tiny : 0;
  if (!claims(Rule::row_sum_overflow, (shifted * (n * kernel.lag + sink_above) * e.largest + steps) *
                                              (1 + depth * unit_roundoff(kernel.rowsum.precision)) <
                                          kernel.largest_sum))
    return e;
  e.e_l = rule(Rule::row_sum, sum(e.weight * (1 + e.theta) + absolute) / e.weight) +
          rule(Rule::row_sum_rescale, e.changes * kernel.rowsum_u * 1.01) +
          rule(Rule::weight_underflow, absolute * (1 + e.theta) / e.weight);
  return e;
}

// 3. The cast of the weights, relative to them: of all by u_p, or, where the largest is certain to be cast as
// 2^p_shift is, of the others by u_p and of that one by what it was off, and by what that cast is.
double cast_error(const Kernel& kernel, const RowError& e, double a, double largest_v) {
  const double u = kernel.p.u, off = e.theta * (2 + e.theta),
               sure = kernel.shift_rounds ? u / 8 - 4 * kU : u / 2;
  const bool met = !kernel.p_anyhow && kernel.lag == 1 && !kernel.shares && off < sure &&
                   kernel.largest_cast < kInf && kernel.p_scale >= std::ldexp(1.0, kernel.p_emin);
  return met ? std::min(u * a, u * e.spread * largest_v + (off + kernel.largest_cast) * a) : u * a;
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
  parallel_rows(static_cast<std::size_t>(g.batch * g.rows * g.heads), dv, [&](std::size_t of_row) {
    const auto n_row = static_cast<std::int64_t>(of_row);
    const std::int64_t h = n_row % g.heads, i = n_row / g.heads % g.rows, b = n_row / g.heads / g.rows;
    thread_local std::vector<double> before, certificate;
    before.resize(dv), certificate.resize(dv);
    const auto at = static_cast<std::size_t>(p.out_index(b, i, h));
    const AttentionRow& row = exact.rows[at / dv];
    if (g.sinks && p.sink(h) == kInf) {  // 0 or NaN, by whether the maximum is taken over the sink too
      std::fill_n(out.limit.begin() + static_cast<std::ptrdiff_t>(at), dv, kInf);
      return;
    }
    if (row.keys == 0) {  // zeros are exact; where nothing is claimed, so it is said
      for (std::size_t c = 0; c < dv; ++c)
        if (!exact.claimed.empty() && !exact.claimed[at + c]) out.limit[at + c] = kInf;
      return;
    }
    const RowError e =
        row_error(g, kernel, row, p.sink(h), applied, at / dv, static_cast<std::size_t>(p.kv_head(h)));
    const bool fits =
        claims(Rule::value_overflow, kernel.p_scale * kernel.lag * e.largest < kernel.p.largest);
    const bool hopeless = !(e.theta < 0.5) || !(e.e_l < 0.5) || !fits;
    const bool moves = !applied.v_moved.empty();  // by a step of bf16 at most
    const double largest_v = exact.value_max * (moves ? 1 + 0x1p-7 : 1);
    const double subnormal =
        std::max(std::ldexp(largest_v, kernel.p_emin), std::ldexp(kernel.p_scale, kernel.v_emin));
    // Weights are relative to a maximum of their own time: rescaled by what is no power of two.
    const SumShape shape = kernel.of_pv(row, e.tiles);
    const DotError pv(kernel.pv, shape, largest_v * kernel.p_scale, subnormal, true);
    const double whole = Kernel::of_whole_sums(
        kernel.pv, 2 * e.tiles + static_cast<double>(shape.parts + shape.blocks + kernel.split));
    // Products relative to the largest logit, as the kernel scales them; of shares as they are.
    const double unit = kernel.shares ? 1 : e.weight, top = unit * kernel.p_scale;
    const double u_p = kernel.p_exact ? 0.0 : kernel.p.u, tiny_p = kernel.p_exact ? 0.0 : kernel.p.tiny;
    const double most = kernel.p_scale * kernel.lag * e.largest * (1 + u_p) + tiny_p;  // of a weight
    for (std::size_t c = 0; c < dv; ++c) {
      const double o = std::fabs(exact.value[at + c]);
      certificate[c] = exact.certificate[at + c];
      if (hopeless || !std::isfinite(o)) {
        before[c] = std::isfinite(o) ? kInf : 0.0;
        continue;
      }
      const double moved = moves ? applied.v_moved[at + c] * (1 + 0x1p-20) : 0;
      const double a = exact.absolute[at + c] + moved;
      // Shares of a second pass: their weights are not those of a row sum that was rescaled on its way.
      const double d = kernel.shares && e.changes > 0
                           ? a + o
                           : std::min({exact.deviation[at + c] + 2 * moved, a + o, 4 * largest_v * e.spread});
      // What is summed before the largest weight is met is not yet scaled down by it: transient overflow.
      const double all = exact.key_sum[at + c] * (moves ? 1 + 0x1p-7 : 1) * row.weight_sum * most;
      const double chain = std::min(all, static_cast<double>(kernel.promote) * largest_v * most);
      const double codes = static_cast<double>(std::min(kernel.promote, row.keys)) * kernel.v_code *
                           kernel.p_scale * kernel.lag;
      if (!claims(Rule::value_overflow, Kernel::holds(kernel.pv, codes) &&
                                            chain + pv(chain) < kernel.largest_pv &&
                                            all + pv(all) < kF32Max)) {
        before[c] = kInf;
        continue;
      }
      // sum |v| / W: an absolute error of every weight; sum |v|, of every share
      const double each = exact.key_sum[at + c] / e.to_top, shared = kernel.shares ? each * e.weight : each;
      double n = 0;
      if (!kernel.p_exact && !kernel.cast_in_sum)
        n += rule(Rule::weight_cast, cast_error(kernel, e, a, largest_v));
      // Rounded to nearest, no weight is off by more than itself.
      const double stepped = tiny_p / kernel.p_scale * shared,
                   below = kernel.p_anyhow ? stepped : std::min(a + e.slip * each, stepped);
      n += rule(Rule::weight_cast_underflow, below);
      n += rule(Rule::weight_underflow, std::min(a + e.slip * each, e.flush * shared));
      if (kernel.shares) n += rule(Rule::weight_share, (2 * kernel.div_ulp + 3) * kU * a);
      const double again = 1 + 1.1 * e.changes * kernel.pv_u;
      const double carried = a * (1 + e.theta) * (1 + u_p) + below, terms = carried * top;
      n += rule(Rule::value_sum, (pv(terms) + whole * terms) / top * again);
      n += rule(Rule::value_rescale, e.changes * kernel.pv_u * carried * 1.01);
      if (kernel.split > 1)
        n += rule(Rule::value_merge, (kernel.merge_roundings() * kU * 1.01 + e.unnormalised) * carried);
      if (a > 0) n += rule(Rule::value_rescale_underflow, e.changes * kernel.pv_tiny / top * again);
      if (kernel.shift_rounds) n += 2 * kU * a;
      double conversion = moved;
      if (kernel.v_rotates)
        conversion += kernel.v_decoder * block_sum(exact.absolute, at + c - c % kRotatedBlock);
      else if (kernel.v_rounds)
        conversion += kernel.v_decoder * a;
      if (kernel.converts_v) conversion += kernel.convert.u * a + kernel.convert.tiny;
      n += rule(Rule::value_conversion, conversion);
      if (kernel.converts_v && !claims(Rule::value_overflow, largest_v < kernel.convert.largest)) n = kInf;
      const double r =
          (e.theta * d / (1 - e.theta) + (1 + e.theta) / (1 - e.theta) * n + o * e.e_l) / (1 - e.e_l);
      const double roundings = kernel.shares ? 0 : 2 * kernel.div_ulp;
      before[c] = r * (1 + 8 * kU) + rule(Rule::attention_quotient, (3 + roundings) * kU * (o + r));
      // Or the scale of codes is multiplied by 1 / l first, l at most 2^p_shift e^lag for each key and the
      // sink, and 2 for their errors.
      const double joined =
          kernel.v_code * 2 * (static_cast<double>(g.length) + 1) * kernel.p_scale * kernel.lag;
      before[c] +=
          rule(Rule::attention_underflow, (3 + roundings) * 0x1p-150 * std::max(kernel.v_scale, joined));
    }
    if (g.rotate == RotateKind::qkv) unrotate(out.value.data() + at, before.data(), certificate.data(), dv);
    for (std::size_t c = 0; c < dv; ++c) {
      double o = std::fabs(out.value[at + c]), r = before[c];
      if (kernel.out_cast) {
        r += rule(Rule::attention_store, kernel.out.u * (o + r) + kernel.out.tiny);
        if (o + r >= kernel.out.largest) r = kInf;
      }
      r += rule(Rule::attention_store, kernel.dtype.u * (o + r) + kernel.dtype.tiny);
      double limit = r * (1 + 0x1p-40) + certificate[c];
      if (!(o + limit < kernel.dtype.largest)) limit = kInf;
      // Logits that may overflow to -Inf may hide their keys, and a NaN of V with them.
      if (std::isnan(out.value[at + c])) limit = e.theta < 0.5 ? 0 : kInf;
      if (!exact.claimed.empty() && !exact.claimed[at + c]) limit = kInf;
      out.limit[at + c] = limit;
    }
  });
  return out;
}

}  // namespace assay
