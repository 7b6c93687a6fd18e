// logsumexp: y[r] = log sum_i exp(x[r,i]) = m + log sum_i exp(x[r,i] - m),  m = max x[r,:], natural log
// x[rows,cols] dtype -> y[rows] f32.
//
// Domain. Every real x; -Inf contributes nothing; a row of -Inf gives -Inf, a row with +Inf +Inf, with NaN NaN.
//
// Limit. exp_sum.hpp: the kernel's sum is S e^(m - M) (1 + h), |h| <= H, for a subtracted M within e_max of m, which
// then is added back. So
//   log S' + M = log S + m + log(1 + h),
// and with G = 2 log_ulp u
//   |y' - y| <= -log(1 - H) + G (|log S| + e_max - log(1 - H)) + tiny,
// then one rounded addition, then the store. Under exp=base2 the number that is subtracted in effect is M' = fl(M log2 e) /
// log2 e, and M is what is added back: u |M| more.
#include <algorithm>
#include <array>
#include <cmath>

#include "reference/ops/exp_sum.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/replayed_rows.hpp"
#include "reference/real/double_double_functions.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

constexpr std::array kAttributes = {
    AttributeSpec{"rows", AttributeKind::integer, "", "1..1048576", "independent rows"},
    AttributeSpec{"cols", AttributeKind::integer, "", "1..16777216", "terms of a row"},
    AttributeSpec{"dtype", AttributeKind::format, "f32", "f32|f16|bf16", "of x"},
};

constexpr auto kContract = with_store_keys(with_replay_keys(std::array{
    kExpSumKeys[0],
    kExpSumKeys[1],
    kExpSumKeys[2],
    kExpSumKeys[3],
    kExpSumKeys[4],
    ContractKey{"log_ulp", ContractValue::number, "2", "", "error of log, in units in the last place of acc"},
}));

std::vector<TensorSpec> tensors(const Attributes& a) {
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  return {{"x", TensorRole::data, a.text("dtype"), {rows, cols}}, {"y", TensorRole::output, "f32", {rows}}};
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(tensors(a), set);
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  const std::vector<double> x = in.values("x");
  const Machine acc = machine(contract.text("acc"), contract.text("ftz") == "yes");
  const Store store = store_of(contract, "f32");
  const double log_error = 2 * contract.number("log_ulp") * acc.unit;
  Truth t = make_truth("y", static_cast<std::size_t>(rows),
                       "reference/ops/logsumexp: exp, the sum, log and an addition");
  std::vector<Enclosure> logits(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    double largest = -kInfinity;
    bool nan = false;
    for (std::int64_t i = 0; i < cols; ++i) {
      logits[i] = read(x[r * cols + i], acc);
      nan |= std::isnan(logits[i].value);
      largest = std::max(largest, logits[i].value);
    }
    if (nan || std::isinf(largest)) {
      set_special(t, r, nan ? std::nan("") : largest, store);
      continue;
    }
    const ExpSum e = exp_sum(logits, contract, acc);
    const Certified log_sum = certified_log(e.sum);
    if (!(e.sum_error < 1)) {
      t.value[r] = largest + log_sum.value;
      // Any finite number where no kernel leaves the range: its logarithm is at most that of n (1 + E)(1 + n u).
      double range = std::min(acc.max_finite, store.output->max_finite);
      if (store.through != nullptr) range = std::min(range, store.through->max_finite);
      if (e.bounded && 2 * std::fabs(largest) + 4 * static_cast<double>(cols) < range)
        t.limit[r] = kAnyNumber;
      continue;
    }
    // e.sum itself is off by a few n u64, which sum_error includes.
    const double shift = -std::log1p(-up(e.sum_error));
    const double moved = contract.text("exp") == "base2" ? acc.unit * (std::fabs(e.max) + e.max_error) : 0;
    const double error =
        up(shift + moved + log_error * (std::fabs(log_sum.value) + e.max_error + shift) + acc.tiny) +
        log_sum.error;
    set_truth(t, r, rounded_sum(sum({e.max, 0}, {log_sum.value, error}), acc), store);
  }
  if (is_judged_by_replay(contract)) replay_rows(t, "logsumexp", a, set, contract);
  return {std::move(t)};
}

}  // namespace

extern const Op kLogsumexp;
const Op kLogsumexp = {
    .name = "logsumexp",
    .formula = "y[r] = log sum_i exp(x[r,i])",
    .signature =
        "x[rows,cols] dtype\n"
        "-> y[rows] f32",
    .example = "rows=4 cols=33",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors,
    .indices = nullptr,
    .truth = truth,
    .unused = nullptr,
    .stages = [](const Attributes& a, const TensorSet& set,
                 const Contract& contract) { return row_stages("logsumexp", a, set, contract); },
};

}  // namespace assay
