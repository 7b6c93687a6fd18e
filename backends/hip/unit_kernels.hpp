// Kernels on AMD's matrix units, as the lists of kernels name them.
#pragma once

#include "backends/gpu/attention.hpp"
#include "backends/gpu/operands.hpp"

namespace assay_gpu {

// Which unit a device has, by the architecture that its driver names: gfx12 9.4 and so on. The host's half of
// architectures.hpp.
bool has_wmma_fp8(const DeviceInfo& device);   // gfx1200, gfx1201
bool has_wmma_f16(const DeviceInfo& device);   // gfx11
bool has_mfma_fp8(const DeviceInfo& device);   // gfx942
bool has_mfma_i8(const DeviceInfo& device);    // gfx90a, gfx942
bool has_mfma_bf16(const DeviceInfo& device);  // those

const GemmKernel& gemm_mfma_i8();
const GemmKernel& gemm_mfma_fp8();  // e4m3fnuz codes
const GemmKernel& gemm_mfma_bf16();
const GemmKernel& gemm_wmma_fp8();  // e4m3fn codes, and path=e4m3fn
const GemmKernel& gemm_wmma_bf16();
// The same loops with f32 arithmetic in the unit's place, on any device.
const GemmKernel& gemm_decoded_fp8();
const GemmKernel& gemm_decoded_bf16();

}  // namespace assay_gpu
