// Products by matrix units of NVIDIA GPUs, and the conversions of the toolkit.
#pragma once

#include "backends/gpu/operands.hpp"

namespace assay_gpu {

// "a100", "ada", "hopper", "blackwell": whose mma.sync of 16-bit floats sums how is known. Throws Unsupported
// for others.
std::string_view matrix_generation(const DeviceInfo& device);
void require_hopper(const DeviceInfo& device);

const GemmKernel& gemm_mma_f16_kernel();
const GemmKernel& gemm_mma_bf16_kernel();
const GemmKernel& gemm_mma_e4m3_kernel();
const GemmKernel& gemm_mma_s8_kernel();
// promote: none, and every 1, 4, 16 blocks of 32 elements.
const GemmKernel& gemm_wgmma_e4m3_kernel();
const GemmKernel& gemm_wgmma_e4m3_p1_kernel();
const GemmKernel& gemm_wgmma_e4m3_p4_kernel();
const GemmKernel& gemm_wgmma_e4m3_p16_kernel();
const GemmKernel&
gemm_wgmma_e4m3_p4_with_p1_kernel();  // a defect on purpose: declares every 4 and promotes every one

// quantize_toolkit.cu
void quantize_toolkit_check(const Call& call, const DeviceInfo& device);
void dequantize_toolkit_check(const Call& call, const DeviceInfo& device);
void requantize_toolkit_check(const Call& call, const DeviceInfo& device);
void kv_write_toolkit_check(const Call& call, const DeviceInfo& device);
std::string_view quantize_toolkit_name(const Call& call);
std::string_view dequantize_toolkit_name(const Call& call);
void quantize_toolkit_run(Run& run);
void dequantize_toolkit_run(Run& run);
void requantize_toolkit_run(Run& run);
void kv_write_toolkit_run(Run& run);

}  // namespace assay_gpu
