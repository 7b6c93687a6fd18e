// softmax:   y = softmax(cap(x / temperature)) along the last axis;  cap(s) = softcap * tanh(s / softcap)
//            A sink is one more logit of the denominator. A block per row, in f32: maximum, sum of
//            exponentials, then exponential times 1 / sum.
// logsumexp: y = max + log(sum exp(x - max))
#include "backends/gpu/formats.hpp"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/ops.hpp"
#include "backends/gpu/rows.cuh"

namespace assay_gpu {
namespace {

struct SoftmaxArgs {
  RowTensor x, y;
  View mask, sinks;  // no data: none
  std::int64_t rows, cols;
  float temperature, softcap;
  bool causal;
};

__device__ bool visible(const SoftmaxArgs& a, std::int64_t row, std::int64_t column) {
  if (a.causal && column > a.cols - a.rows + row) return false;
  return a.mask.data == nullptr || load_int8(a.mask, row * a.cols + column) != 0;
}

__device__ float logit(const SoftmaxArgs& a, const unsigned char* row, std::int64_t column) {
  float s = load_value(a.x.dtype, row, column);
  if (a.temperature != 1.0F) s /= a.temperature;
  if (a.softcap > 0) s = a.softcap * tanhf(s / a.softcap);
  return s;
}

__global__ void softmax_block(const GPU_GRID_CONSTANT SoftmaxArgs a) {
  __shared__ float slots[kRowThreads / kWarp];
  const std::int64_t row = blockIdx.x;
  const unsigned char* x = a.x.view.data + row_offset(a.x.view, row);
  unsigned char* y = a.y.view.data + row_offset(a.y.view, row);
  float top = Max::identity();
  float seen = 0;
  for (std::int64_t i = threadIdx.x; i < a.cols; i += kRowThreads) {
    if (!visible(a, row, i)) continue;
    seen = 1;
    top = Max()(top, logit(a, x, i));
  }
  top = block_reduce(top, Max(), slots);
  seen = block_reduce(seen, Max(), slots);
  const float sink = a.sinks.data == nullptr ? Max::identity() : load_f32(a.sinks, row);
  top = Max()(top, sink);
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.cols; i += kRowThreads) {
    if (visible(a, row, i)) sum += expf(logit(a, x, i) - top);
  }
  sum = block_reduce(sum, Sum(), slots);
  if (a.sinks.data != nullptr) sum += expf(sink - top);
  const float factor = 1.0F / sum;
  for (std::int64_t i = threadIdx.x; i < a.cols; i += kRowThreads) {
    // A masked logit weighs 0; 0 / sum, so that a NaN in a row poisons all of it. A row that sees nothing is
    // 0.
    float value = seen > 0 ? 0.0F / sum : 0.0F;
    if (visible(a, row, i)) value = expf(logit(a, x, i) - top) * factor;
    store_value(a.y.dtype, y, i, value);
  }
}

__global__ void logsumexp_block(const GPU_GRID_CONSTANT RowTensor x, const GPU_GRID_CONSTANT View y,
                                std::int64_t cols) {
  __shared__ float slots[kRowThreads / kWarp];
  const std::int64_t row = blockIdx.x;
  const unsigned char* from = x.view.data + row_offset(x.view, row);
  float top = Max::identity();
  for (std::int64_t i = threadIdx.x; i < cols; i += kRowThreads)
    top = Max()(top, load_value(x.dtype, from, i));
  top = block_reduce(top, Max(), slots);
  // Without a finite maximum there is nothing to shift by: -inf, +inf and NaN come out of the sum of exp(x)
  // itself.
  const float shift = is_finite(top) ? top : 0.0F;
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < cols; i += kRowThreads)
    sum += expf(load_value(x.dtype, from, i) - shift);
  sum = block_reduce(sum, Sum(), slots);
  if (threadIdx.x == 0) store_f32(y, row, shift + logf(sum));
}

}  // namespace

void softmax_check(const Call& call, const DeviceInfo&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  check_writable(call, "y", call.text("dtype"));
  if (call.text("mask") == "random") call.input("mask");
  if (call.yes("sinks")) call.input("sinks");
}
std::string_view softmax_block_name(const Call&) { return "softmax_block"; }
std::string softmax_block_contract(const Call& call, const DeviceInfo&) {
  std::string contract = "acc=f32 " + row_order(call.integer("cols"), call.yes("sinks") ? 1 : 0) +
                         " exp=e exp_ulp=" + kExpUlp + " div_ulp=1";
  if (call.real("softcap") > 0) contract += std::string(" tanh_ulp=") + kTanhUlp;
  return contract;
}
void softmax_block_run(Run& run) {
  const Call& call = run.call;
  const Element dtype = format_row(call.text("dtype")).format.element;
  const Planes x = run.memory.input_planes("x", call.text("dtype"));
  SoftmaxArgs args{{x.payload, dtype},
                   {run.memory.output("y"), dtype},
                   call.text("mask") == "random" ? run.memory.input("mask") : View(),
                   call.yes("sinks") ? run.memory.input("sinks") : View(),
                   x.rows,
                   x.length,
                   static_cast<float>(call.real("temperature")),
                   static_cast<float>(call.real("softcap")),
                   call.text("mask") == "causal"};
  softmax_block<<<static_cast<unsigned>(x.rows), kRowThreads>>>(args);
  run.launched("softmax_block");
}

void logsumexp_check(const Call& call, const DeviceInfo&) {
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  call.output("y");
}
std::string_view logsumexp_block_name(const Call&) { return "logsumexp_block"; }
std::string logsumexp_block_contract(const Call& call, const DeviceInfo&) {
  return "acc=f32 " + row_order(call.integer("cols")) + " exp=e exp_ulp=" + kExpUlp + " log_ulp=" + kLogUlp;
}
void logsumexp_block_run(Run& run) {
  const std::string_view dtype = run.call.text("dtype");
  const Planes x = run.memory.input_planes("x", dtype);
  logsumexp_block<<<static_cast<unsigned>(x.rows), kRowThreads>>>(
      {x.payload, format_row(dtype).format.element}, run.memory.output("y"), x.length);
  run.launched("logsumexp_block");
}

}  // namespace assay_gpu
