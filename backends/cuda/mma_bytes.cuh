// Warp-level matrix instructions of NVIDIA GPUs on bytes, beside those of mma.cuh on 16-bit floats: e4m3fn
// into f32, int8 into int32. lane = 4 g + t:
//   A 16 x 32  bytes 4 t .. 4 t + 3 of rows g and g + 8, then bytes 16 + 4 t .. of the same
//   B  8 x 32  bytes 4 t .. and 16 + 4 t .. of row g
#pragma once

#include <cstdint>

namespace assay_gpu {

struct E4m3Unit {
  using Sum = float;
  static __device__ void mma(Sum (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 890
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    __trap();  // check() refuses such a device
#endif
  }
};

struct Int8Unit {
  using Sum = int;
  static __device__ void mma(Sum (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

}  // namespace assay_gpu
