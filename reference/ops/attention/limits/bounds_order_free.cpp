// Level DETap of bounds.hpp: no order of keys or products is assumed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/bounds_detail.hpp"
#include "reference/ops/attention/limits/bounds_values.hpp"

namespace assay {
namespace {
using namespace attention_bounds;

double cast_error(const FormatModel& p, int shift, double weight, double theta) {
  return std::max(p.u / (1 + p.u) * weight * (1 + theta), std::ldexp(p.half_spacing_min, -shift));
}

}  // namespace

void AttentionBounds::order_free(const QueryRow& query, const RowLogits& row, RowBounds& r) const {
  const auto n = static_cast<std::size_t>(kv_.dv);
  StepModel model = StepModel(accumulator(how_.pv)).of_blocks(how_.pv_block);
  model.unscale(how_.p_shift);
  const FormatModel p(how_.p);
  const bool cast_exact = p.exact || row.all_equal;
  std::vector<double> common(n), own(n), positive(n), negative(n), flushed(n);
  double weight_error = row.weight_error, drift = 0;
  std::int64_t terms = 0, steps = 0, changes = 0, chains = 0;
  for (std::int64_t j = 0; j < kv_.keys; ++j) {
    if (row.w[j] == 0 && !query.sees(j)) continue;
    ++terms;
    drift = std::max(drift, row.theta[j]);
    const double cast = cast_exact ? 0 : cast_error(p, how_.p_shift, row.w[j], row.theta[j]);
    const double moved = row.w[j] * row.theta[j] + (row.all_equal ? 0 : row.largest_tiny);
    const double shared = moved + (how_.denominator_cast ? cast : 0);
    const double alone = how_.denominator_cast ? 0 : cast;
    if (how_.denominator_cast) weight_error += cast;
    const double reach = row.w[j] + moved + cast;
    const float* v = kv_.v.data() + j * kv_.dv;
    for (std::size_t c = 0; c < n; ++c) {
      const double x = v[c];
      common[c] += shared * std::fabs(x - r.value[c]);
      own[c] += alone * std::fabs(x);
      positive[c] += reach * std::max(x, 0.0);
      negative[c] += reach * std::max(-x, 0.0);
    }
  }
  const std::int64_t chain = how_.chained() ? how_.tile : std::min(how_.promote, how_.tile);
  for (const Part& part : row.parts) {
    for (std::int64_t t = part.first_tile; t < part.last_tile; ++t) {
      const std::int64_t keys = row.tiles[t].last - row.tiles[t].first;
      chains += (keys + chain - 1) / chain;
      steps += model.steps(keys);
    }
    changes = std::max(changes, part.last_tile - part.first_tile);
    drift = std::max(drift, rescale_drift(how_, row, part, nullptr));
  }
  if (row.all_equal) changes = 0;
  const double theta = weight_error / row.sum;
  const double lambda =
      denominator_error(how_, row, false) + static_cast<double>(how_.split > 1 ? how_.split + 2 : 0) * kU;
  const double rescales = static_cast<double>(changes) * (how_.chained() ? model.rescale : kU);
  const double merge = how_.split > 1 ? static_cast<double>(how_.split + 4) * kU : 0;
  // Non-normalised exponents exceed the product only where an operand is subnormal.
  const double v_emin = std::ldexp(1.0, facts_->emin);
  const double subnormal_head = std::max(std::ldexp(facts_->largest, emin_of(how_.p) - how_.p_shift), v_emin);
  r.centre = r.value;
  r.radius.assign(n, std::numeric_limits<double>::infinity());
  if (!(theta < 1) || !(lambda < 1)) return;
  for (std::size_t c = 0; c < n; ++c) {
    if (row.sink_weight > 0) common[c] += row.sink_weight * row.sink_theta * std::fabs(r.value[c]);
    const double products = positive[c] + negative[c], partial = std::max(positive[c], negative[c]);
    StepModel::Whole whole{
        partial, products, subnormal_head, 0, steps, terms + chains, static_cast<double>(terms + chains)};
    if (model.kind == StepModel::Kind::pairwise) {
      whole.flushed =
          static_cast<double>(terms) * (v_emin + std::ldexp(facts_->largest, emin_of(how_.p) - how_.p_shift));
    }
    double pv = 0;
    if (!(row.all_equal && exact_sum(model, c))) {
      if (how_.chained()) {
        pv = model.worst(whole);
      } else {
        whole.partial = products + static_cast<double>(chains) * subnormal_head;
        whole.head = 0;
        whole.steps = model.steps(chain);
        pv = model.worst(whole) + static_cast<double>(chains) * model.eta;
        pv += static_cast<double>(chains) * kU * (partial + pv) * (1 + 0x1p-8);
      }
      pv = pv * std::exp(rescales) + std::expm1(rescales) * (partial + pv) + merge * 1.01 * (products + pv) +
           static_cast<double>(steps + changes) * (kTiny + (changes > 0 && how_.chained() ? model.eta : 0));
    }
    const double ratio = common[c] / (row.sum * (1 - theta));
    const double alone = (own[c] + pv) * (1 + 2 * drift) / (row.sum * (1 - theta));
    r.radius[c] = ratio + (alone + lambda * (std::fabs(r.value[c]) + ratio)) / (1 - lambda);
  }
}

bool AttentionBounds::exact_sum(const StepModel& model, std::size_t c) const {
  double products = 0;
  int lattice = kNever;
  for (std::int64_t j = 0; j < kv_.keys; ++j) {
    products += std::fabs(static_cast<double>(kv_.v[j * kv_.dv + c]));
    lattice = std::min<int>(lattice, facts_->lattice[j * kv_.dv + c]);
  }
  const double head = std::max(facts_->largest, std::ldexp(1.0, facts_->emin));
  if (model.kind == StepModel::Kind::pairwise && !kv_.v.empty()) {  // subnormal operands are flushed
    for (std::int64_t j = 0; j < kv_.keys; ++j) {
      if (facts_->head[j * kv_.dv + c] == facts_->emin) return false;
    }
  }
  return products == 0 || model.never_rounds(products, head, lattice);
}

}  // namespace assay
