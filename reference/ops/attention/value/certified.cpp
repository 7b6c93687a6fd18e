#include "reference/ops/attention/value/certified.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/ops/attention/value/certified_tile.hpp"
#include "reference/ops/attention/value/tanh_table.hpp"
#include "reference/parallel.hpp"
#include "reference/real/eft.hpp"
#include "reference/real/exp.hpp"

namespace assay {
namespace attention_detail {
namespace {

constexpr double kUnit = 0x1p-53;
// The f32 moments: rounding of weights and inputs, 64 fused additions in a tile, 512 tiles of a part: below
// 2^-14.
constexpr double kMomentSlack = 1 + 0x1p-13;
constexpr double kMomentFloor = 0x1p-125;  // absolute, per key: f32 underflow of weights and products

// Rows [first, first + count) of one (sequence, kv head): row-major over (query row, head of the group).
struct Task {
  std::int64_t b = 0, kv_head = 0, first = 0;
  int count = 0;
  std::vector<KeyRange> ranges;
  std::vector<Part> parts;  // one per range
  bool done = false;        // finished by the thread that computed its only part
};

void prepare(const AttentionProblem& p, const Task& task, bool moments, Part& part) {
  const AttentionGeometry& g = p.geometry();
  part.rows = task.count;
  part.v_ld = part.vf_ld = (static_cast<std::size_t>(g.dv) + 15) / 16 * 16;
  part.state.resize(static_cast<std::size_t>(task.count));
  for (int r = 0; r < task.count; ++r) {
    RowState& s = part.state[static_cast<std::size_t>(r)];
    s.row = (task.first + r) / g.group();
    s.head = task.kv_head * g.group() + (task.first + r) % g.group();
    s.range = p.range(task.b, s.row);
    s.mask = p.mask_row(s.row);
    s.slope = p.slope(s.head);
    s.position = static_cast<double>(p.position(task.b, s.row));
  }
  const std::size_t rows = static_cast<std::size_t>(task.count);
  part.l_high.zero(rows * 8);
  part.l_low.zero(rows * 8);
  part.acc_high.zero(rows * part.v_ld);
  part.acc_low.zero(rows * part.v_ld);
  if (!moments) return;
  part.absolute.zero(rows * part.vf_ld);
  part.deviation.zero(rows * part.vf_ld);
  part.key_sum.zero(rows * part.vf_ld);
  part.centre.zero(part.v_ld);
}

double shift(double x, double exponent) {
  return exponent < -2000 ? 0.0 : std::ldexp(x, static_cast<int>(exponent));
}

void finish_row(const AttentionProblem& p, const Source& k, const Source& v, const Task& task, int r,
                double q_norm, const CertifiedOptions& options, CertifiedAttention& out,
                std::vector<std::uint8_t>& unclaimed) {
  const AttentionGeometry& g = p.geometry();
  const auto dv = static_cast<std::size_t>(g.dv);
  const std::size_t at_row = static_cast<std::size_t>(r);
  const RowState& first = task.parts[0].state[at_row];
  const auto at = static_cast<std::size_t>(p.out_index(task.b, first.row, first.head));
  const bool moments = options.moments && !options.plain;
  AttentionRow& row = out.rows[at / dv];
  const KeyRange visible = first.range;
  row.first = visible.first;
  row.span = std::max<std::int64_t>(0, visible.last - visible.first);
  bool any = false, poisoned = first.poisoned, lost = first.unclaimed;
  double m = 0, k_norm = 0, pairs = 0, v_max = 0;
  for (const Part& part : task.parts) {
    const RowState& s = part.state[at_row];
    row.keys += s.keys;
    poisoned |= s.poisoned;
    lost |= s.unclaimed;
    v_max = std::max(v_max, part.v_max);
    if (!s.started) continue;
    row.largest_logit = any ? std::max(row.largest_logit, s.largest) : s.largest;
    m = any ? std::max(m, s.m) : s.m;
    k_norm = std::max(k_norm, s.k_norm);
    pairs = std::max(pairs, s.delta_pair);
    any = true;
  }
  const bool sees = [&] {
    for (std::int64_t j = visible.first; j < visible.last; ++j)
      if (first.mask == nullptr || first.mask[j] != 0) return true;
    return false;
  }();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double sink = p.sink(first.head);
  if (g.sinks && (std::isnan(sink) || sink > std::numeric_limits<double>::max())) poisoned = true;
  if (!sees) return;  // zeros
  if (poisoned || lost || !any) {
    for (std::size_t c = 0; c < dv; ++c) {
      out.value[at + c] = poisoned ? nan : 0.0;
      unclaimed[at + c] = !poisoned;
    }
    return;
  }
  row.norm_product = g.scale * q_norm * k_norm;
  row.q_norm = q_norm;
  row.k_norm = k_norm;
  if (g.alibi)
    row.bias_max =
        std::fabs(first.slope) * std::max(std::fabs(first.position - static_cast<double>(visible.first)),
                                          std::fabs(first.position - static_cast<double>(visible.last - 1)));
  const bool with_sink = g.sinks && std::isfinite(sink);
  if (with_sink && !options.plain) m = std::max(m, std::ceil(sink * exp_detail::kLog2E));
  if (with_sink && options.plain) m = std::max(m, sink);
  row.log2_reference = m;
  const auto factor = [&](const RowState& s, double x) {
    return options.plain ? x * certified_exp(s.m - m) : shift(x, s.m - m);
  };
  double l = 0, l_low = 0;
  const auto add = [](double& high, double& low, double x) {
    const TwoDoubles t = two_sum(high, x);
    high = t.value;
    low += t.error;
  };
  for (const Part& part : task.parts) {
    const RowState& s = part.state[at_row];
    if (!s.started) continue;
    for (std::size_t i = 0; i < 8; ++i) add(l, l_low, factor(s, part.l_high[at_row * 8 + i]));
    for (std::size_t i = 0; i < 8; ++i) l_low += factor(s, part.l_low[at_row * 8 + i]);
  }
  if (with_sink) {
    double h = sink - m, low = 0;
    if (!options.plain) {
      const double c = m * exp_detail::kLn2High;
      const double c_low = std::fma(m, exp_detail::kLn2High, -c) + m * exp_detail::kLn2Low;
      const TwoDoubles t = two_sum(sink, -c);
      const TwoDoubles n = two_sum(t.value, t.error - c_low);
      h = n.value;
      low = n.error;
    }
    row.sink_weight = certified_exp(std::max(h, kFarBelow), h < -709 ? 0.0 : low);
    add(l, l_low, row.sink_weight);
  }
  l += l_low;
  row.weight_sum = l;
  // delta of certificate (L)
  const double span = 2 * std::fabs(m) * 0.6931471805599453 + 710;
  double delta = 16 * kUnit * kUnit * span + kCapError * g.softcap;
  if (pairs > 0)
    delta += static_cast<double>(g.d) * static_cast<double>(g.d) * kUnit * kUnit * row.norm_product;
  delta += k.decode_error * row.norm_product;
  const double eta = static_cast<double>(row.span) * 4e-308 * (1 + v_max) / l;
  for (std::size_t c = 0; c < dv; ++c) {
    double high = 0, low = 0, absolute = 0, key_sum = 0;
    for (const Part& part : task.parts) {
      const RowState& s = part.state[at_row];
      if (!s.started) continue;
      add(high, low, factor(s, part.acc_high[at_row * part.v_ld + c]));
      low += factor(s, part.acc_low[at_row * part.v_ld + c]);
      if (!moments) continue;
      absolute += shift(part.absolute[at_row * part.vf_ld + c], s.m - m);
      key_sum += part.key_sum[at_row * part.vf_ld + c];
    }
    const double o = (high + low) / l;
    out.value[at + c] = o;
    double a = v_max;
    if (moments) {
      const double floor = static_cast<double>(row.span) * kMomentFloor * (1 + v_max);
      double deviation = 0;
      for (const Part& part : task.parts) {
        const RowState& s = part.state[at_row];
        if (!s.started) continue;
        double weights = 0;
        for (std::size_t i = 0; i < 8; ++i) weights += part.l_high[at_row * 8 + i];
        deviation += shift(part.deviation[at_row * part.vf_ld + c] * kMomentSlack +
                               std::fabs(part.centre[c] - o) * weights * (1 + 0x1p-40),
                           s.m - m);
      }
      a = (absolute * kMomentSlack + floor) / l;
      out.absolute[at + c] = a;
      // A sink is a key with v = 0: its share of sum p |v - o| is p_sink |o|.
      out.deviation[at + c] = (deviation + floor + row.sink_weight * std::fabs(o)) / l * (1 + 0x1p-40);
      out.key_sum[at + c] = (key_sum * kMomentSlack + floor) / l;
    }
    double certificate = kUnit * (66.5 * a + 4.5 * std::fabs(o)) + 1.01 * delta * (a + std::fabs(o)) + eta;
    if (v.decode_error > 0) certificate += v.decode_error * a;
    out.certificate[at + c] = delta < 0x1p-10 ? certificate : std::numeric_limits<double>::infinity();
    // Finite inputs whose logits lie beyond what this arithmetic holds: the result is finite, and not known
    // here.
    if (!std::isfinite(o) && (!g.alibi || std::isfinite(first.slope)))
      out.value[at + c] = 0, unclaimed[at + c] = 1;
  }
  for (const Part& part : task.parts) {
    if (part.specials.empty()) continue;
    for (std::size_t c = 0; c < dv; ++c) {
      const std::uint8_t seen = part.specials[at_row * dv + c];
      if (seen == 0) continue;
      const double value = out.value[at + c];
      if (seen == kSawWeightless) {
        if (!std::isnan(value)) unclaimed[at + c] = 1;  // NaN where a kernel multiplies by the weight 0
        continue;
      }
      double met = (seen & kSawNan) != 0 || (seen & (kSawPlus | kSawMinus)) == (kSawPlus | kSawMinus) ? nan
                   : (seen & kSawPlus) != 0 ? std::numeric_limits<double>::infinity()
                                            : -std::numeric_limits<double>::infinity();
      if (std::isnan(value) || (std::isinf(value) && value != met)) met = nan;
      out.value[at + c] = met;
      unclaimed[at + c] |= (seen & kSawNan) == 0;  // infinities: a kernel's weight may be 0 there
      if ((seen & kSawNan) != 0) unclaimed[at + c] = 0;
    }
  }
}

}  // namespace
}  // namespace attention_detail

CertifiedAttention certified_attention(const AttentionProblem& problem, const CertifiedOptions& options) {
  using namespace attention_detail;
  const AttentionGeometry& g = problem.geometry();
  const Source k = make_source(problem.k()), v = make_source(problem.v());
  CertifiedAttention out;
  const auto size = static_cast<std::size_t>(problem.out_size());
  const bool moments = options.moments && !options.plain;
  out.value.assign(size, 0.0);
  out.certificate.assign(size, 0.0);
  out.rows.assign(size / static_cast<std::size_t>(g.dv), {});
  if (moments) {
    out.absolute.assign(size, 0.0);
    out.deviation.assign(size, 0.0);
    out.key_sum.assign(size, 0.0);
  }
  std::vector<std::uint8_t> unclaimed(size, 0);

  std::vector<Task> tasks;
  const std::int64_t rows = g.rows * g.group();
  double work = 0;
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.kv_heads; ++h)
      for (std::int64_t first = 0; first < rows; first += kMaxRows) {
        Task task{b, h, first, static_cast<int>(std::min<std::int64_t>(kMaxRows, rows - first)), {}, {}};
        KeyRange all{problem.length(b), 0};
        for (int r = 0; r < task.count; ++r) {
          const KeyRange range = problem.range(b, (first + r) / g.group());
          if (range.first >= range.last) continue;
          all.first = std::min(all.first, range.first);
          all.last = std::max(all.last, range.last);
        }
        for (std::int64_t from = all.first; from < all.last;) {
          const std::int64_t to = std::min(all.last, (from / kRangeKeys + 1) * kRangeKeys);
          task.ranges.push_back({from, to});
          from = to;
        }
        if (task.ranges.empty()) task.ranges.push_back({0, 0});
        task.parts.resize(task.ranges.size());
        work += static_cast<double>(task.count) *
                static_cast<double>(std::max<std::int64_t>(0, all.last - all.first));
        tasks.push_back(std::move(task));
      }
  work *= static_cast<double>(g.d + g.dv);

  std::vector<std::vector<double>> norms(tasks.size());
  struct Unit {
    std::size_t task, part;
  };
  std::vector<Unit> units;
  for (std::size_t t = 0; t < tasks.size(); ++t)
    for (std::size_t i = 0; i < tasks[t].parts.size(); ++i) units.push_back({t, i});
  for (std::size_t t = 0; t < tasks.size(); ++t) norms[t].resize(static_cast<std::size_t>(tasks[t].count));
  const auto run = [&](std::size_t u) {
    thread_local Scratch scratch;
    Task& task = tasks[units[u].task];
    Part& part = task.parts[units[u].part];
    prepare(problem, task, moments, part);
    load_queries(problem, k, task.b, part, scratch.queries);
    if (units[u].part == 0) norms[units[u].task] = scratch.queries.norm;
    process(problem, k, v, task.b, task.kv_head, task.ranges[units[u].part], options, scratch, part);
    if (task.parts.size() > 1) return;
    for (int r = 0; r < task.count; ++r)
      finish_row(problem, k, v, task, r, norms[units[u].task][static_cast<std::size_t>(r)], options, out,
                 unclaimed);
    const double largest = part.v_max;
    task.parts.clear();
    task.parts.resize(1);
    task.parts[0].v_max = largest;
    task.done = true;
  };
  parallel_units(units.size(), run, options.threads > 0 || work > 0x1p24 ? options.threads : 1);

  for (std::size_t t = 0; t < tasks.size(); ++t)
    if (!tasks[t].done)
      for (int r = 0; r < tasks[t].count; ++r)
        finish_row(problem, k, v, tasks[t], r, norms[t][static_cast<std::size_t>(r)], options, out,
                   unclaimed);
  for (const Task& task : tasks)
    for (const Part& part : task.parts) out.value_max = std::max(out.value_max, part.v_max);
  if (std::find(unclaimed.begin(), unclaimed.end(), 1) != unclaimed.end()) {
    out.claimed.resize(size);
    for (std::size_t i = 0; i < size; ++i) out.claimed[i] = unclaimed[i] == 0;
  }
  return out;
}

}  // namespace assay
