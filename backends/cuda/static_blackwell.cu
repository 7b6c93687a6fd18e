// For the check that a kernel contains the instruction that its contract is about, on the Blackwell of
// workstations (sm_120) and of GB10 (sm_121), neither of which was had: what is compiled for them is looked
// at, and nothing runs. Their FP4 product, with one scale in E4M3 for 16 numbers (NVFP4), is known to a
// target that names the one GPU, sm_120a or sm_121a, and to none other: a kernel for more GPUs asks which one
// it is compiled for, and a check that names sm_120 alone sends GB10 to the bf16 path without a word (vLLM
// #31085).
#include "backends/cuda/mma.cuh"
#include "backends/cuda/mma_bytes.cuh"
#include "backends/gpu/gpu_runtime.hpp"

namespace assay_gpu {

struct Fragments {
  float c[4];
  std::uint32_t a[4], b[2], scale_a, scale_b;
};

#if defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)
constexpr bool kIsWorkstationBlackwell = true;
// C += (scale_a A) (scale_b B), A 16 x 64 and B 64 x 8 in e2m1.
__device__ inline void fp4_mma(Fragments& f) {
  asm volatile(
      "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {0,0}, {%11}, {0,0};"
      : "+f"(f.c[0]), "+f"(f.c[1]), "+f"(f.c[2]), "+f"(f.c[3])
      : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]), "r"(f.scale_a),
        "r"(f.scale_b));
}
#else
constexpr bool kIsWorkstationBlackwell = false;
__device__ inline void fp4_mma(Fragments&) {}
#endif

#if defined(__CUDA_ARCH_FEAT_SM120_ALL)
constexpr bool kIsSm120 = true;
#else
constexpr bool kIsSm120 = false;
#endif

template <bool kHasFp4>
__device__ inline void product(Fragments* f) {
  if constexpr (kHasFp4)
    fp4_mma(*f);
  else
    BfloatUnit::mma(f->c, f->a, f->b[0], f->b[1]);
}

__global__ void blackwell_fp4(Fragments* f) { product<kIsWorkstationBlackwell>(f); }

// The defect: the check names one GPU of the family.
__global__ void blackwell_fp4_one_family(Fragments* f) { product<kIsSm120>(f); }

__global__ void blackwell_e4m3(Fragments* f) { E4m3Unit::mma(f->c, f->a, f->b[0], f->b[1]); }

}  // namespace assay_gpu
