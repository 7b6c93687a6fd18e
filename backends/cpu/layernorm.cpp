// y = (x - mean) / sqrt(variance + eps) * gamma + beta per row, in f32. Kernels by how they find the
// variance:
//   two_pass  mean of (x - mean)^2
//   one_pass  mean of x^2 less mean^2, held at 0
//   welford   running update
// one_pass_unclamped is a defect on purpose, as it ships: rounding may leave the difference below 0 on a row
// of equal numbers, and its root is NaN. It runs only where a variant names it, and no contract excuses its
// NaN.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/ops.hpp"
#include "backends/cpu/rows.hpp"

namespace assay_cpu {
namespace {

struct Moments {
  float mean, variance;
};

Moments two_pass(const Engine& engine, const std::vector<float>& x) {
  const float n = static_cast<float>(x.size());
  const float mean = engine.sum(x.data(), x.size()) / n;
  return {mean, engine.sum_squares(x.data(), mean, x.size()) / n};
}

Moments one_pass_unclamped(const Engine& engine, const std::vector<float>& x) {
  const float n = static_cast<float>(x.size());
  const float mean = engine.sum(x.data(), x.size()) / n;
  return {mean, engine.sum_squares(x.data(), 0.0F, x.size()) / n - mean * mean};
}

Moments one_pass(const Engine& engine, const std::vector<float>& x) {
  const auto [mean, variance] = one_pass_unclamped(engine, x);
  return {mean, variance < 0 ? 0.0F : variance};  // cancellation may leave it below 0; NaN stays NaN
}

Moments welford(const Engine&, const std::vector<float>& x) {
  float mean = 0;
  float squares = 0;
  float count = 0;
  for (const float value : x) {
    count += 1;
    const float before = value - mean;
    mean += before / count;
    squares += before * (value - mean);
  }
  return {mean, squares / count};
}

template <Moments (*kMoments)(const Engine&, const std::vector<float>&)>
void run(const Call& call, const Engine& engine) {
  const std::string_view dtype = call.text("dtype");
  const RowReader reader(call, "x", dtype);
  const RowReader gamma_reader(call, "gamma", "f32");
  const RowReader beta_reader(call, "beta", "f32");
  const assay_tensor& y = call.output("y");
  const float eps = static_cast<float>(call.real("eps"));
  std::vector<float> x(static_cast<std::size_t>(reader.length()));
  std::vector<float> gamma(x.size());
  std::vector<float> beta(x.size());
  gamma_reader.read(engine, 0, gamma.data());
  beta_reader.read(engine, 0, beta.data());
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    reader.read(engine, row, x.data());
    const Moments moments = kMoments(engine, x);
    const float factor = 1.0F / std::sqrt(moments.variance + eps);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - moments.mean) * factor * gamma[i] + beta[i];
    write_row(engine, dtype, x.data(), reader.length(), mutable_row(y, row));
  }
}

// welford keeps one accumulator, the others sum in the target's lanes.
std::string contract_of(const std::string& variance, const Engine& engine) {
  return "variance=" + variance + " acc=f32 order=" +
         (variance == "welford" ? "sequential" : "lanes:" + std::to_string(engine.sum_lanes)) +
         " rsqrt_ulp=1 div_ulp=0.5 product=x_inv_gamma";
}

}  // namespace

void layernorm_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  check_readable(call, "gamma", "f32");
  check_readable(call, "beta", "f32");
}

#define ASSAY_VARIANCE(kind, declared)                                                      \
  std::string layernorm_##kind##_contract(const Call&, const Engine& engine) {              \
    return contract_of(#declared, engine);                                                  \
  }                                                                                         \
  void layernorm_##kind##_run(const Call& call, const Engine& engine, const Trace& trace) { \
    trace.kernel(__func__);                                                                 \
    run<kind>(call, engine);                                                                \
  }
ASSAY_VARIANCE(two_pass, two_pass)
ASSAY_VARIANCE(one_pass, one_pass)
ASSAY_VARIANCE(one_pass_unclamped, one_pass)
ASSAY_VARIANCE(welford, welford)
#undef ASSAY_VARIANCE

}  // namespace assay_cpu
