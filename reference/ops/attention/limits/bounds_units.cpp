// Step 10 of bounds.hpp: what a verified unit does with known operands is computed, not bounded.
#include <algorithm>
#include <cmath>

#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/bounds_detail.hpp"
#include "reference/ops/attention/limits/bounds_interval.hpp"

namespace assay {
namespace {
using namespace attention_bounds;

bool is_computed(const Accumulator& how, Order order, std::int64_t block) {
  return how.kind == Accumulator::Kind::unit && how.unit->standing == Standing::silicon &&
         StepModel(how).of_blocks(block).known(order) == Order::sequential;
}

// The factor of one rescale of an accumulator: exp(from - to) and how far the kernel's may be from it.
Interval rescale_factor(const AttentionArithmetic& how, const Part& part, double from, double from_error,
                        double to, double to_error) {
  const double moved = from_error + to_error;
  const double eps = exp_error(how) * (1 + 2 * exp_error(how));
  const double off = std::expm1((moved + kU * (std::fabs(from - to) + moved) +
                                 fused_error(how, std::fabs(from) + std::fabs(to), part) + eps) *
                                (1 + 0x1p-30));
  const double a = std::exp(from - to);
  return {std::max(0.0, a * (1 - off) - kTiny), a * (1 + off) + kTiny};
}

}  // namespace

std::vector<float> AttentionBounds::computed_scores(const QueryRow& query) const {
  if (!is_computed(accumulator(how_.qk), how_.qk_order, how_.qk_block)) return {};
  std::call_once(emulator_once_, [&] { emulator_ = std::make_unique<AttentionEmulator>(how_, kv_); });
  std::vector<float> s(static_cast<std::size_t>(kv_.keys));
  emulator_->scores(query, s);
  for (const float x : s)
    if (!std::isfinite(x)) return {};
  return s;
}

bool AttentionBounds::computed_values(const RowLogits& row, const std::vector<double>& p_low,
                                      const std::vector<double>& p_high, IntervalColumns& o) const {
  const Accumulator pv = accumulator(how_.pv);
  if (!is_computed(pv, how_.pv_order, how_.pv_block) || how_.split != 1) return false;
  IntervalSum sum(pv, kv_, *facts_, emin_of(how_.p));
  const Part& part = row.parts.front();
  const std::int64_t chain = how_.chained() ? how_.tile : std::min(how_.promote, how_.tile);
  const auto f32 = [](double x) { return static_cast<double>(static_cast<float>(x)); };
  double before = 0, before_error = 0;
  bool any = false;
  for (std::int64_t t = part.first_tile; t < part.last_tile; ++t) {
    const Tile& tile = row.tiles[t];
    if (!tile.any) continue;
    if (any && tile.may_change)
      rescale_interval(o, rescale_factor(how_, part, before, before_error, tile.top, tile.error), pv,
                       how_.chained());
    any = true;
    before = tile.top, before_error = tile.error;
    for (std::int64_t first = tile.first; first < tile.last; first += chain) {
      const std::int64_t last = std::min(tile.last, first + chain);
      if (how_.chained()) {
        sum.add(p_low, p_high, first, last, o);
        continue;
      }
      IntervalColumns partial(o.low.size());
      sum.add(p_low, p_high, first, last, partial);
      for (std::size_t c = 0; c < o.low.size(); ++c) {
        o.low[c] = f32(o.low[c] + partial.low[c]);
        o.high[c] = f32(o.high[c] + partial.high[c]);
      }
    }
  }
  if (part.sink) {
    // The last rescale: no block follows that would take the sum from the unit's register, so that it may
    // stay an f32.
    const Interval factor = rescale_factor(how_, part, before, before_error, part.top, part.error);
    IntervalColumns in_f32 = o;
    rescale_interval(o, factor, pv, how_.chained());
    rescale_interval(in_f32, factor, pv, false);
    for (std::size_t c = 0; c < o.low.size(); ++c)
      o.low[c] = std::min(o.low[c], in_f32.low[c]), o.high[c] = std::max(o.high[c], in_f32.high[c]);
  }
  return true;
}

}  // namespace assay
