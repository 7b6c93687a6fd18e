#include "cases/studies/mutants/usual_truth.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "reference/ops/op_io.hpp"

namespace assay::mutants {
namespace {

using Row = std::span<const double>;

Row row_of(const std::vector<double>& values, std::size_t row, std::size_t length) {
  return Row(values).subspan(row * length, length);
}

double dot(Row a, Row b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

// y = a b^T.
std::vector<double> matmul(const Attributes& attributes, const OpInputs& in) {
  const auto m = static_cast<std::size_t>(attributes.integer("m")),
             n = static_cast<std::size_t>(attributes.integer("n")),
             k = static_cast<std::size_t>(attributes.integer("k"));
  const std::vector<double> a = in.values("a"), b = in.values("b");
  std::vector<double> y(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) y[i * n + j] = dot(row_of(a, i, k), row_of(b, j, k));
  return y;
}

// y[t] = sum_s c[t,s] w2[e] (silu(w13[e,gate] x[t]) * (w13[e,up] x[t])).
std::vector<double> moe(const Attributes& attributes, const OpInputs& in) {
  const auto size = [&](const char* name) { return static_cast<std::size_t>(attributes.integer(name)); };
  const std::size_t tokens = size("tokens"), hidden = size("hidden"), inter = size("inter"),
                    topk = size("topk");
  const std::vector<double> x = in.values("x"), w13 = in.values("w13"), w2 = in.values("w2"),
                            weights = in.values("topk_weights");
  const std::vector<std::int64_t> ids = in.integers("topk_ids");
  std::vector<double> y(tokens * hidden), h(inter);
  for (std::size_t slot = 0; slot < tokens * topk; ++slot) {
    const std::size_t t = slot / topk, e = static_cast<std::size_t>(ids[slot]);
    const Row token = row_of(x, t, hidden);
    for (std::size_t i = 0; i < inter; ++i) {
      const double gate = dot(row_of(w13, e * 2 * inter + i, hidden), token),
                   up = dot(row_of(w13, (e * 2 + 1) * inter + i, hidden), token);
      h[i] = gate / (1 + std::exp(-gate)) * up;
    }
    for (std::size_t c = 0; c < hidden; ++c)
      y[t * hidden + c] += weights[slot] * dot(row_of(w2, e * hidden + c, inter), h);
  }
  return y;
}

}  // namespace

std::vector<std::vector<double>> usual_truth(const Case& c, const TensorSet& inputs,
                                             std::span<const Truth> truths) {
  using Formula = std::vector<double> (*)(const Attributes&, const OpInputs&);
  const Formula formula = c.op->name == "matmul" ? matmul : c.op->name == "moe" ? moe : nullptr;
  if (formula != nullptr) return {formula(c.attributes, OpInputs(c.op->tensors(c.attributes), inputs))};
  std::vector<std::vector<double>> values;
  for (const Truth& truth : truths) values.push_back(truth.value);
  return values;
}

}  // namespace assay::mutants
