#include "reference/ops/attention/limits/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"
#include "reference/ops/attention/limits/bounds_detail.hpp"
#include "reference/ops/attention/limits/bounds_interval.hpp"
#include "reference/ops/attention/limits/bounds_values.hpp"

namespace assay {
namespace {
using namespace attention_bounds;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of what a part adds to the merged sum, relative: scaled, added, and before that divided by its own sum, if
// a kernel stores its parts so; and its weight by that of all.
double split_error(const AttentionArithmetic& how) {
  return how.split > 1 ? (static_cast<double>(how.split) + 6 + 4 * how.div_ulp) * kU : 0;
}

struct Exact {  // the real output and sum w |v| / W
  std::vector<double> value, mass;
};
Exact exact_row(const KeyValues& kv, const RowLogits& row) {
  const auto n = static_cast<std::size_t>(kv.dv);
  Exact r{std::vector<double>(n), std::vector<double>(n)};
  for (std::int64_t j = 0; j < kv.keys; ++j) {
    if (row.w[j] == 0) continue;
    const float* v = kv.v.data() + j * kv.dv;
    for (std::size_t c = 0; c < n; ++c) {
      const double term = row.w[j] * static_cast<double>(v[c]);
      r.value[c] += term;
      r.mass[c] += std::fabs(term);
    }
  }
  for (std::size_t c = 0; c < n; ++c) r.value[c] /= row.sum, r.mass[c] /= row.sum;
  return r;
}

}  // namespace

AttentionLevel attention_level(std::string_view name) {
  if (name == "detap") return AttentionLevel::detap;
  if (name == "detord") return AttentionLevel::detord;
  if (name == "ca") return AttentionLevel::ca;
  if (name == "emu") return AttentionLevel::emu;
  throw InputError(InputErrorKind::bad_value,
                   "level=" + std::string(name) + ": detap, detord, ca and emu are allowed");
}

AttentionBounds::AttentionBounds(const AttentionArithmetic& how, const KeyValues& kv)
    : how_(how), kv_(kv), facts_(std::make_unique<ValueFacts>(kv)) {
  how_.check("", kv.k_format, kv.v_format);
}
AttentionBounds::~AttentionBounds() = default;

RowBounds AttentionBounds::row(const QueryRow& query, AttentionLevel level) const {
  how_.check(query.q_format, kv_.k_format, kv_.v_format);
  if (level != AttentionLevel::detap && !how_.sequential) {
    throw InputError(InputErrorKind::bad_value,
                     "order=any: only level=detap judges a kernel whose order is unknown");
  }
  RowBounds r;
  const RowLogits row = row_logits(
      how_, kv_, query, level == AttentionLevel::detap ? ScoreError::order_free : ScoreError::ordered,
      level == AttentionLevel::emu,
      level == AttentionLevel::ca ? computed_scores(query) : std::vector<float>{});
  const auto n = static_cast<std::size_t>(kv_.dv);
  if (!row.any) {
    r.value = r.centre = r.radius = r.limit = r.low = r.high = std::vector<double>(n, 0.0);
    return r;
  }
  // A logit that may leave the range of f32 is Inf in a kernel, and Inf - Inf is right, be it the only one.
  constexpr double kRange =
      std::numeric_limits<float>::max() / 64;  // 64: a dot product before a softmax scale of 1 / 64
  bool leaves_range = false;
  for (std::int64_t j = 0; j < kv_.keys; ++j)
    leaves_range |= query.sees(j) && !(row.e[static_cast<std::size_t>(j)] < kInfinity &&
                                       std::fabs(row.x[static_cast<std::size_t>(j)]) < kRange);
  // The largest weight, 2^p_shift: beyond `p` a kernel may saturate, or hold Inf or NaN. The emulated one
  // saturates FP8.
  const FormatModel p(how_.p);
  const bool saturates = level == AttentionLevel::emu && p.format != nullptr && p.format->bits <= 8;
  leaves_range |= !saturates && !p.exact && std::ldexp(1.0, how_.p_shift) > p.max_finite;
  if (leaves_range) {
    r.value = r.centre = r.radius = r.low = r.high = std::vector<double>(n, 0.0);
    r.limit.assign(n, kInfinity);
    return r;
  }
  const Exact exact = exact_row(kv_, row);
  r.value = exact.value;
  if (level == AttentionLevel::emu && query.softcap > 0)
    level = AttentionLevel::ca;  // tanh is no single number
  switch (level) {
    case AttentionLevel::detap:
      order_free(query, row, r);
      break;
    case AttentionLevel::detord:
      ordered(query, row, r);
      break;
    case AttentionLevel::ca:
      if (how_.p == "f32")
        ordered(query, row, r);
      else
        cast_aware(query, row, r);
      break;
    case AttentionLevel::emu:
      emulated(query, row, r);
      break;
  }
  const double slop = static_cast<double>(kv_.keys + 64) * 0x1p-52;
  for (std::size_t c = 0; c < n; ++c) {
    if (level != AttentionLevel::emu)
      r.radius[c] +=
          slop * (exact.mass[c] + std::fabs(exact.value[c])) + kv_.v_error * (1 + 0x1p-20) * exact.mass[c];
    r.value[c] *= query.v_scale;
  }
  finish(query, level == AttentionLevel::emu, r);
  // A kernel may apply the scale of V before the product, whose sums are then that much larger, or to a sum
  // in f32 before its quotient.
  const Accumulator pv = accumulator(how_.pv);
  const bool before = query.v_scale > 1 && pv.kind == Accumulator::Kind::floating;
  const double largest =
      std::min<double>(before ? largest_finite(pv.precision) : kInfinity, std::numeric_limits<float>::max());
  const double reach = facts_->largest * std::max(1.0, query.v_scale) * (1 + 0x1p-4) *
                       std::ldexp(static_cast<double>(kv_.keys), how_.p_shift);
  if (!claims(Rule::value_overflow, reach < largest)) r.limit.assign(n, kInfinity);
  return r;
}

void AttentionBounds::finish(const QueryRow& query, bool output_is_exact, RowBounds& r) const {
  const FormatModel out(how_.out);
  const double largest = out.exact ? static_cast<double>(std::numeric_limits<float>::max()) : out.max_finite;
  const auto round = [&](double x) {
    return out.exact ? static_cast<double>(static_cast<float>(x)) : out.round(x);
  };
  for (std::size_t c = 0; c < r.centre.size(); ++c) {
    if (!output_is_exact) {
      const double roundings = 3 + 2 * how_.div_ulp;
      // The scale of V may be multiplied by 1 / l first: l is at most 2^p_shift for each key and the sink.
      const double joined = query.v_scale == 1
                                ? 1
                                : std::ldexp(2.0 * (static_cast<double>(kv_.keys) + 1), how_.p_shift) *
                                      (std::fabs(r.centre[c]) + r.radius[c]);
      r.radius[c] = (r.radius[c] + roundings * (kU * (std::fabs(r.centre[c]) + r.radius[c]) + 0x1p-150)) *
                        query.v_scale * (1 + 0x1p-30) +
                    roundings * 0x1p-150 * std::max(1.0, joined) + kTiny;
      r.centre[c] *= query.v_scale;
    }
    const double reach = std::fabs(r.centre[c]) + r.radius[c];
    if (!(reach < largest)) {
      r.limit.push_back(kInfinity), r.low.push_back(-kInfinity), r.high.push_back(kInfinity);
      continue;
    }
    r.limit.push_back(r.radius[c] + (out.exact ? kU * reach + kTiny : out.half_ulp(reach)));
    r.low.push_back(round(r.centre[c] - r.radius[c]));
    r.high.push_back(round(r.centre[c] + r.radius[c]));
  }
}

void AttentionBounds::ordered(const QueryRow& query, const RowLogits& row, RowBounds& r) const {
  const auto n = static_cast<std::size_t>(kv_.dv);
  const FormatModel p(how_.p);
  std::vector<ValueTerm> terms(static_cast<std::size_t>(kv_.keys));
  std::vector<double> drifts;
  std::vector<double> common(n);
  double weight_error = row.weight_error, drift = 0;
  for (const Part& part : row.parts) {
    drift = std::max(drift, rescale_drift(how_, row, part, nullptr));
    drifts.push_back(std::pow(1 + rescale_drift(how_, row, part, nullptr), 2));
    for (std::int64_t t = part.first_tile; t < part.last_tile; ++t) {
      const Tile& tile = row.tiles[t];
      for (std::int64_t j = tile.first; tile.any && j < tile.last; ++j) {
        if (!query.sees(j)) continue;
        const Interval w = tile_weight(how_, row, tile, j);
        const double factor = std::exp(tile.top - row.top);
        const bool known = w.low == w.high;
        ValueTerm& term = terms[j];
        term.weight = std::exp(row.x[j] - tile.top);
        term.known = known;
        // Weights that are all 1 meet the log and the exp of a merge.
        term.common = !known           ? term.weight * row.theta[j] + row.largest_tiny
                      : how_.split > 1 ? term.weight * row.theta[j]
                                       : 0;
        term.own = known ? 0 : std::ldexp(p.half_ulp(std::ldexp(w.high, how_.p_shift)), -how_.p_shift);
        const int head = exponent_of(std::ldexp(w.high + term.own, how_.p_shift));
        term.head = std::max(head, emin_of(how_.p)) - how_.p_shift;
        term.subnormal = exponent_of(std::ldexp(w.low, how_.p_shift)) <= emin_of(how_.p);
        drift = std::max(drift, row.theta[j]);
        const double shared = term.common * factor + (how_.denominator_cast ? term.own * factor : 0);
        if (how_.denominator_cast) weight_error += term.own * factor;
        const float* v = kv_.v.data() + j * kv_.dv;
        for (std::size_t c = 0; c < n; ++c)
          common[c] += shared * std::fabs(static_cast<double>(v[c]) - r.value[c]);
        if (how_.denominator_cast) term.common += term.own, term.own = 0;
      }
    }
  }
  const ValueSums sums = ordered_value_sums(how_, kv_, *facts_, row, terms, drifts);
  const double theta = weight_error / row.sum;
  const double lambda =
      denominator_error(how_, row, true) + static_cast<double>(how_.split > 1 ? how_.split + 2 : 0) * kU;
  const double merge = split_error(how_);
  r.centre = r.value;
  r.radius.assign(n, kInfinity);
  if (!(theta < 1) || !(lambda < 1)) return;
  for (std::size_t c = 0; c < n; ++c) {
    if (row.sink_weight > 0) common[c] += row.sink_weight * row.sink_theta * std::fabs(r.value[c]);
    const double ratio = common[c] / (row.sum * (1 - theta));
    // Each part's quotient, and what it is scaled by, errs relative to that part, whatever is left of them
    // together.
    const double own = sums.own[c] * (1 + 2 * drift) + merge * 1.01 * sums.parts[c];
    r.radius[c] =
        ratio + (own / (row.sum * (1 - theta)) + lambda * (std::fabs(r.value[c]) + ratio)) / (1 - lambda);
  }
}

void AttentionBounds::cast_aware(const QueryRow& query, const RowLogits& row, RowBounds& r) const {
  const auto n = static_cast<std::size_t>(kv_.dv);
  const FormatModel p(how_.p);
  std::vector<ValueTerm> terms(static_cast<std::size_t>(kv_.keys));
  std::vector<double> drifts, p_low(terms.size()), p_high(terms.size());
  double sum = 0, sum_error = 0, drift = 0;
  bool overflows = false;  // a weight may be beyond `p`
  // One part: its numerator is taken in units of the kernel's last maximum, so that what is added after the
  // last rescale is added as it is; the denominator then counts in the units of the real maximum, off by
  // `frame`.
  const double frame =
      how_.split == 1 && !row.all_equal ? std::expm1(row.parts.front().error * (1 + 0x1p-30)) : 0;
  const auto is_settled = [&](const Tile& tile) { return how_.split == 1 && tile.changes_after == 0; };
  for (const Part& part : row.parts) {
    drift = std::max(drift, rescale_drift(how_, row, part, nullptr));
    drifts.push_back(std::pow(1 + rescale_drift(how_, row, part, nullptr), 2));
    for (std::int64_t t = part.first_tile; t < part.last_tile; ++t) {
      const Tile& tile = row.tiles[t];
      if (!tile.any) continue;
      const double factor = std::exp(tile.top - row.top);
      const bool settled = is_settled(tile);
      const double alpha = settled ? 0 : (1 + rescale_drift(how_, row, part, &tile)) * (1 + frame) - 1;
      drift = std::max(drift, alpha);
      for (std::int64_t j = tile.first; j < tile.last; ++j) {
        if (!query.sees(j)) continue;
        const Interval w = tile_weight(how_, row, tile, j);
        const double low = p.round(std::ldexp(w.low, how_.p_shift)),
                     high = p.round(std::ldexp(w.high, how_.p_shift));
        ValueTerm& term = terms[j];
        p_low[j] = low, p_high[j] = high;
        term.known = low == high;
        term.weight = std::ldexp(0.5 * (low + high), -how_.p_shift);
        term.own = rule(Rule::tile_cast, std::ldexp(0.5 * (high - low), -how_.p_shift));
        overflows |= std::ldexp(w.high, how_.p_shift) > p.max_finite;
        term.common =
            (term.weight + term.own) * alpha + (row.all_equal || settled || high == 0 ? 0 : row.largest_tiny);
        term.head = std::max(exponent_of(high), emin_of(how_.p)) - how_.p_shift;
        term.subnormal = exponent_of(low) < emin_of(how_.p);
        sum += term.weight * factor;
        sum_error += (term.common + term.own) * factor;
      }
    }
  }
  IntervalColumns computed(n);
  const bool is_computed = computed_values(row, p_low, p_high, computed);
  const ValueSums sums =
      is_computed ? ValueSums{} : ordered_value_sums(how_, kv_, *facts_, row, terms, drifts);
  const double parts_error = split_error(how_);
  const double denominator = how_.denominator_cast ? sum + row.sink_weight : row.sum;
  const double shared = how_.denominator_cast ? (sum_error + row.sink_weight * row.sink_theta) / denominator
                                              : row.weight_error / row.sum;
  const double lambda =
      (1 + shared) * (1 + denominator_error(how_, row, true) + parts_error) * (1 + 2 * frame) - 1;
  r.centre.resize(n);
  r.radius.assign(n, kInfinity);
  if (overflows) return;
  for (std::size_t c = 0; c < n; ++c) {
    if (is_computed) {
      const double unit = std::ldexp(1.0, -how_.p_shift) / denominator;
      r.centre[c] = 0.5 * (computed.low[c] + computed.high[c]) * unit;
      if (!(lambda < 1) || !std::isfinite(r.centre[c])) continue;
      r.radius[c] = (0.5 * (computed.high[c] - computed.low[c]) * unit + lambda * std::fabs(r.centre[c])) /
                    (1 - lambda);
      continue;
    }
    r.centre[c] = sums.sum[c] / denominator;
    if (!(lambda < 1)) continue;
    const double moved = (sums.common[c] + sums.own[c]) * (1 + 2 * drift);
    const double merge = parts_error * 1.01 * sums.parts[c];
    r.radius[c] = ((moved + merge) / denominator + lambda * std::fabs(r.centre[c])) / (1 - lambda);
  }
}

}  // namespace assay
