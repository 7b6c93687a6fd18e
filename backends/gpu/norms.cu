// layernorm: y = (x - mean) / sqrt(variance + eps) * gamma + beta per row, in f32. Kernels by their variance:
//   two_pass  mean of (x - mean)^2
//   one_pass  mean of x^2 less mean^2, held at 0
//   welford   running update
// rmsnorm: y = x / sqrt(mean of x^2 + eps) * gamma. A block per row.
#include "backends/gpu/formats.hpp"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/ops.hpp"
#include "backends/gpu/rows.cuh"

namespace assay_gpu {
namespace {

struct NormArgs {
  RowTensor x, y;
  View gamma, beta;
  std::int64_t cols;
  float eps;
};

struct Moments {
  float mean, variance;
};

__device__ float block_sum(const NormArgs& a, const unsigned char* x, float* slots) {
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.cols; i += kRowThreads) sum += load_value(a.x.dtype, x, i);
  return block_reduce(sum, Sum(), slots);
}

__device__ float block_sum_squares(const NormArgs& a, const unsigned char* x, float center, float* slots) {
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.cols; i += kRowThreads) {
    const float d = load_value(a.x.dtype, x, i) - center;
    sum += d * d;
  }
  return block_reduce(sum, Sum(), slots);
}

__device__ void normalise(const NormArgs& a, const unsigned char* x, std::int64_t row, const Moments& m) {
  unsigned char* y = a.y.view.data + row_offset(a.y.view, row);
  const float factor = 1.0F / sqrtf(m.variance + a.eps);
  for (std::int64_t i = threadIdx.x; i < a.cols; i += kRowThreads) {
    const float value = (load_value(a.x.dtype, x, i) - m.mean) * factor * load_f32(a.gamma, i);
    store_value(a.y.dtype, y, i, a.beta.data == nullptr ? value : value + load_f32(a.beta, i));
  }
}

__global__ void layernorm_two_pass(const GPU_GRID_CONSTANT NormArgs a) {
  __shared__ float slots[kRowThreads / kWarp];
  const unsigned char* x = a.x.view.data + row_offset(a.x.view, blockIdx.x);
  const float n = static_cast<float>(a.cols);
  const float mean = block_sum(a, x, slots) / n;
  normalise(a, x, blockIdx.x, {mean, block_sum_squares(a, x, mean, slots) / n});
}

__global__ void layernorm_one_pass(const GPU_GRID_CONSTANT NormArgs a) {
  __shared__ float slots[kRowThreads / kWarp];
  const unsigned char* x = a.x.view.data + row_offset(a.x.view, blockIdx.x);
  const float n = static_cast<float>(a.cols);
  const float mean = block_sum(a, x, slots) / n;
  const float variance = block_sum_squares(a, x, 0.0F, slots) / n - mean * mean;
  normalise(a, x, blockIdx.x, {mean, variance < 0 ? 0.0F : variance});  // cancellation; NaN stays NaN
}

// The update is sequential over the row: one thread makes it. (Merging partial moments has other roundings.)
__global__ void layernorm_welford(const GPU_GRID_CONSTANT NormArgs a) {
  __shared__ Moments moments;
  const unsigned char* x = a.x.view.data + row_offset(a.x.view, blockIdx.x);
  if (threadIdx.x == 0) {
    float mean = 0;
    float squares = 0;
    float count = 0;
    for (std::int64_t i = 0; i < a.cols; ++i) {
      const float value = load_value(a.x.dtype, x, i);
      count += 1;
      const float before = value - mean;
      mean += before / count;
      squares += before * (value - mean);
    }
    moments = {mean, squares / count};
  }
  __syncthreads();
  normalise(a, x, blockIdx.x, moments);
}

__global__ void rmsnorm_block(const GPU_GRID_CONSTANT NormArgs a) {
  __shared__ float slots[kRowThreads / kWarp];
  const unsigned char* x = a.x.view.data + row_offset(a.x.view, blockIdx.x);
  normalise(a, x, blockIdx.x, {0.0F, block_sum_squares(a, x, 0.0F, slots) / static_cast<float>(a.cols)});
}

template <class Kernel>
void run_norm(Run& run, Kernel kernel, const char* name, bool beta) {
  const std::string_view dtype = run.call.text("dtype");
  const Element element = format_row(dtype).format.element;
  const Planes x = run.memory.input_planes("x", dtype);
  const NormArgs args{{x.payload, element},
                      {run.memory.output("y"), element},
                      run.memory.input("gamma"),
                      beta ? run.memory.input("beta") : View(),
                      x.length,
                      static_cast<float>(run.call.real("eps"))};
  kernel<<<static_cast<unsigned>(x.rows), kRowThreads>>>(args);
  run.launched(name);
}

std::string contract_of(const std::string& variance, const Call& call) {
  return "variance=" + variance + " acc=f32 " +
         (variance == "welford" ? "order=sequential" : row_order(call.integer("cols"))) +
         " rsqrt_ulp=1 div_ulp=0.5 product=x_inv_gamma";
}

}  // namespace

void rmsnorm_check(const Call& call, const DeviceInfo&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  check_writable(call, "y", call.text("dtype"));
  check_readable(call, "gamma", "f32");
}
void layernorm_check(const Call& call, const DeviceInfo& device) {
  rmsnorm_check(call, device);
  check_readable(call, "beta", "f32");
}

#define ASSAY_VARIANCE(kind)                                                           \
  std::string_view layernorm_##kind##_name(const Call&) { return "layernorm_" #kind; } \
  std::string layernorm_##kind##_contract(const Call& call, const DeviceInfo&) {       \
    return contract_of(#kind, call);                                                   \
  }                                                                                    \
  void layernorm_##kind##_run(Run& run) { run_norm(run, layernorm_##kind, "layernorm_" #kind, true); }
ASSAY_VARIANCE(two_pass)
ASSAY_VARIANCE(one_pass)
ASSAY_VARIANCE(welford)
#undef ASSAY_VARIANCE

std::string_view rmsnorm_block_name(const Call&) { return "rmsnorm_block"; }
std::string rmsnorm_block_contract(const Call& call, const DeviceInfo&) {
  return "acc=f32 " + row_order(call.integer("cols")) + " rsqrt_ulp=1 div_ulp=0.5 product=x_inv_gamma";
}
void rmsnorm_block_run(Run& run) { run_norm(run, rmsnorm_block, "rmsnorm_block", false); }

}  // namespace assay_gpu
