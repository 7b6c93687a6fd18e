// The rows that need an NVIDIA GPU: its matrix units and its toolkit's conversions. None runs unless a
// variant names it.
#include <array>

#include "backends/cuda/matrix_ops.hpp"
#include "backends/gpu/ops.hpp"

namespace assay_gpu {
namespace {

const auto kMatrixKernels = std::to_array<Kernel>({
    ASSAY_GEMM_ROWS("mma_f16", gemm_mma_f16_kernel, never, never),
    ASSAY_GEMM_ROWS("mma_bf16", gemm_mma_bf16_kernel, never, never),
    ASSAY_GEMM_ROWS("mma_e4m3", gemm_mma_e4m3_kernel, never, never),
    ASSAY_GEMM_ROWS("mma_s8", gemm_mma_s8_kernel, never, never),
    ASSAY_GEMM_ROWS("wgmma_e4m3", gemm_wgmma_e4m3_kernel, never, never),
    ASSAY_GEMM_ROWS("wgmma_e4m3_p1", gemm_wgmma_e4m3_p1_kernel, never, never),
    ASSAY_GEMM_ROWS("wgmma_e4m3_p4", gemm_wgmma_e4m3_p4_kernel, never, never),
    ASSAY_GEMM_ROWS("wgmma_e4m3_p16", gemm_wgmma_e4m3_p16_kernel, never, never),
    ASSAY_REPLAY_ROWS("mma_f16_replay", gemm_mma_f16_kernel, false),
    ASSAY_REPLAY_ROWS("mma_bf16_replay", gemm_mma_bf16_kernel, false),
    ASSAY_REPLAY_ROWS("mma_e4m3_replay", gemm_mma_e4m3_kernel, false),
    ASSAY_REPLAY_ROWS("mma_s8_replay", gemm_mma_s8_kernel, false),
    ASSAY_REPLAY_ROWS("wgmma_e4m3_replay", gemm_wgmma_e4m3_kernel, false),
    ASSAY_REPLAY_ROWS("wgmma_e4m3_p1_replay", gemm_wgmma_e4m3_p1_kernel, false),
    ASSAY_REPLAY_ROWS("wgmma_e4m3_p4_replay", gemm_wgmma_e4m3_p4_kernel, false),
    ASSAY_REPLAY_ROWS("wgmma_e4m3_p16_replay", gemm_wgmma_e4m3_p16_kernel, false),
    ASSAY_REPLAY_ROWS("wgmma_e4m3_p4_with_p1", gemm_wgmma_e4m3_p4_with_p1_kernel, true),
    {"quantize", "toolkit", never, quantize_toolkit_check, quantize_toolkit_name, quantize_bits_contract,
     quantize_toolkit_run},
    {"dequantize", "toolkit", never, dequantize_toolkit_check, dequantize_toolkit_name,
     dequantize_bits_contract, dequantize_toolkit_run},
    {"requantize", "toolkit", never, requantize_toolkit_check, quantize_toolkit_name,
     requantize_bits_contract, requantize_toolkit_run},
    {"kv_write", "toolkit", never, kv_write_toolkit_check, quantize_toolkit_name, kv_write_bits_contract,
     kv_write_toolkit_run},
});

}  // namespace

std::span<const Kernel> matrix_kernels() { return kMatrixKernels; }

std::string_view matrix_generation(const DeviceInfo& device) {
  const int capability = device.major * 10 + device.minor;
  if (capability == 80) return "a100";
  if (capability == 89) return "ada";
  if (capability == 90) return "hopper";
  if (capability == 100) return "blackwell";
  throw Unsupported("how the matrix units of compute capability " + std::to_string(device.major) + "." +
                    std::to_string(device.minor) + " sum is not described");
}

void require_hopper(const DeviceInfo& device) {
  if (device.major != 9 || device.minor != 0)
    throw Unsupported("this kernel is for compute capability 9.0, not " + std::to_string(device.major) + "." +
                      std::to_string(device.minor));
}

}  // namespace assay_gpu
