// Warpgroup matrix instructions of Hopper on e4m3, in PTX: 64 rows, 32 products fused, f32 registers.
//
// Operands in shared memory are K-major without swizzle: core matrices of 8 rows x 16 bytes, 128 contiguous
// bytes each; core matrices of neighbouring rows follow each other, those of the next 16 bytes of k are
// `stride` bytes further on:
//   stride               = rows * 16
//   byte of row r and k  = k / 16 * stride + r * 16 + k % 16
//
// Registers of lane = 4 g + t of warp w, low byte first:
//   C   c[4 n .. 4 n + 1]      row 16 w + g,      columns 8 n + 2t, +1
//       c[4 n + 2 .. 4 n + 3]  row 16 w + g + 8,  the same columns
//   A   a[0], a[1]             rows 16 w + g and 16 w + g + 8,  k 4t .. 4t + 3
//       a[2], a[3]             the same rows, k + 16
#pragma once

#include <cstdint>

namespace assay_gpu {

__device__ inline std::uint64_t matrix_descriptor(const void* shared, std::uint32_t stride) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  std::uint64_t d = (at >> 4) & 0x3FFF;
  d |= static_cast<std::uint64_t>(stride >> 4 & 0x3FFF) << 16;  // leading: to the next 16 bytes of k
  d |= static_cast<std::uint64_t>(128 >> 4) << 32;              // stride: to the next 8 rows
  return d;
}

__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_end() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Between a thread's ordinary stores to shared memory and the barrier before the matrix unit reads them.
__device__ inline void publish_to_wgmma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The compiler does not know that the unit works on registers until the wait: what it computes before
// wgmma_begin() and after wgmma_end() from registers of a product must be pinned there.
template <int kCount>
__device__ inline void pin(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int kCount>
__device__ inline void pin(std::uint32_t (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(x[i])::"memory");
}

// clang-format off
#define ASSAY_R8(a, i) "+f"(a[i]), "+f"(a[i + 1]), "+f"(a[i + 2]), "+f"(a[i + 3]), "+f"(a[i + 4]), "+f"(a[i + 5]), "+f"(a[i + 6]), "+f"(a[i + 7])
#define ASSAY_N32 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define ASSAY_N64 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
                  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
// clang-format on

// c = (keep ? c : 0) + a b: 64 x 128 (or 64 x 64) x 32, both operands in shared memory.
__device__ inline void wgmma_e4m3(float (&c)[64], std::uint64_t a, std::uint64_t b, bool keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " ASSAY_N64 ", %64, %65, p, 1, 1; }"
      : ASSAY_R8(c, 0), ASSAY_R8(c, 8), ASSAY_R8(c, 16), ASSAY_R8(c, 24), ASSAY_R8(c, 32), ASSAY_R8(c, 40),
        ASSAY_R8(c, 48), ASSAY_R8(c, 56)
      : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
}
// The same with A in registers.
__device__ inline void wgmma_e4m3(float (&c)[64], const std::uint32_t (&a)[4], std::uint64_t b, bool keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %69, 0;"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " ASSAY_N64
      ", {%64,%65,%66,%67}, %68, p, 1, 1; }"
      : ASSAY_R8(c, 0), ASSAY_R8(c, 8), ASSAY_R8(c, 16), ASSAY_R8(c, 24), ASSAY_R8(c, 32), ASSAY_R8(c, 40),
        ASSAY_R8(c, 48), ASSAY_R8(c, 56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(keep)));
}
__device__ inline void wgmma_e4m3(float (&c)[32], const std::uint32_t (&a)[4], std::uint64_t b, bool keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 " ASSAY_N32 ", {%32,%33,%34,%35}, %36, p, 1, 1; }"
      : ASSAY_R8(c, 0), ASSAY_R8(c, 8), ASSAY_R8(c, 16), ASSAY_R8(c, 24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(keep)));
}
#undef ASSAY_R8
#undef ASSAY_N32
#undef ASSAY_N64

}  // namespace assay_gpu
