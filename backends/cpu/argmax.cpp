// y[r] = index of the largest element, the first of equals: best = 0, replaced when x[i] > x[best]. So a NaN
// never wins, and a NaN at 0 stays. checked=yes: a row with NaN gives -(i + 1), i the first one's index.
#include <cmath>
#include <vector>

#include "backends/cpu/ops.hpp"
#include "backends/cpu/rows.hpp"

namespace assay_cpu {

void argmax_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
}

std::string argmax_contract(const Call&, const Engine&) { return ""; }

void argmax_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
  const RowReader reader(call, "x", call.text("dtype"));
  const assay_tensor& y = call.output("y");
  const bool checked = call.yes("checked");
  std::vector<float> x(static_cast<std::size_t>(reader.length()));
  for (std::int64_t row = 0; row < reader.rows(); ++row) {
    reader.read(engine, row, x.data());
    std::size_t best = 0;
    std::int64_t result = -1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (checked && std::isnan(x[i])) {
        best = i;
        result = -static_cast<std::int64_t>(i) - 1;
        break;
      }
      if (x[i] > x[best]) best = i;
      result = static_cast<std::int64_t>(best);
    }
    put_int32(y, row, static_cast<std::int32_t>(result));
  }
}

}  // namespace assay_cpu
