// y[r] = log(sum_c exp(x[r,c])) = max + log(sum exp(x - max)), in f32.
#include <cmath>
#include <vector>

#include "backends/cpu/ops.hpp"
#include "backends/cpu/rows.hpp"

namespace assay_cpu {

void logsumexp_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
}

std::string logsumexp_contract(const Call&, const Engine& engine) {
  return "acc=f32 order=lanes:" + std::to_string(engine.exp_lanes) +
         " exp=e exp_ulp=" + std::to_string(engine.exp_ulp) + " log_ulp=1";
}

void logsumexp_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const RowReader reader(call, "x", call.text("dtype"));
  const assay_tensor& y = call.output("y");
  std::vector<float> x(static_cast<std::size_t>(reader.length()));
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    reader.read(engine, row, x.data());
    const float top = engine.max(x.data(), x.size());
    // Without a finite maximum there is nothing to shift by: -inf, +inf and NaN come out of the sum of exp(x)
    // itself.
    const float shift = std::isfinite(top) ? top : 0.0F;
    const float sum = engine.exp_shift(x.data(), shift, x.data(), x.size());
    put_f32(y, row, shift + std::log(sum));
  }
}

}  // namespace assay_cpu
