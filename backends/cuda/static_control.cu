// For the check that a kernel contains the instruction that its contract is about: live kernels where it must
// be found, and dead ones where the same source is compiled away and it must not be.
#include "backends/cuda/mma_bytes.cuh"
#include "backends/cuda/toolkit.cuh"
#include "backends/gpu/gpu_runtime.hpp"

namespace assay_gpu {

__device__ inline void multiply(float* out) {
  float c[4] = {out[0], out[1], out[2], out[3]};
  const std::uint32_t a[4] = {bits_of(out[4]), bits_of(out[5]), bits_of(out[6]), bits_of(out[7])};
  E4m3Unit::mma(c, a, bits_of(out[8]), bits_of(out[9]));
  for (int i = 0; i < 4; ++i) out[i] = c[i];
}

__global__ void control_live_mma(float* out) { multiply(out); }

__global__ void control_dead_mma(float* out) {
  if (kWarp != 32) multiply(out);  // a branch that is never compiled in
  out[0] = 1.0F;
}

__global__ void control_live_cvt(float* out) {
  out[0] = static_cast<float>(ToolkitCodes::encode(Element::e4m3fn, out[1]));
}

__global__ void control_dead_cvt(float* out) {
  const std::uint32_t unused = ToolkitCodes::encode(Element::e4m3fn, out[1]);  // a result that nobody reads
  out[0] = unused > 255 ? 1.0F : 2.0F;
}

}  // namespace assay_gpu
