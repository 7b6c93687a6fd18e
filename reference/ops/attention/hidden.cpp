#include "reference/ops/attention/hidden.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "reference/arithmetic/rule.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/ops/attention/limits/infinities.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

constexpr double kAbsorbed = 0x1p100;  // by the lowest number of f32, whose last place is 2^104
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The problem with q = 0 and without mask, window, sinks and alibi.
Truth of_equal_logits(const Attributes& attributes, const TensorSet& inputs, const Contract& contract,
                      decltype(Op::truth) truth) {
  std::map<std::string, std::string> given = attributes.all();
  for (const char* name : {"mask", "window", "sinks", "alibi"}) given.erase(name);
  const Attributes plain = Attributes::complete(attention_attributes(), given);
  TensorSet set;
  for (const TensorSpec& spec : attention_tensors(plain))
    if (spec.role != TensorRole::output) set.emplace(spec.name, inputs.at(spec.name));
  for (Plane& plane : set.at("q").planes) std::ranges::fill(plane.bytes, std::byte{0});
  Contract sharp = contract.with("empty", "zero");
  if (is_judged_by_replay(contract)) sharp = sharp.with("level", "ca").with("schedule", "none");
  return truth(plain, set, sharp).front();
}

// Of rows that see no key nothing is claimed where what they meet all the same may show: a NaN sink, and
// where a mask is added (empty=mean) a logit that it may not absorb, NaN and infinities among them; beside a
// sink V too, and a sink of -Inf is as if it were not there. The lowest number of f32 absorbs what is below
// half of its last place, 2^103. Nor where the register of qk does not hold that logit.
void unclaim_met(const AttentionProblem& problem, const CertifiedAttention& exact, const Contract& contract,
                 std::vector<double>& limit) {
  const AttentionGeometry& g = problem.geometry();
  const bool is_masked = contract.text("empty") == "mean";
  const ProductSum products(problem, contract);
  const auto dv = static_cast<std::size_t>(g.dv);
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h) {
      std::vector<double> k, v;  // once a row asks
      for (std::int64_t i = 0; i < g.rows; ++i) {
        const auto at = static_cast<std::size_t>(problem.out_index(b, i, h));
        if (exact.rows[at / dv].keys != 0) continue;
        double* const row = limit.data() + at;
        const double sink = g.sinks ? problem.sink(h) : 0;
        if (std::isnan(sink) || (is_masked && !(std::fabs(sink) < kAbsorbed)))
          std::fill_n(row, dv, kInfinite);
        if (!is_masked) continue;
        if (problem.length(b) == 0 && !g.sinks) std::fill_n(row, dv, kInfinite);  // the mean of nothing
        if (k.empty()) {
          k.resize(static_cast<std::size_t>(problem.length(b) * g.d));
          v.resize(static_cast<std::size_t>(problem.length(b)) * dv);
          problem.decode_k(b, problem.kv_head(h), 0, problem.length(b), k.data());
          problem.decode_v(b, problem.kv_head(h), 0, problem.length(b), v.data());
        }
        double size_q = 0, largest_k = 0;
        for (const double each : problem.q(b, i, h)) size_q += std::fabs(each);
        for (const double each : k)
          largest_k = std::isnan(each) ? each : std::max(largest_k, std::fabs(each));
        const double most = static_cast<double>(g.d) * products.most(size_q, largest_k);
        const auto own = static_cast<double>(problem.position(b, i)),
                   keys = static_cast<double>(problem.length(b));
        const double distance = std::max(std::fabs(own), std::fabs(own - keys)) + 1;
        const double bias = g.alibi ? std::fabs(problem.slope(h)) * distance : 0;
        const bool is_absorbed = size_q * largest_k * std::max(1.0, g.scale) + bias < kAbsorbed;
        if (!claims(Rule::hidden_number, is_absorbed && products.fits(most))) std::fill_n(row, dv, kInfinite);
        for (std::size_t j = 0; g.sinks && j < v.size(); ++j)  // beside a sink its weight is 0
          if (!claims(Rule::hidden_number, std::isfinite(v[j]))) row[j % dv] = kInfinite;
      }
    }
}

}  // namespace

void answer_empty(const Attributes& attributes, const TensorSet& inputs, const AttentionProblem& problem,
                  const CertifiedAttention& exact, const Contract& contract, decltype(Op::truth) truth,
                  Truth& t) {
  const std::string_view word = contract.text("empty");
  if (std::ranges::none_of(exact.rows, [](const auto& row) { return row.keys == 0; })) return;
  unclaim_met(problem, exact, contract, t.limit);
  if (word == "zero") return;
  Truth mean;
  const bool sinks = attributes.text("sinks") == "yes", is_mean = word == "mean" && !sinks;
  if (word == "mean") mean = of_equal_logits(attributes, inputs, contract, truth);
  // Beside the lowest f32 the logarithm of a part's sum is lost, and that number overflows in a narrower
  // format of logits.
  const bool keeps_mask =
      (contract.integer("split") == 1 || contract.text("merge") != "any") && contract.text("scores") == "f32";
  const std::size_t dv = t.limit.size() / std::max<std::size_t>(exact.rows.size(), 1);
  for (std::size_t i = 0; i < t.limit.size(); ++i) {
    if (exact.rows[i / dv].keys != 0 || std::isinf(t.limit[i])) continue;
    if (word == "nan" && sinks) {
      t.limit[i] = kInfinite;  // 0 divided by the sink's weight, or NaN
    } else if (word == "nan") {
      t.value[i] = std::numeric_limits<double>::quiet_NaN(), t.limit[i] = 0;
    } else if (word == "any") {
      t.limit[i] = kInfinite;
    } else if (word == "mean" && sinks) {  // what overflows before the sink comes is Inf times 0
      if (!claims(Rule::hidden_sums, mean.limit[i] < kInfinite)) t.limit[i] = kInfinite;
    } else if (is_mean) {  // a NaN of a key that is hidden: selected, it is no NaN
      t.value[i] = std::isfinite(mean.value[i]) ? mean.value[i] : 0;
      t.limit[i] = std::isfinite(mean.value[i]) && keeps_mask ? mean.limit[i] : kInfinite;
    }
  }
}

namespace {

// Whether a running kernel that meets hidden keys first holds their sums, with weights of 1 relative to the
// mask, until it rescales them by exp(mask - m) = 0: Inf 0 is NaN. `size`: sum |v| of hidden keys, by
// columns. All are below the largest number of their register, and of f32, by a factor of 4, and by what n
// additions round up.
class MaskFirst {
 public:
  MaskFirst(const Contract& contract, const AttentionProblem& problem, double count)
      : shift_(std::exp2(contract.number("p_shift"))), count_(count), pv_(accumulator(contract.text("pv"))) {
    const Format& v = format(problem.v().format);
    codes_ = v.kind == FormatKind::scaled ? count * scalar_format(v.element).max_finite : 0;
    // A narrower format of logits makes the mask -Inf.
    is_sum_ = contract.text("scores") == "f32" && holds(accumulator(contract.text("rowsum")), count);
  }
  bool holds(double size) const { return is_sum_ && holds(pv_, std::max(size, codes_)); }

 private:
  bool holds(const Accumulator& how, double sum) const {
    constexpr double kLargest = std::numeric_limits<float>::max();
    const double errors = 4 * std::exp(count_ * 2 * unit_roundoff(how.precision));
    return errors * shift_ * sum < std::min(largest_finite(how.precision), kLargest);
  }
  double shift_, count_, codes_ = 0;
  Accumulator pv_;
  bool is_sum_ = false;
};

}  // namespace

void unclaim_hidden(const AttentionProblem& problem, const Contract& contract, std::vector<double>& limit) {
  constexpr double kLog2E = 1.4426950408889634;
  const AttentionGeometry& g = problem.geometry();
  const ProductSum products(problem, contract);
  // A finite mask is added to what is far below it.
  const bool is_mean = contract.text("empty") == "mean";
  const double most = is_mean ? kAbsorbed : std::numeric_limits<float>::max();
  const double range = std::min(most, scalar_format(contract.text("scores")).max_finite);
  const auto d = static_cast<std::size_t>(g.d), dv = static_cast<std::size_t>(g.dv);
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t head = 0; head < g.kv_heads; ++head) {
      const auto n = static_cast<std::size_t>(problem.length(b));
      std::vector<double> k(n * d), v(n * dv), largest(n, 0.0);
      problem.decode_k(b, head, 0, problem.length(b), k.data());
      problem.decode_v(b, head, 0, problem.length(b), v.data());
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t c = 0; c < d; ++c)
          largest[j] =
              std::isfinite(k[j * d + c]) ? std::max(largest[j], std::fabs(k[j * d + c])) : kInfinite;
      for (std::int64_t h = head * g.group(); h < (head + 1) * g.group(); ++h)
        for (std::int64_t i = 0; i < g.rows; ++i) {
          double q = 0;
          for (const double each : problem.q(b, i, h)) q += std::fabs(each);
          double* const row = limit.data() + problem.out_index(b, i, h);
          double count = 0;  // of hidden keys
          std::vector<double> size(dv, 0.0);
          for (std::size_t j = 0; j < n; ++j) {
            if (problem.visible(b, i, static_cast<std::int64_t>(j))) continue;
            ++count;
            for (std::size_t c = 0; c < dv; ++c) size[c] += std::fabs(v[j * dv + c]);
            // A half more: a product, a sum of products and a scale may each round. Times 1: the scale may
            // come first or last. In base 2 a logit is log2 e times as large, its bias with it.
            const double bias =
                g.alibi ? std::fabs(problem.slope(h) * static_cast<double>(problem.position(b, i) -
                                                                           static_cast<std::int64_t>(j)))
                        : 0;
            const bool bounded = (largest[j] * q * std::max(1.0, g.scale) + bias) * 1.5 * kLog2E < range &&
                                 products.fits(static_cast<double>(g.d) * products.most(q, largest[j]));
            for (std::size_t c = 0; c < dv; ++c)
              if (!claims(Rule::hidden_number, bounded && std::isfinite(v[j * dv + c]))) row[c] = kInfinite;
          }
          // Rows that see no key have limits of their own (unclaim_met).
          if (!is_mean || count == 0 || count == static_cast<double>(n)) continue;
          const MaskFirst first(contract, problem, count);
          for (std::size_t c = 0; c < dv; ++c)
            if (!claims(Rule::hidden_sums, first.holds(size[c]))) row[c] = kInfinite;
        }
    }
}

}  // namespace assay
