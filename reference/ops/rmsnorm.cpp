// rmsnorm: y[r,i] = x[r,i] gamma[i] / sqrt(mean_j x[r,j]^2 + eps)
// x[rows,cols] dtype, gamma[cols] f32 -> y[rows,cols] dtype; eps > 0.
//
// Domain. Every finite x. A NaN makes its row NaN. With an Inf (and no NaN) in a row the mean is Inf: that
// element is NaN (Inf / Inf) and the finite ones are 0; nothing is claimed of these where n in `acc` may be
// Inf, or 1/n 0: their mean may be NaN. A gamma that is not finite: IEEE product with the
// normalised x. Where a square, the sum or x gamma may overflow `acc`, nothing is claimed (limit +Inf).
//
// Limit. A kernel squares (one rounding each), adds in the declared order (enclosure.hpp: summed), divides by
// cols, adds the rounded eps, takes rsqrt (rsqrt_ulp), multiplies x, 1/sqrt and gamma in the declared order
// of products (norm.hpp: Affine), stores. Each step is one line of truth() in the calculus of enclosure.hpp;
// to first order the limit is
//   |y| ((n/2 + div_ulp + 1) u + 2 rsqrt_ulp u + 2 u)
// and the stored rounding, since the mean's relative error halves under rsqrt; and where x gamma underflows
// before 1/sqrt, tiny / sqrt(eps): with x = 2^-140 and gamma = 2^-9 all of y, under product=any and
// x_gamma_inv. No kernel's mean is negative: where its interval reaches 0 (1 / cols flushed, in f16 from cols
// = 16385 on) it is cut there, and the limit is |x| / sqrt(eps).
#include <algorithm>

#include "reference/ops/norm.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/replayed_rows.hpp"
#include "reference/ops/signature.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
extern const Op kRmsnorm;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "independent rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "elements that are normalised together"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x and y"},
    KeySpec{"eps", KeyKind::real, "1e-5", "1e-30..1",
            "added to the mean square, as a number of acc or of f32"},
};

constexpr auto kContract = with_norm_keys(kReplayKeys);

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kRmsnorm.tensors(a), set);
  const std::size_t cols = static_cast<std::size_t>(a.integer("cols"));
  const std::vector<double> x = in.values("x"), gain = in.values("gamma");
  const Affine affine(contract, a.text("dtype"));
  const Machine& acc = affine.acc();
  const Order order = order_of(contract.text("order"));
  const double div_ulp = contract.number("div_ulp"), rsqrt_ulp = contract.number("rsqrt_ulp");
  const Enclosure eps = held_eps(a.real("eps"), acc);
  const double n = static_cast<double>(cols), most_inverse = largest_inverse(eps, rsqrt_ulp, acc);
  // A mean of Inf is Inf.
  const bool keeps_inf = n < acc.max_finite && divided({1, 0}, count(n, acc), acc, div_ulp, 1).low() > 0;
  Truth t = make_truth("y", x.size(), "reference/ops/rmsnorm: squares, sum, rsqrt and two products");

  const auto of_row = [&](std::size_t first) {
    const std::span<const double> row(x.data() + first, cols);
    if (!all_finite(row)) {
      const bool any_nan = std::any_of(row.begin(), row.end(), [](double v) { return std::isnan(v); });
      for (std::size_t i = 0; i < cols; ++i) {
        if (any_nan || std::isinf(row[i]))
          set_special(t, first + i, std::nan(""));
        else if (!keeps_inf)
          set_unclaimed(t, first + i);
        else
          affine.set_vanished(t, first + i, row[i], gain[i]);
      }
      return;
    }
    std::vector<Enclosure> squares(cols);
    double most = 0, total = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      squares[i] = squared(read(row[i], acc), acc);
      most = std::max(most, std::fabs(row[i]));
      total += row[i] * row[i];
    }
    const Enclosure mean = mean_of(summed(squares, order, acc), n, div_ulp, acc);
    const Enclosure inverse = inverse_of_positive(mean, eps, acc, rsqrt_ulp);
    const bool fits = grown(total, n + 4, acc) < acc.max_finite;
    for (std::size_t i = 0; i < cols; ++i)
      affine.set(t, first + i, read(row[i], acc), inverse, gain[i], 0, most, fits ? most_inverse : kInfinity);
  };
  parallel_rows(x.size() / cols, cols, [&](std::size_t r) { of_row(r * cols); });
  if (is_judged_by_replay(contract)) replay_rows(t, "rmsnorm", a, set, contract);
  return alone(std::move(t));
}

}  // namespace

const Op kRmsnorm = {
    .name = "rmsnorm",
    .formula = "y[r,i] = x[r,i] gamma[i] / sqrt(mean_j x[r,j]^2 + eps)",
    .signature =
        "x[rows,cols] dtype\n"
        "gamma[cols] f32\n"
        "-> y[rows,cols] dtype",
    .example = "rows=4 cols=33 dtype=bf16",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kRmsnorm>,
    .indices = nullptr,
    .truth = truth,
    .unused = nullptr,
    .stages = [](const Attributes& a, const TensorSet& set,
                 const Contract& contract) { return row_stages("rmsnorm", a, set, contract); },
    .special =
        "a row with a NaN: NaN\n"
        "a row with an Inf: NaN there, for Inf / Inf, and 0 elsewhere (nothing is claimed where 1/n may be 0 "
        "in acc)\n"
        "a gamma that is not finite: by IEEE rules in its column",
};

}  // namespace assay
