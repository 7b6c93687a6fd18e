// rmsnorm: y[r,i] = x[r,i] gamma[i] / sqrt(mean_j x[r,j]^2 + eps)
// x[rows,cols] dtype, gamma[cols] f32 -> y[rows,cols] dtype; eps > 0.
//
// Domain. Every finite x. A NaN makes its row NaN. With an Inf (and no NaN) in a row the mean is Inf: that element is
// NaN (Inf / Inf) and the finite ones are 0. A gamma that is not finite: IEEE product with the normalised x. Squares
// that overflow `acc` claim nothing (limit +Inf).
//
// Limit. A kernel squares (one rounding each), adds in the declared order (enclosure.hpp: summed), divides by cols,
// adds the rounded eps, takes rsqrt (rsqrt_ulp), multiplies by x, rounds to `mid`, multiplies by gamma, stores. Each
// step is one line of truth() in the calculus of enclosure.hpp; to first order the limit is
//   |y| ((n/2 + div_ulp + 1) u + 2 rsqrt_ulp u + 2 u + u_mid)
// and the stored rounding, since the mean's relative error halves under rsqrt. The order gamma * (x * inv),
// (gamma * x) * inv or x * (gamma * inv) is covered when mid = acc: two products either way.
#include <algorithm>

#include "reference/ops/norm.hpp"
#include "reference/ops/op.hpp"

namespace assay {
namespace {

constexpr std::array kAttributes = {
    AttributeSpec{"rows", AttributeKind::integer, "", "1..1048576", "independent rows"},
    AttributeSpec{"cols", AttributeKind::integer, "", "1..16777216", "elements that are normalised together"},
    AttributeSpec{"dtype", AttributeKind::format, "f32", "f32|f16|bf16", "of x and y"},
    AttributeSpec{"eps", AttributeKind::real, "1e-5", "1e-30..1", "added to the mean square"},
};

constexpr auto kContract = with_store_keys(kNormKeys);

std::vector<TensorSpec> tensors(const Attributes& a) {
  const std::int64_t rows = a.integer("rows"), cols = a.integer("cols");
  return {{"x", TensorRole::data, a.text("dtype"), {rows, cols}},
          {"gamma", TensorRole::data, "f32", {cols}},
          {"y", TensorRole::output, a.text("dtype"), {rows, cols}}};
}

std::vector<Truth> truth(const Attributes& a, const TensorSet& set, const Contract& contract) {
  const OpInputs in(tensors(a), set);
  const std::size_t cols = static_cast<std::size_t>(a.integer("cols"));
  const std::vector<double> x = in.values("x"), gain = in.values("gamma");
  const bool flush = contract.text("ftz") == "yes";
  const Machine acc = machine(contract.text("acc"), flush), mid = machine(contract.text("mid"), flush);
  const bool mid_rounds = contract.text("mid") != contract.text("acc");
  const Store store = store_of(contract, a.text("dtype"));
  const Order order = order_of(contract.text("order"));
  const double div_ulp = contract.number("div_ulp"), rsqrt_ulp = contract.number("rsqrt_ulp");
  const Enclosure eps = rounded({a.real("eps"), 0}, acc);
  Truth t =
      make_truth("y", x.size(), "reference/ops/rmsnorm: rounding of squares, sum, rsqrt and two products");

  std::vector<Enclosure> squares(cols);
  for (std::size_t first = 0; first < x.size(); first += cols) {
    const std::span<const double> row(x.data() + first, cols);
    if (!all_finite(row)) {
      const bool any_nan = std::any_of(row.begin(), row.end(), [](double v) { return std::isnan(v); });
      for (std::size_t i = 0; i < cols; ++i) {
        const double normal = any_nan || std::isinf(row[i]) ? std::nan("") : row[i] * 0.0;
        set_special(t, first + i, normal * gain[i]);
      }
      continue;
    }
    for (std::size_t i = 0; i < cols; ++i) squares[i] = squared(read(row[i], acc), acc);
    const Enclosure mean = mean_of(summed(squares, order, acc), static_cast<double>(cols), div_ulp, acc);
    const Enclosure inverse = inverse_sqrt(rounded_sum(sum(mean, eps), acc), acc, rsqrt_ulp);
    for (std::size_t i = 0; i < cols; ++i) {
      if (!finite(gain[i])) {
        set_special(t, first + i, row[i] * gain[i]);  // the root is positive: only the sign of x matters
        continue;
      }
      Enclosure z = rounded(product(read(row[i], acc), inverse), acc);
      if (mid_rounds) z = rounded(z, mid);
      set_truth(t, first + i, rounded(product(z, read(gain[i], acc)), acc), store);
    }
  }
  return {std::move(t)};
}

}  // namespace

extern const Op kRmsnorm;
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
    .tensors = tensors,
    .indices = nullptr,
    .truth = truth,
};

}  // namespace assay
