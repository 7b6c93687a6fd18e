#include "reference/ops/attention/limits/bounds_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rule.hpp"

namespace assay::attention_bounds {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A factor of a rescale on a magnitude or an error. What may have overflowed stays so, though the factor be
// 0: Inf times 0 is NaN in the kernel too.
double rescaled(double x, double r) { return std::isinf(x) ? x : x * r; }

// What a factor exp(r) of a rescale may be off by below the normal numbers of f32, where it is flushed, or
// off by steps.
double factor_loss(const AttentionArithmetic& how, double r) {
  return r < 0x1p-125 ? std::min(r, kTiny) + (how.exp_ulp + 1) * 0x1p-149 : 0;
}

struct Columns {
  std::vector<double> sum, common, own;
  explicit Columns(std::size_t n) : sum(n), common(n), own(n) {}
  void clear() {
    for (auto* x : {&sum, &common, &own}) std::fill(x->begin(), x->end(), 0.0);
  }
};

// One step of the accumulator over the keys [first, last) for every column.
class Stepper {
 public:
  Stepper(const StepModel& model, const KeyValues& kv, const ValueFacts& facts,
          const std::vector<ValueTerm>& terms)
      : model_(model), kv_(kv), facts_(facts), terms_(terms), step_(static_cast<std::size_t>(kv.dv)) {
    for (auto* x : {&products_, &next_, &common_, &own_, &flushed_}) x->resize(step_.size());
    head_.resize(step_.size());
  }

  // drift: the kernel's accumulator is in units that differ from ours by at most this factor.
  void run(std::int64_t first, std::int64_t last, double drift, Columns& to) {
    const auto n = step_.size();
    begin(to);
    bool any = false;
    for (std::int64_t j = first; j < last; ++j) any |= add(j);
    if (!any) return;
    for (std::size_t c = 0; c < n; ++c) {
      StepModel::Step& s = step_[c];
      s = {};
      const double deviation = to.common[c] + to.own[c];
      s.head = head_[c] < -1000 ? 0 : std::ldexp(1.0, head_[c]);
      s.before = (std::fabs(to.sum[c]) + deviation) * drift;
      s.after = (std::fabs(next_[c]) + deviation + common_[c] + own_[c]) * drift;
      s.products = products_[c] * drift;
      s.flushed = flushed_[c] * drift;
      const bool exact = deviation == 0;
      head_[c] = model_.quantum_exponent(s);
      s.c_inexact = !exact || lattice_of(to.sum[c]) < head_[c];
      s.after_fits =
          exact && common_[c] + own_[c] == 0 && representable(next_[c], model_.precision, model_.emin);
    }
    count_inexact(first, last);
    for (std::size_t c = 0; c < n; ++c) {
      to.common[c] += common_[c];
      to.own[c] +=
          own_[c] + (products_[c] == 0 && to.common[c] + to.own[c] == 0 ? 0 : model_.error(step_[c]));
      to.sum[c] = next_[c];
    }
  }

  // A partial sum in any order that goes through at most `height` additions; from `to` where it is chained.
  void run_any(std::int64_t first, std::int64_t last, double drift, double height, Columns& to) {
    const auto n = step_.size();
    begin(to);
    lattice_.assign(n, kNever);
    std::int64_t count = 0;
    bool known = true;
    for (std::int64_t j = first; j < last; ++j) {
      if (!add(j)) continue;
      const ValueTerm& t = terms_[j];
      ++count;
      known = known && t.known && t.common == 0;
      if (known) {
        const std::int16_t* lattice = facts_.lattice.data() + j * kv_.dv;
        const int own = lattice_of(t.weight);
        for (std::size_t c = 0; c < n; ++c) lattice_[c] = std::min(lattice_[c], lattice[c] + own);
      }
    }
    if (count == 0) return;
    const std::int64_t steps = model_.steps(last - first);
    for (std::size_t c = 0; c < n; ++c) {
      const double before = std::fabs(to.sum[c]) + to.common[c] + to.own[c];
      const double all = (before + products_[c]) * drift,
                   head = head_[c] < -1000 ? 0 : std::ldexp(1.0, head_[c]);
      const bool exact = known && to.common[c] + to.own[c] == 0 && flushed_[c] == 0 &&
                         model_.never_rounds(all, head, std::min(lattice_[c], lattice_of(to.sum[c])));
      const double error = products_[c] == 0 || exact
                               ? 0
                               : model_.worst({all, all, head, flushed_[c] * drift, steps, count, height});
      to.common[c] += common_[c];
      to.own[c] += own_[c] + error;
      to.sum[c] = next_[c];
    }
  }

 private:
  // The next partial sums start from `to`, and nothing has been added.
  void begin(const Columns& to) {
    std::fill(head_.begin(), head_.end(), -kNever);
    for (auto* x : {&products_, &common_, &own_, &flushed_}) std::fill(x->begin(), x->end(), 0.0);
    next_ = to.sum;
  }

  // Term j of every column; false where it is nothing.
  bool add(std::int64_t j) {
    const auto n = step_.size();
    const ValueTerm& t = terms_[j];
    const double reach = t.weight + t.common + t.own;
    if (reach == 0) return false;
    const float* v = kv_.v.data() + j * kv_.dv;
    const std::int16_t* head = facts_.head.data() + j * kv_.dv;
    for (std::size_t c = 0; c < n; ++c) {
      const double magnitude = std::fabs(static_cast<double>(v[c]));
      next_[c] += t.weight * static_cast<double>(v[c]);
      products_[c] += reach * magnitude;
      common_[c] += t.common * magnitude;
      own_[c] += t.own * magnitude;
      head_[c] = std::max(head_[c], head[c] + t.head);
    }
    if (model_.kind != StepModel::Kind::pairwise) return true;
    for (std::size_t c = 0; c < n; ++c)
      if (t.subnormal || head[c] <= facts_.emin) flushed_[c] += reach * std::fabs(static_cast<double>(v[c]));
    return true;
  }

  void count_inexact(std::int64_t first, std::int64_t last) {
    const auto n = step_.size();
    for (std::int64_t j = first; j < last; ++j) {
      const ValueTerm& t = terms_[j];
      if (t.weight + t.common + t.own == 0) continue;
      const std::int16_t* lattice = facts_.lattice.data() + j * kv_.dv;
      if (!t.known) {
        for (std::size_t c = 0; c < n; ++c) step_[c].inexact += lattice[c] < kNever;
      } else if (model_.kind == StepModel::Kind::scalar) {
        const float* v = kv_.v.data() + j * kv_.dv;
        for (std::size_t c = 0; c < n; ++c) {
          step_[c].inexact +=
              !representable(t.weight * static_cast<double>(v[c]), model_.precision, model_.emin);
        }
      } else {
        const int own = lattice_of(t.weight);
        for (std::size_t c = 0; c < n; ++c) step_[c].inexact += lattice[c] + own < head_[c];
      }
    }
  }

  const StepModel& model_;
  const KeyValues& kv_;
  const ValueFacts& facts_;
  const std::vector<ValueTerm>& terms_;
  std::vector<StepModel::Step> step_;
  std::vector<double> products_, next_, common_, own_, flushed_;
  std::vector<int> head_, lattice_;
};

}  // namespace

ValueFacts::ValueFacts(const KeyValues& kv) : emin(emin_of(kv.v_format)) {
  head.resize(kv.v.size());
  lattice.resize(kv.v.size());
  for (std::size_t i = 0; i < kv.v.size(); ++i) {
    const double v = kv.v[i];
    head[i] = static_cast<std::int16_t>(v == 0 ? -kNever : std::max(exponent_of(v), emin));
    lattice[i] = static_cast<std::int16_t>(lattice_of(v));
    largest = std::max(largest, std::fabs(v));
  }
}

ValueSums ordered_value_sums(const AttentionArithmetic& how, const KeyValues& kv, const ValueFacts& facts,
                             const RowLogits& row, const std::vector<ValueTerm>& terms,
                             const std::vector<double>& drifts) {
  const auto n = static_cast<std::size_t>(kv.dv);
  StepModel model = StepModel(accumulator(how.pv)).of_blocks(how.pv_block);
  model.unscale(how.p_shift);
  StepModel in_f32{accumulator("f32")};
  in_f32.unscale(how.p_shift);
  const double rescale = how.chained() ? model.rescale : kU;
  ValueSums total{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n),
                  std::vector<double>(n)};
  Columns o(n), partial(n);
  Stepper stepper(model, kv, facts, terms);
  for (std::size_t index_of_part = 0; index_of_part < row.parts.size(); ++index_of_part) {
    const Part& part = row.parts[index_of_part];
    const double drift = drifts[index_of_part];
    o.clear();
    double before = 0;
    bool any = false;
    for (std::int64_t index = part.first_tile; index < part.last_tile; ++index) {
      const Tile& tile = row.tiles[index];
      if (!tile.any) continue;
      if (any && !row.all_equal) {
        const double r = std::exp(before - tile.top), loss = factor_loss(how, r);
        for (std::size_t c = 0; c < n; ++c) {
          const double reach = std::fabs(o.sum[c]) + o.common[c] + o.own[c];
          o.sum[c] *= r, o.common[c] = rescaled(o.common[c], r), o.own[c] = rescaled(o.own[c], r);
          if (loss > 0) o.own[c] += loss * reach * drift;
          if (tile.may_change) {
            o.own[c] += rescale * (std::fabs(o.sum[c]) + o.common[c] + o.own[c]) * (1 + 4 * rescale) * drift +
                        model.eta + kTiny;
          }
        }
      }
      any = true;
      before = tile.top;
      const std::int64_t chain = how.chained() ? how.tile : std::min(how.promote, how.tile);
      for (std::int64_t first = tile.first; first < tile.last; first += chain) {
        const std::int64_t last = std::min(tile.last, first + chain);
        if (!how.chained()) partial.clear();
        Columns& to = how.chained() ? o : partial;
        if (model.known(how.pv_order) == Order::sequential) {
          for (std::int64_t b = first; b < last; b += model.group)
            stepper.run(b, std::min(last, b + model.group), drift, to);
        } else {
          const double height =
              model.known(how.pv_order).height(static_cast<double>(last - first)) + (how.chained() ? 1 : 0);
          stepper.run_any(first, last, drift, height, to);
        }
        if (how.chained()) continue;
        for (std::size_t c = 0; c < n; ++c) {
          o.sum[c] += partial.sum[c], o.common[c] += partial.common[c], o.own[c] += partial.own[c];
          const double deviation = o.common[c] + o.own[c], reach = (std::fabs(o.sum[c]) + deviation) * drift;
          if (!claims(Rule::value_overflow, reach < in_f32.overflow)) o.own[c] = kInfinity;
          if (deviation == 0 && representable(o.sum[c], 24)) continue;
          o.own[c] += in_f32.rho * reach * (1 + kU);
        }
      }
    }
    if (!any) continue;
    const double r = std::exp(before - row.top), loss = factor_loss(how, r);
    if (part.sink) {
      for (std::size_t c = 0; c < n; ++c)
        o.own[c] += rescale * 1.01 * drift * (std::fabs(o.sum[c]) + o.common[c] + o.own[c]);
    }
    const double underflow = part.sink ? model.eta + kTiny : 0;  // of the sum that has been rescaled
    for (std::size_t c = 0; c < n; ++c) {
      if (loss > 0) total.own[c] += loss * (std::fabs(o.sum[c]) + o.common[c] + o.own[c]) * drift;
      total.sum[c] += o.sum[c] * r;
      total.common[c] += rescaled(o.common[c], r), total.own[c] += rescaled(o.own[c], r) + underflow;
      total.parts[c] += rescaled(std::fabs(o.sum[c]) + o.common[c] + o.own[c], r * drift) + underflow;
      // The parts are added in f32, each divided by its sum before that or not.
      if (row.parts.size() > 1 && !claims(Rule::value_overflow, total.parts[c] < in_f32.overflow))
        total.own[c] = kInfinity;
    }
  }
  return total;
}

}  // namespace assay::attention_bounds
