// Warp-level matrix instructions of NVIDIA GPUs in PTX, with the layout of their operands. lane = 4 g + t.
//   A 16 x 16  a[0] (row g, k 2t..2t+1), a[1] (row g+8, k 2t..), a[2] (row g, k 2t+8..), a[3] (row g+8, k
//              2t+8..)
//   B 16 x 8   b[0] (k 2t..2t+1, column g), b[1] (k 2t+8.., column g)
//   C 16 x 8   c[0..1] (row g, columns 2t..2t+1), c[2..3] (row g+8, the same)
// The element with the smaller k, or the smaller column, is in the low half.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace assay_gpu {

struct HalfUnit {  // f16 operands
  static __device__ void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ std::uint32_t pack(float low, float high) {
    std::uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static __device__ float widen(std::uint32_t code) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(code)));
  }
  static constexpr std::uint32_t kExponent = 0x7C00;
};

struct BfloatUnit {  // bf16 operands
  static __device__ void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ std::uint32_t pack(float low, float high) {
    std::uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static __device__ float widen(std::uint32_t code) { return __uint_as_float(code << 16); }
  static constexpr std::uint32_t kExponent = 0x7F80;
};

// 2^x within 2^-22 of itself, results below 2^-126 are 0 (PTX: ex2.approx).
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Transposes an 8 x 8 matrix of 16-bit elements, a row of which lies in four lanes.
__device__ inline std::uint32_t transpose_8x8(std::uint32_t x) {
  std::uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

}  // namespace assay_gpu
