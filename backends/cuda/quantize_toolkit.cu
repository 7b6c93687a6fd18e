// quantize, dequantize, requantize and kv_write by the toolkit's conversions: variant `toolkit`.
#include "backends/cuda/matrix_ops.hpp"
#include "backends/cuda/toolkit.cuh"
#include "backends/gpu/formats.hpp"
#include "backends/gpu/ops.hpp"
#include "backends/gpu/quantize.cuh"

namespace assay_gpu {
namespace {

__global__ void quantize_toolkit(const GPU_GRID_CONSTANT QuantizeArgs a) { quantize_units<ToolkitCodes>(a); }
__global__ void dequantize_toolkit(const GPU_GRID_CONSTANT Planes from,
                                   const GPU_GRID_CONSTANT RowTensor to) {
  dequantize_elements<ToolkitCodes>(from, to);
}

const Conversions kToolkit = {
    [](Run& run, const QuantizeArgs& args) {
      quantize_toolkit<<<blocks_of(args.from.rows * (args.to.length / args.to.format.unit)), kRowThreads>>>(
          args);
      run.launched("quantize_toolkit");
    },
    [](Run& run, const Planes& from, const RowTensor& to) {
      dequantize_toolkit<<<blocks_of(from.rows * from.length), kRowThreads>>>(from, to);
      run.launched("dequantize_toolkit");
    }};

void check_known(std::string_view name) {
  const Format& format = format_row(name).format;
  const bool is_inline = format.unit == 32 && format.block != Block::mx;
  if (is_inline || !ToolkitCodes::knows(format.element))
    throw Unsupported("the toolkit has no conversion for " + std::string(name));
}

}  // namespace

void quantize_toolkit_check(const Call& call, const DeviceInfo& device) {
  quantize_check(call, device);
  check_known(call.text("to"));
}
void dequantize_toolkit_check(const Call& call, const DeviceInfo& device) {
  dequantize_check(call, device);
  check_known(call.text("from"));
}
void requantize_toolkit_check(const Call& call, const DeviceInfo& device) {
  requantize_check(call, device);
  check_known(call.text("from"));
}
void kv_write_toolkit_check(const Call& call, const DeviceInfo& device) {
  kv_write_check(call, device);
  check_known(call.text("to"));
}
std::string_view quantize_toolkit_name(const Call&) { return "quantize_toolkit"; }
std::string_view dequantize_toolkit_name(const Call&) { return "dequantize_toolkit"; }
void quantize_toolkit_run(Run& run) { run_quantize(run, kToolkit); }
void dequantize_toolkit_run(Run& run) { run_dequantize(run, kToolkit); }
void requantize_toolkit_run(Run& run) { run_requantize(run, kToolkit); }
void kv_write_toolkit_run(Run& run) { run_kv_write(run, kToolkit); }

}  // namespace assay_gpu
