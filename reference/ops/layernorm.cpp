// layernorm: y[r,i] = (x[r,i] - mu_r) / sqrt(sigma_r^2 + eps) * gamma[i] + beta[i]
//   mu      = mean_j x[r,j]
//   sigma^2 = mean_j (x[r,j] - mu)^2  (biased),  eps > 0
// x[rows,cols] dtype, gamma[cols] f32, beta[cols] f32 -> y[rows,cols] dtype.
//
// Domain. Every finite x. A NaN or Inf in a row makes the whole row NaN (the mean is NaN or Inf; Inf - Inf,
// or x - Inf = -Inf over sqrt(Inf - Inf)). Unless variance=two_pass an Inf leaves the finite x of its row
// unclaimed: a kernel that clamps by fmax makes 0 of the NaN. A gamma or beta that is not finite acts on its
// own column by IEEE rules.
//
// Limit. variance.hpp derives the errors of the mean and of the variance of each algorithm that the contract
// can name (variance=two_pass|one_pass|welford). From there the calculus of enclosure.hpp follows the kernel:
//   d = fl(x - m)
//   a = rsqrt(v + eps)
//   y = fl(d a gamma + beta), the products in the declared order, d a rounded to `mid` before gamma
//   (norm.hpp: Affine)
// i.e. to first order
//   |dy| <= |gamma| / sigma (|dmu| + |x - mu| (dsigma^2 / (2 sigma^2) + (2 rsqrt_ulp + 3) u)) + u |y|.
// The interval of v + eps is cut at the rounded eps from below: no kernel that keeps its contract has v < 0.
// So the one-pass limit stays finite when cancellation has eaten the variance: it grows to |d| / sqrt(eps).
// Where the analysis gives out before the range does (a 16-bit acc over a long row), any finite number may
// stand, and NaN is still wrong.
#include <algorithm>

#include "reference/ops/norm.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/replayed_rows.hpp"
#include "reference/ops/signature.hpp"
#include "reference/ops/variance.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
extern const Op kLayernorm;
namespace {

constexpr std::array kAttributes = {
    KeySpec{"rows", KeyKind::integer, "", "1..1048576", "independent rows"},
    KeySpec{"cols", KeyKind::integer, "", "1..16777216", "elements that are normalised together"},
    KeySpec{"dtype", KeyKind::format, "f32", "f32|f16|bf16", "of x and y"},
    KeySpec{"eps", KeyKind::real, "1e-5", "1e-30..1", "added to the variance, as a number of acc or of f32"},
};

constexpr auto kContract = with_norm_keys(with_replay_keys(std::array{
    KeySpec{
        "variance", KeyKind::word, "two_pass", "two_pass|one_pass|welford",
        "the algorithm; a variance that comes out negative is clamped at 0; welford: M += (x - M) / k, S += "
        "(x - M before) (x - M after), parts merged by Chan's formula, its products in any association"},
}));

// Whether no kernel of the contract leaves acc's range before 1/sqrt, by magnitudes alone: the mean grows by
// two roundings or, merged, 2 gamma_{2 div_ulp + 4} an addition, and no sum is above n times its largest
// square (merges: n^2 / 4).
bool moments_fit(std::span<const double> row, VarianceKind kind, double div_ulp, const Machine& acc) {
  const double n = static_cast<double>(row.size());
  double most = 0;
  for (const double x : row) most = std::max(most, std::fabs(x));
  const bool merges = kind == VarianceKind::welford;
  const double mean = grown(most, merges ? n * (4 * div_ulp + 9) : n + 2 * div_ulp + 4, acc);
  const double square = (most + mean) * (most + mean);
  if (merges && !(n * n / 4 < acc.max_finite)) return false;  // Inf / Inf, or Inf times a difference of 0
  return grown(n * mean, n, acc) < acc.max_finite && grown(square * (merges ? n * std::max(1.0, n / 4) : n),
                                                           2 * n + 2 * div_ulp + 8, acc) < acc.max_finite;
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(kLayernorm.tensors(a), set);
  const std::size_t cols = static_cast<std::size_t>(a.integer("cols"));
  const std::vector<double> x = in.values("x"), gain = in.values("gamma"), bias = in.values("beta");
  const Affine affine(contract, a.text("dtype"));
  const Machine& acc = affine.acc();
  const Order order = order_of(contract.text("order"));
  const VarianceKind kind = variance_of(contract.text("variance"));
  const double div_ulp = contract.number("div_ulp"), rsqrt_ulp = contract.number("rsqrt_ulp");
  const Enclosure eps = held_eps(a.real("eps"), acc);
  const double most_inverse = largest_inverse(eps, rsqrt_ulp, acc);
  Truth t =
      make_truth("y", x.size(), "reference/ops/layernorm: mean and variance, rsqrt, two products and a sum");

  const auto of_row = [&](std::size_t first) {
    const std::span<const double> row(x.data() + first, cols);
    if (!all_finite(row)) {
      const bool any_nan = std::any_of(row.begin(), row.end(), [](double v) { return std::isnan(v); });
      for (std::size_t i = 0; i < cols; ++i) {
        if (kind != VarianceKind::two_pass && !any_nan && std::isfinite(row[i]))
          set_unclaimed(t, first + i);
        else
          set_special(t, first + i, std::nan(""));
      }
      return;
    }
    const Moments m = moments(row, kind, order, div_ulp, acc);
    const Enclosure inverse = inverse_of_positive(m.variance, eps, acc, rsqrt_ulp);
    double most = 0;
    for (const double each : row) most = std::max(most, std::fabs(each));
    most += grown(most, static_cast<double>(cols) * (4 * div_ulp + 9), acc);  // of |x - m|
    const double at_most = moments_fit(row, kind, div_ulp, acc) ? most_inverse : kInfinity;
    for (std::size_t i = 0; i < cols; ++i) {
      const Enclosure d =
          rounded_sum(sum(read(row[i], acc), negated(m.mean)), acc, has_finer_bits(row[i], acc));
      affine.set(t, first + i, d, inverse, gain[i], bias[i], most, at_most);
    }
  };
  parallel_rows(x.size() / cols, cols, [&](std::size_t r) { of_row(r * cols); });
  if (is_judged_by_replay(contract)) replay_rows(t, "layernorm", a, set, contract);
  return alone(std::move(t));
}

}  // namespace

const Op kLayernorm = {
    .name = "layernorm",
    .formula = "y[r,i] = (x[r,i] - mu_r) / sqrt(sigma_r^2 + eps) gamma[i] + beta[i]",
    .signature =
        "x[rows,cols] dtype\n"
        "gamma[cols] f32\n"
        "beta[cols] f32\n"
        "-> y[rows,cols] dtype",
    .example = "rows=4 cols=33 dtype=bf16",
    .attributes = kAttributes,
    .contract = kContract,
    .tensors = tensors_of<kLayernorm>,
    .indices = nullptr,
    .truth = truth,
    .unused = nullptr,
    .stages = [](const Attributes& a, const TensorSet& set,
                 const Contract& contract) { return row_stages("layernorm", a, set, contract); },
    .special =
        "a row with a NaN or Inf: NaN; nothing is claimed of a finite x beside an Inf unless "
        "variance=two_pass\n"
        "a gamma or beta that is not finite: by IEEE rules in its column",
};

}  // namespace assay
