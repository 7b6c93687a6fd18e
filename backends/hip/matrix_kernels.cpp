// Products and mixtures of experts on AMD's matrix units. Only a variant selects them.
#include <array>

#include "backends/hip/unit_kernels.hpp"

namespace assay_gpu {

std::span<const Kernel> matrix_kernels() {
  static const auto rows = std::to_array<Kernel>({
#ifndef ASSAY_HIP_ON_NVIDIA
      ASSAY_GEMM_ROWS("mfma_i8", gemm_mfma_i8, never, never),
      ASSAY_GEMM_ROWS("mfma_fp8", gemm_mfma_fp8, never, never),
      ASSAY_GEMM_ROWS("mfma_bf16", gemm_mfma_bf16, never, never),
      ASSAY_GEMM_ROWS("wmma_fp8", gemm_wmma_fp8, never, never),
      ASSAY_GEMM_ROWS("wmma_bf16", gemm_wmma_bf16, never, never),
#endif
      ASSAY_GEMM_ROWS("decoded_fp8", gemm_decoded_fp8, never, never),
      ASSAY_GEMM_ROWS("decoded_bf16", gemm_decoded_bf16, never, never),
  });
  return rows;
}

}  // namespace assay_gpu
