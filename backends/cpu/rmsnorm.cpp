// y = x / sqrt(mean of x^2 + eps) * gamma per row, in f32.
#include <cmath>
#include <vector>

#include "backends/cpu/ops.hpp"
#include "backends/cpu/rows.hpp"

namespace assay_cpu {

void rmsnorm_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  check_readable(call, "gamma", "f32");
}

std::string rmsnorm_contract(const Call&, const Engine& engine) {
  return "acc=f32 order=lanes:" + std::to_string(engine.sum_lanes) +
         " rsqrt_ulp=1 div_ulp=0.5 product=x_inv_gamma";
}

void rmsnorm_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const std::string_view dtype = call.text("dtype");
  const RowReader reader(call, "x", dtype);
  const RowReader gamma_reader(call, "gamma", "f32");
  const assay_tensor& y = call.output("y");
  const float eps = static_cast<float>(call.real("eps"));
  std::vector<float> x(static_cast<std::size_t>(reader.length()));
  std::vector<float> gamma(x.size());
  gamma_reader.read(engine, 0, gamma.data());
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    reader.read(engine, row, x.data());
    const float mean = engine.sum_squares(x.data(), 0.0F, x.size()) / static_cast<float>(x.size());
    const float factor = 1.0F / std::sqrt(mean + eps);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * factor * gamma[i];
    write_row(engine, dtype, x.data(), reader.length(), mutable_row(y, row));
  }
}

}  // namespace assay_cpu
