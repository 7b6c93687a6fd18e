// y[r] = index of the largest element, the first of equals: best = 0, replaced when x[i] > x[best]. So a NaN
// never wins, and a NaN at 0 stays. checked=yes: a row with NaN gives -(i + 1), i the first one's index. A
// block per row.
#include "backends/gpu/formats.hpp"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/ops.hpp"
#include "backends/gpu/rows.cuh"

namespace assay_gpu {
namespace {

__global__ void argmax_block(const GPU_GRID_CONSTANT RowTensor x, const GPU_GRID_CONSTANT View y,
                             std::int64_t cols, bool checked) {
  __shared__ float values[kRowThreads];
  __shared__ std::int64_t indices[kRowThreads];
  __shared__ std::int64_t nans[kRowThreads];
  const std::int64_t row = blockIdx.x;
  const unsigned char* from = x.view.data + row_offset(x.view, row);
  const int thread = static_cast<int>(threadIdx.x);
  float best = 0;
  std::int64_t best_index = cols;  // none yet
  std::int64_t first_nan = cols;
  for (std::int64_t i = thread; i < cols; i += kRowThreads) {
    const float value = load_value(x.dtype, from, i);
    if (is_nan(value)) {
      if (first_nan == cols) first_nan = i;
    } else if (best_index == cols || value > best) {
      best = value;
      best_index = i;
    }
  }
  values[thread] = best;
  indices[thread] = best_index;
  nans[thread] = first_nan;
  __syncthreads();
  if (thread != 0) return;
  for (int t = 1; t < kRowThreads; ++t) {
    if (nans[t] < first_nan) first_nan = nans[t];
    if (indices[t] == cols) continue;
    if (best_index == cols || values[t] > best || (values[t] == best && indices[t] < best_index)) {
      best = values[t];
      best_index = indices[t];
    }
  }
  std::int64_t result = best_index;
  if (first_nan == 0) result = 0;
  if (checked && first_nan < cols) result = -first_nan - 1;
  store_int32(y, row, static_cast<std::int32_t>(result));
}

}  // namespace

void argmax_check(const Call& call, const DeviceInfo&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  call.output("y");
}
std::string_view argmax_block_name(const Call&) { return "argmax_block"; }
std::string argmax_block_contract(const Call&, const DeviceInfo&) { return ""; }
void argmax_block_run(Run& run) {
  const std::string_view dtype = run.call.text("dtype");
  const Planes x = run.memory.input_planes("x", dtype);
  argmax_block<<<static_cast<unsigned>(x.rows), kRowThreads>>>({x.payload, format_row(dtype).format.element},
                                                               run.memory.output("y"), x.length,
                                                               run.call.yes("checked"));
  run.launched("argmax_block");
}

}  // namespace assay_gpu
