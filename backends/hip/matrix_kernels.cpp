// The rows that need an AMD GPU's integer matrix unit: W4A8 and W8A8 products, and the mixture of experts
// made of them.
#include <array>

#include "backends/hip/unit_kernels.hpp"

namespace assay_gpu {

std::span<const Kernel> matrix_kernels() {
#ifdef ASSAY_HIP_ON_NVIDIA
  return {};
#else
  static const auto rows = std::to_array<Kernel>({ASSAY_GEMM_ROWS("mfma_i8", gemm_mfma_i8, never, never)});
  return rows;
#endif
}

}  // namespace assay_gpu
