// logsumexp: y[r] = log sum_i exp(x[r,i]) = m + log sum_i exp(x[r,i] - m),  m = max x[r,:], natural log, or
// log2 of the same sum where the contract says base=2: what kernels store that compute in powers of 2
// throughout (FlashInfer's lse). x[rows,cols] dtype -> y[rows] f32.
//
// Domain. Every real x; -Inf contributes nothing; a row of -Inf gives -Inf, a row with +Inf +Inf, with NaN
// NaN.
//
// Limit. exp_sum.hpp: the kernel's sum is S e^(m - M) (1 + h), |h| <= H, for a subtracted M within e_max of
// m, which then is added back. So
//   log S' + M = log S + m + log(1 + h),
// and with G = gamma_{2 log_ulp}
//   |y' - y| <= -log(1 - H) + G (|log S| + e_max - log(1 - H)) + A,
// then one rounded addition, then the store. No log underflows: of a number of the format it is 0 or at least
// u. A = log_abs where S' may lie in [1/2, 2], else 0: functions whose error is absolute near 1, where log is
// small (CUDA C++ Programming Guide, mathematical functions, intrinsics: __logf 2^-21.41 in [0.5, 2], 3 ulp
// elsewhere; __log2f 2^-22, 2 ulp). Under exp=base2 the number that is subtracted in effect is M' = fl(M log2
// e) / log2 e, and M is what is added back: u |M| + tiny more. base=2: all of it times log2 e, which a kernel
// rounds (c') and multiplies by: fl(M c') + log2 S', or (M + log S') c'; one rounding of |M| and of the
// logarithm more and the error of c' cover both, and log_abs, which is of the log that is taken, counts log2
// e times.
#include <algorithm>
#include <array>
#include <cmath>

#include "reference/error.hpp"
#include "reference/ops/exp_sum.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/replayed_rows.hpp"
#include "reference/ops/signature.hpp"
#include "reference/parallel.hpp"
#include "reference/real/double_double_functions.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
extern const Op kLogsumexp;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "independent rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "terms of a row"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x"},
};

constexpr auto kContract = with_store_keys(with_replay_keys(std::array{
    kExpSumKeys[0],
    kExpSumKeys[1],
    kExpSumKeys[2],
    kExpSumKeys[3],
    kExpSumKeys[4],
    KeySpec{"log_ulp", KeyKind::real, "2", kUlps, "error of log, in units in the last place of acc"},
    KeySpec{"log_abs", KeyKind::real, "0", "0..0.0625",
            "absolute error of log between 1/2 and 2, besides log_ulp (__logf: 3.6e-7)"},
    KeySpec{"base", KeyKind::word, "e", "e|2", "of the logarithm that is stored", {}, "2: level!=replay"},
}));

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kLogsumexp.tensors(a), set);
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  const std::vector<double> x = in.values("x");
  const Machine acc = machine(contract.text("acc"), contract.text("ftz") == "yes");
  const Store store = store_of(contract, "f32");
  const double log_error = rule(Rule::log_ulp, gamma_n(2 * contract.number("log_ulp"), acc.unit));
  const bool binary = contract.text("base") == "2";
  constexpr double kLog2E = 1.4426950408889634;
  const double scale = binary ? kLog2E : 1;
  const std::string_view name = contract.text("acc");
  const double rounded_constant =
      name == "f64" ? kLog2E : round_number(scalar_format(name), kLog2E, {.overflow = Overflow::ieee});
  const double constant = std::fabs(rounded_constant - kLog2E) / kLog2E + 2 * kUnit64;  // error of c'
  Truth t = make_truth("y", static_cast<std::size_t>(rows),
                       "reference/ops/logsumexp: exp, the sum, log and an addition");
  const auto of_row = [&](std::int64_t r) {
    std::vector<Enclosure> logits(static_cast<std::size_t>(cols));
    double largest = -kInfinity;
    bool nan = false;
    for (std::int64_t i = 0; i < cols; ++i) {
      logits[i] = read(x[r * cols + i], acc);
      nan |= std::isnan(logits[i].value);
      largest = std::max(largest, logits[i].value);
    }
    if (nan || std::isinf(largest)) {
      set_special(t, r, nan ? std::nan("") : largest, store);
      return;
    }
    const ExpSum e = exp_sum(logits, contract, acc, static_cast<double>(cols));
    const Certified log_sum = certified_log(e.sum);
    if (!(e.sum_error < 1)) {
      t.value[r] = (largest + log_sum.value) * scale;
      // Any finite number where no kernel leaves the range: its logarithm is at most that of n (1 + E)(1 + n
      // u).
      double range = std::min(acc.max_finite, store.output->max_finite);
      if (store.through != nullptr) range = std::min(range, store.through->max_finite);
      if (e.bounded && 4 * std::fabs(largest) + 8 * static_cast<double>(cols) < range)
        t.limit[r] = kAnyNumber;
      return;
    }
    // e.sum itself is off by a few n u64, which sum_error includes.
    const double shift = -std::log1p(-up(e.sum_error));
    const double moved =
        contract.text("exp") == "base2"
            ? rule(Rule::exp_base2_shift, acc.unit * (std::fabs(e.max) + e.max_error) + acc.tiny)
            : 0;
    const double near_one = e.sum * (1 - e.sum_error) <= 2 * std::exp(e.max_error) * e.swell
                                ? rule(Rule::log_abs, contract.number("log_abs"))
                                : 0;
    const double log_size = std::fabs(log_sum.value) + e.max_error + shift;
    const double error = up(shift + moved + log_error * log_size + near_one) + log_sum.error;
    if (!binary) {
      set_truth(t, r,
                rounded_sum(sum(read(e.max, acc), {log_sum.value, error}), acc, has_finer_bits(e.max, acc)),
                store);
      return;
    }
    const double roundings =
        rule(Rule::log_base,
             (constant + acc.unit * (1 + constant)) * (std::fabs(e.max) + log_size + error) + 2 * acc.tiny);
    const Enclosure natural = sum(read(e.max, acc), {log_sum.value, up(error + roundings)});
    set_truth(t, r, rounded_sum(product(natural, {kLog2E, 0x1p-53}), acc), store);
  };
  parallel_rows(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), of_row);
  if (is_judged_by_replay(contract)) replay_rows(t, "logsumexp", a, set, contract);
  return alone(std::move(t));
}

}  // namespace

const Op kLogsumexp = {
    .name = "logsumexp",
    .formula = "y[r] = log sum_i exp(x[r,i])",
    .signature =
        "x[rows,cols] dtype\n"
        "-> y[rows] f32",
    .example = "rows=4 cols=33",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kLogsumexp>,
    .indices = nullptr,
    .truth = truth,
    .unused = nullptr,
    .stages = [](const Attributes& a, const TensorSet& set,
                 const Contract& contract) { return row_stages("logsumexp", a, set, contract); },
    .special =
        "a row with a NaN: NaN\n"
        "a row with +Inf: +Inf, of nothing but -Inf: -Inf, where m + log sum exp(x - m) is NaN: the kernel "
        "treats them apart",
};

}  // namespace assay
