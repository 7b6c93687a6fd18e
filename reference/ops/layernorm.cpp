// layernorm: y[r,i] = (x[r,i] - mu_r) / sqrt(sigma_r^2 + eps) * gamma[i] + beta[i]
//   mu      = mean_j x[r,j]
//   sigma^2 = mean_j (x[r,j] - mu)^2  (biased),  eps > 0
// x[rows,cols] dtype, gamma[cols] f32, beta[cols] f32 -> y[rows,cols] dtype.
//
// Domain. Every finite x. A NaN or Inf in a row makes the whole row NaN (the mean is NaN or Inf; Inf - Inf, or
// x - Inf = -Inf over sqrt(Inf)). A gamma or beta that is not finite acts on its own column by IEEE rules.
//
// Limit. variance.hpp derives the errors of the mean and of the variance of each algorithm that the contract can name
// (variance=two_pass|one_pass|welford). From there the calculus of enclosure.hpp follows the kernel:
//   d = fl(x - m)
//   a = rsqrt(v + eps)
//   y = fl(fl(d a) gamma + beta),  d a rounded to `mid` before gamma
// i.e. to first order
//   |dy| <= |gamma| / sigma (|dmu| + |x - mu| (dsigma^2 / (2 sigma^2) + (2 rsqrt_ulp + 3) u)) + u |y|.
// The interval of v + eps is cut at the rounded eps from below: no kernel that keeps its contract has v < 0. So the
// one-pass limit stays finite when cancellation has eaten the variance: it grows to |d| / sqrt(eps).
#include <algorithm>

#include "reference/ops/norm.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/variance.hpp"

namespace assay {
namespace {

constexpr std::array kAttributes = {
    AttributeSpec{"rows", AttributeKind::integer, "", "1..1048576", "independent rows"},
    AttributeSpec{"cols", AttributeKind::integer, "", "1..16777216", "elements that are normalised together"},
    AttributeSpec{"dtype", AttributeKind::format, "f32", "f32|f16|bf16", "of x and y"},
    AttributeSpec{"eps", AttributeKind::real, "1e-5", "1e-30..1", "added to the variance"},
};

constexpr auto kContract = with_store_keys(std::array{
    ContractKey{"variance", ContractValue::word, "two_pass", "two_pass|one_pass|welford", "the algorithm"},
    kNormKeys[0],
    kNormKeys[1],
    kNormKeys[2],
    kNormKeys[3],
    kNormKeys[4],
});

std::vector<TensorSpec> tensors(const Attributes& a) {
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  return {{"x", TensorRole::data, a.text("dtype"), {rows, cols}},
          {"gamma", TensorRole::data, "f32", {cols}},
          {"beta", TensorRole::data, "f32", {cols}},
          {"y", TensorRole::output, a.text("dtype"), {rows, cols}}};
}

// 1 / sqrt(v + eps) with v >= 0 known.
Enclosure inverse_deviation(Enclosure variance, Enclosure eps, const Machine& acc, double rsqrt_ulp) {
  if (!(variance.error < kInfinity)) return {0, kInfinity};
  const double low = std::max(0.0, variance.value - variance.error);
  const double high = variance.value + up(variance.error);
  const Enclosure at_low = inverse_sqrt(rounded_sum(sum({low, 0}, eps), acc), acc, rsqrt_ulp);
  const Enclosure at_high = inverse_sqrt(rounded_sum(sum({high, 0}, eps), acc), acc, rsqrt_ulp);
  const Enclosure exact = inverse_sqrt({variance.value + eps.value, 3 * kUnit64 * variance.magnitude()},
                                       machine("f64", false), 0.5);
  const double error = std::max(at_low.high() - exact.value, exact.value - at_high.low());
  return {exact.value, up(std::max(error, 0.0) + exact.error + 4 * kUnit64 * exact.value)};
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(tensors(a), set);
  const std::size_t cols = static_cast<std::size_t>(a.integer("cols"));
  const std::vector<double> x = in.values("x"), gain = in.values("gamma"), bias = in.values("beta");
  const bool flush = contract.text("ftz") == "yes";
  const Machine acc = machine(contract.text("acc"), flush), mid = machine(contract.text("mid"), flush);
  const bool mid_rounds = contract.text("mid") != contract.text("acc");
  const Store store = store_of(contract, a.text("dtype"));
  const Order order = order_of(contract.text("order"));
  const VarianceKind kind = variance_of(contract.text("variance"));
  const Enclosure eps = rounded({a.real("eps"), 0}, acc);
  Truth t = make_truth("y", x.size(),
                       "reference/ops/layernorm: error of the mean and variance, rsqrt and three roundings");

  for (std::size_t first = 0; first < x.size(); first += cols) {
    const std::span<const double> row(x.data() + first, cols);
    if (!all_finite(row)) {
      for (std::size_t i = 0; i < cols; ++i) set_special(t, first + i, std::nan(""));
      continue;
    }
    const Moments m = moments(row, kind, order, contract.number("div_ulp"), acc);
    const Enclosure inverse = inverse_deviation(m.variance, eps, acc, contract.number("rsqrt_ulp"));
    for (std::size_t i = 0; i < cols; ++i) {
      const Enclosure d = rounded_sum(sum(read(row[i], acc), negated(m.mean)), acc);
      if (!finite(gain[i], bias[i])) {
        set_special(t, first + i, d.value * gain[i] + bias[i]);
        continue;
      }
      Enclosure z = rounded(product(d, inverse), acc);
      if (mid_rounds) z = rounded(z, mid);
      z = rounded(product(z, read(gain[i], acc)), acc);
      set_truth(t, first + i, rounded_sum(sum(z, read(bias[i], acc)), acc), store);
    }
  }
  return {std::move(t)};
}

}  // namespace

extern const Op kLayernorm;
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
    .tensors = tensors,
    .indices = nullptr,
    .truth = truth,
};

}  // namespace assay
