// softmax: y[r,i] = w_i / S
//   s   = cap(x / temperature)
//   cap = softcap tanh(s / softcap) when softcap > 0, else s
//   m   = max over the row and its sink
//   w_i = exp(s_i - m)
//   S   = sum_j w_j  (+ exp(sink_r - m))
// x[rows,cols] dtype, mask[rows,cols] int8 (1 = visible), sinks[rows] f32 -> y[rows,cols] dtype.
//
// Domain. Every real x. A masked element has y = 0 and its x is never read; a row without a visible element
// is all 0. A visible NaN, a visible +Inf after the cap (Inf - Inf), a NaN sink or a row whose visible logits
// and sink are all -Inf makes every visible element of its row NaN, the last of these 0 under empty=zero;
// nothing is claimed of the masked ones there: 0 / NaN where a mask is added to the logits, 0 where a kernel
// passes over them. So does a sink of +Inf, or not: a kernel whose maximum is that of the keys gives w / Inf
// = 0. Its row is unclaimed, and so is a row with a logit that may overflow. mask=causal is bottom-right
// aligned: row i of `rows` sees j <= cols - rows + i.
//
// Limit: a rigorous form of Blanchard, Higham, Higham 2021 (Accurately computing the log-sum-exp and softmax
// functions, IMA J. Numer. Anal. 41), underflow included. exp_sum.hpp derives
//   theta_i  the relative error of a kernel's weight, theta'_i of one that an online kernel keeps and
//            multiplies
//   f_i      the weight that may vanish, 0 where none may
//   H        the relative error of its sum
// With D = gamma_{2 div_ulp} for the quotient (or the reciprocal and product that stand for it),
//   |y' - y| <= y ((1 + theta_i)(1 + D) / (1 - H) - 1) + f_i (1 + D) / (S (1 - H)) + q,
// q (enclosure.hpp: division_underflow) the steps of a subnormal quotient, div_ulp of them and at least a
// half, and of a subnormal 1 / S, times the weight; 0 where neither may be. y' is then stored (op_io.hpp:
// set_truth). Where H >= 1 and yet nothing leaves the range (a 16-bit acc over a long row), any finite number
// may stand there.
//
// A kernel that keeps its weights in a narrower format between its passes (weights=bf16) rounds each once
// more after it has been summed. Where M = m is certain (logits that are not rounded, no base2, no sink, no
// rescales), the weight is decided() in that format and y' stands around decided / S (set_truth_within), so
// that a kernel which keeps f32 is wrong; else 1 + theta_i gains the factor 1 + u of the format, and f_i its
// smallest subnormal. An online kernel keeps exp(s_i - M), M the largest of its time, and multiplies by exp(M
// - m) at the end: what is rounded is not exp(s_i - m), and nothing is decided.
//
// A kernel may take its maximum over the keys alone: a common M changes no y. Where its exp(sink - M) may
// overflow, its y is 0, and the limit admits that.
// The error e_j of a logit, which theta and H start from:
//   x / temperature  enclosure.hpp: divided, by the rounded temperature: 2 div_ulp u and u, and where it may
//                    be subnormal the steps of it; or reciprocal and product
//   the cap          tanh' <= 1: its argument's error counts in full, plus 2 tanh_ulp u, of an infinity too,
//                    and its steps where it may be subnormal, and two roundings of softcap
//
// With numbers: `softmax rows=1 cols=1000 dtype=f32` on cpu (gaussian, seed 1; exp_ulp=2, div_ulp=1,
// order=any), element 0: y = 4.68e-4, |s - m| = 3.17, S = 90.2, u = 2^-24.
//   theta_i   4 u (exp) + 3.17 u (the difference)                          4.3e-7
//   H         999 u (the sum in any order) + 3.5e-7 (the weights in it)    5.99e-5
//   D         2 u                                                          1.2e-7
//   |y' - y|  y * 6.04e-5                                                  2.83e-8
// The sum is 99 % of it; under order=tree H is 9.5e-7, and the limit before the store 40 times smaller.
#include <algorithm>
#include <array>

#include "reference/ops/exp_sum.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/ops/replayed_rows.hpp"
#include "reference/ops/signature.hpp"
#include "reference/parallel.hpp"
#include "reference/real/double_double_functions.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
extern const Op kSoftmax;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "independent rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "logits of a row"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x and y"},
    KeySpec{"mask", KeyKind::word, "none", "none|causal|random",
            "which logits are visible; causal: i <= cols - rows + r"},
    KeySpec{"sinks", KeyKind::word, "no", "no|yes", "one more logit per row in the denominator"},
    KeySpec{"softcap", KeyKind::real, "0", "0..1e6", "c in c tanh(s / c), a number of acc; 0 is none"},
    KeySpec{"temperature", KeyKind::real, "1", "1e-6..1e6",
            "x is divided by it, a number of acc; 1: no division"},
};

constexpr auto kContract = with_store_keys(with_replay_keys(std::array{
    kExpSumKeys[0],
    kExpSumKeys[1],
    kExpSumKeys[2],
    kExpSumKeys[3],
    kExpSumKeys[4],
    KeySpec{"tanh_ulp", KeyKind::real, "4", kUlps,
            "error of tanh (softcap); tanh(0) is 0; tanh.approx: 8192"},
    KeySpec{"div_ulp", KeyKind::real, "2", kUlps,
            "error of a quotient, or of reciprocal and product where 1/S is normal; 0.5: rounded to nearest"},
    KeySpec{"weights", KeyKind::word, "acc", "acc|f32|f16|bf16",
            "format in which exp, against the maximum of its time, is kept between its sum and the "
            "quotient; acc: as "
            "it was summed"},
    KeySpec{"empty",
            KeyKind::word,
            "nan",
            "nan|zero",
            "what a row gives whose visible logits are all -Inf, without a sink above it",
            {},
            "zero: level!=replay"},
}));

void indices(const Attributes& a, std::uint64_t seed, TensorSet& inputs) {
  if (a.text("mask") != "random") return;
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  std::vector<std::int64_t> mask(static_cast<std::size_t>(rows * cols));
  IndexDraw draw(seed);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < cols; ++i)  // every eighth row sees nothing, every eighth everything
      mask[r * cols + i] = r % 8 == 3 ? 0 : r % 8 == 5 ? 1 : static_cast<std::int64_t>(draw.below(2));
  inputs.insert_or_assign("mask", integer_tensor("int8", {rows, cols}, mask));
}

// s / divisor, the divisor rounded.
Enclosure divided_by(Enclosure s, double divisor, double div_ulp, const Machine& acc) {
  const double rounding = is_representable(divisor, acc) ? 0 : acc.unit * divisor;
  const double tiny = divisor < acc.normal ? acc.tiny : 0;
  const double error = rule(Rule::divisor_rounding, up(rounding + tiny));
  const Enclosure by = {divisor, divisor < acc.max_finite ? error : kInfinity};
  return divided(s, by, acc, div_ulp);
}

// s_j of a visible, non-NaN x, and e_j.
Enclosure logit(double x, double temperature, double softcap, const Contract& contract, const Machine& acc) {
  const double div_ulp = contract.number("div_ulp"), tanh_ulp = contract.number("tanh_ulp");
  Enclosure s = read(x, acc);
  if (temperature != 1 && std::isfinite(x)) s = divided_by(s, temperature, div_ulp, acc);
  if (softcap == 0) return s;
  Enclosure inner = {std::copysign(kInfinity, x), 0};
  if (std::isfinite(x)) {
    inner = divided_by(s, softcap, div_ulp, acc);
    // |tanh| <= 1, so an argument that overflows is harmless; not one that an Inf for 1 / softcap may have
    // made NaN.
    const bool harmless = divided_by({0, 0}, softcap, div_ulp, acc).error < kInfinity;
    if (!harmless) return {inner.value, kInfinity};
  }
  const Certified t = std::isfinite(x) ? certified_tanh(inner.value) : Certified{std::copysign(1.0, x), 0};
  const double inner_error = std::min(inner.error, 2.0);  // tanh' <= 1
  const Enclosure capped =
      evaluated({t.value, up(inner_error + t.error)}, acc, tanh_ulp, Rule::tanh_ulp, Rule::tanh_underflow);
  return rounded(product(capped, {softcap, 0}), acc, 2);
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kSoftmax.tensors(a), set);
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  const bool causal = a.text("mask") == "causal";
  const std::vector<double> x = in.values("x");
  const std::vector<std::int64_t> mask = in.has("mask") ? in.integers("mask") : std::vector<std::int64_t>();
  const std::vector<double> sinks = in.has("sinks") ? in.values("sinks") : std::vector<double>();
  const double temperature = a.real("temperature"), softcap = a.real("softcap");
  const Machine acc = machine(contract.text("acc"), contract.text("ftz") == "yes");
  const Store store = store_of(contract, a.text("dtype"));
  const bool flush = contract.text("ftz") == "yes";
  const ScalarFormat& kept_format =
      scalar_format(contract.text("weights") == "acc" ? "f32" : contract.text("weights"));
  const Machine kept = machine(contract.text(contract.text("weights") == "acc" ? "acc" : "weights"), flush);
  const double rescales = contract.number("rescales");
  const bool is_kept =
      contract.text("weights") != "acc" && (kept.unit > acc.unit || kept.max_finite < acc.max_finite);
  const double most_exponent = std::log(acc.max_finite) - 1;  // of an exp that surely does not overflow
  const double div_ulp = contract.number("div_ulp");
  const double quotient_error = rule(Rule::quotient_ulp, gamma_n(2 * div_ulp, acc.unit));
  Truth t = make_truth("y", x.size(),
                       "reference/ops/softmax: rounding of the logits, exp, the sum and the quotient");

  const auto of_row = [&](std::int64_t r) {
    std::vector<Enclosure> logits;
    std::vector<std::int64_t> visible;
    if (!sinks.empty())
      logits.push_back(read(std::isnan(sinks[r]) ? 0 : sinks[r], acc));  // exp_sum.hpp: first
    bool poisoned = false;
    double largest = -kInfinity, of_keys = -kInfinity;
    for (std::int64_t i = 0; i < cols; ++i) {
      const std::int64_t at = r * cols + i;
      if ((causal && i > cols - rows + r) || (!mask.empty() && mask[at] == 0)) continue;
      visible.push_back(i);
      poisoned |= std::isnan(x[at]);
      logits.push_back(std::isnan(x[at]) ? Enclosure{} : logit(x[at], temperature, softcap, contract, acc));
      largest = std::max(largest, logits.back().value);
    }
    for (std::int64_t i = 0; i < cols; ++i) set_special(t, r * cols + i, 0);
    if (visible.empty()) return;
    if (!sinks.empty()) {
      poisoned |= std::isnan(sinks[r]);
      of_keys = largest;
      largest = std::max(largest, sinks[r]);
    }
    if (!poisoned && !sinks.empty() && sinks[r] == kInfinity && std::isfinite(of_keys)) {
      for (std::int64_t i = 0; i < cols; ++i) set_unclaimed(t, r * cols + i);
      return;
    }
    if (!poisoned && largest == -kInfinity && contract.text("empty") == "zero") return;
    if (poisoned || std::isinf(largest)) {
      for (std::int64_t i = 0; i < cols; ++i) set_unclaimed(t, r * cols + i);
      for (const std::int64_t i : visible) set_special(t, r * cols + i, std::nan(""));
      return;
    }
    const ExpSum e = exp_sum(logits, contract, acc, static_cast<double>(cols), !sinks.empty());
    // A sum or a weight that may be Inf or NaN makes a NaN of every weight, of those that are masked too.
    const bool may_be_kept = claims(Rule::kept_overflow, 2 * e.swell < kept.max_finite);
    if (!e.defined || (!e.bounded && !(e.sum_error < 1)) || !may_be_kept) {
      for (std::int64_t i = 0; i < cols; ++i) set_unclaimed(t, r * cols + i);
      return;
    }
    const double shrink = 1 - e.sum_error;
    const bool sink_overflows = !sinks.empty() && sinks[r] - of_keys > most_exponent;
    const std::size_t keys = sinks.empty() ? 0 : 1;  // the first key's logit
    // No kernel's sum, against its own M, is larger; none is near 0, for its largest weight is about 1.
    const double most_sum = e.sum * (1 + e.sum_error) * std::exp(e.max_error) * e.swell;
    const bool is_decided = is_kept && e.max_error == 0 && keys == 0 && shrink > 0 && rescales == 0;
    for (std::size_t j = keys; j < logits.size(); ++j) {
      if (logits[j].value == -kInfinity) continue;  // exactly 0
      const std::int64_t at = r * cols + visible[j - keys];
      const double y = e.weight[j] / e.sum;
      if (is_decided) {
        const Enclosure weight = {e.weight[j], up(e.most[j] - e.weight[j] + e.flush[j])};
        const Enclosure parked = decided(weight, kept_format, flush);
        set_truth_within(t, at, divided(parked, {e.sum, e.sum * e.sum_error}, acc, div_ulp), store);
        continue;
      }
      double most = e.most[j], vanishes = e.flush[j];
      if (is_kept) {
        // Against a maximum that was rounded up, as 515 is in bf16, it is smaller: exp(-1) of it.
        const double off = std::exp(e.max_error) * e.swell,
                     least = (2 * e.weight[j] - e.most[j] - vanishes) / (off * off);
        if (!(least > 0) || may_underflow({least, 0}, kept))
          vanishes += rule(Rule::kept_underflow, kept.tiny * off);
        most += rule(Rule::kept_rounding, most * kept.unit);
      }
      const double largest_y = (most + vanishes) * (1 + quotient_error) / (e.sum * shrink);
      const double relative = up(largest_y - y + 4 * kUnit64 * y);
      const double absolute =
          shrink > 0 ? division_underflow({y, relative}, (most + vanishes) * std::exp(e.max_error) * e.swell,
                                          {most_sum, 0}, acc, div_ulp)
                     : 0;
      const double error =
          up(relative + absolute) + (sink_overflows ? rule(Rule::exp_sink_overflow, y) : 0.0);
      set_truth(t, at, {y, shrink > 0 ? error : kInfinity}, store);
      if (!(t.limit[at] < kInfinity) && e.bounded) t.limit[at] = kAnyNumber;
    }
  };
  parallel_rows(static_cast<std::size_t>(rows), static_cast<std::size_t>(cols), of_row);
  if (is_judged_by_replay(contract)) replay_rows(t, "softmax", a, set, contract);
  return alone(std::move(t));
}

}  // namespace

const Op kSoftmax = {
    .name = "softmax",
    .formula = "y[r,i] = exp(s_i - m) / sum_j exp(s_j - m), s = cap(x / temperature)",
    .signature =
        "x[rows,cols] dtype\n"
        "mask[rows,cols] int8 if mask=random\n"
        "sinks[rows] f32 if sinks=yes\n"
        "-> y[rows,cols] dtype",
    .example = "rows=4 cols=33 dtype=bf16 mask=random sinks=yes",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kSoftmax>,
    .indices = indices,
    .truth = truth,
    .unused = nullptr,
    .stages = [](const Attributes& a, const TensorSet& set,
                 const Contract& contract) { return row_stages("softmax", a, set, contract); },
    .special =
        "a row with a visible NaN or +Inf (after the cap) or a NaN sink, or of nothing but -Inf and no "
        "finite sink: NaN where "
        "visible; of the latter 0 under empty=zero\n"
        "a row without a visible element: 0\n"
        "a -Inf (after the cap) among others, a finite sink with them: 0, an online kernel's too\n"
        "a sink of +Inf: nothing is claimed of its row",
};

}  // namespace assay
