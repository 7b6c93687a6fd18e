// Tiles by wgmma.mma_async.m64n64: one warpgroup, both operands in shared memory, no swizzle.
//
// Without swizzle an operand is a grid of core matrices of 8 rows by 16 bytes, 128 contiguous bytes each.
// Here the two core matrices of a step of 32 bytes lie side by side (leading offset 128) and the next 8 rows
// follow (stride 256).
#include <cuda_runtime.h>

#include "cases/studies/silicon/fragments.cuh"

namespace assay::silicon {
namespace {

#define ASSAY_D16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define ASSAY_D32 ASSAY_D16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ASSAY_IO8(d, i)                                                                       \
  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), \
      "+r"(d[i + 6]), "+r"(d[i + 7])
#define ASSAY_IO16(d, i) ASSAY_IO8(d, i), ASSAY_IO8(d, i + 8)

// TAIL: scale-d (a predicate that is set), then the signs of A and B, then, for 16-bit operands, their
// majorness.
#define ASSAY_WGMMA_F32(NAME, TYPES, TAIL)                                                                  \
  struct NAME {                                                                                             \
    static constexpr int kBytes = 4;                                                                        \
    static __device__ void apply(std::uint32_t (&d)[32], std::uint64_t a, std::uint64_t b) {                \
      asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned." TYPES " {" ASSAY_D32 \
                   "}, %32, %33, p" TAIL ";}\n"                                                             \
                   : ASSAY_IO16(d, 0), ASSAY_IO16(d, 16)                                                    \
                   : "l"(a), "l"(b));                                                                       \
    }                                                                                                       \
  }
#define ASSAY_WGMMA_F16(NAME, TYPES, TAIL)                                                                  \
  struct NAME {                                                                                             \
    static constexpr int kBytes = 2;                                                                        \
    static __device__ void apply(std::uint32_t (&d)[16], std::uint64_t a, std::uint64_t b) {                \
      asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned." TYPES " {" ASSAY_D16 \
                   "}, %16, %17, p" TAIL ";}\n"                                                             \
                   : ASSAY_IO16(d, 0)                                                                       \
                   : "l"(a), "l"(b));                                                                       \
    }                                                                                                       \
  }

ASSAY_WGMMA_F32(F16, "m64n64k16.f32.f16.f16", ", 1, 1, 0, 0");
ASSAY_WGMMA_F16(F16Out, "m64n64k16.f16.f16.f16", ", 1, 1, 0, 0");
ASSAY_WGMMA_F32(Bf16, "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 0");
ASSAY_WGMMA_F32(Tf32, "m64n64k8.f32.tf32.tf32", ", 1, 1");
ASSAY_WGMMA_F32(E4m3E4m3, "m64n64k32.f32.e4m3.e4m3", ", 1, 1");
ASSAY_WGMMA_F32(E4m3E5m2, "m64n64k32.f32.e4m3.e5m2", ", 1, 1");
ASSAY_WGMMA_F32(E5m2E4m3, "m64n64k32.f32.e5m2.e4m3", ", 1, 1");
ASSAY_WGMMA_F32(E5m2E5m2, "m64n64k32.f32.e5m2.e5m2", ", 1, 1");
ASSAY_WGMMA_F16(E4m3E4m3F16, "m64n64k32.f16.e4m3.e4m3", ", 1, 1");
ASSAY_WGMMA_F16(E4m3E5m2F16, "m64n64k32.f16.e4m3.e5m2", ", 1, 1");
ASSAY_WGMMA_F16(E5m2E4m3F16, "m64n64k32.f16.e5m2.e4m3", ", 1, 1");
ASSAY_WGMMA_F16(E5m2E5m2F16, "m64n64k32.f16.e5m2.e5m2", ", 1, 1");

constexpr int kStage = 4;  // instructions in flight on one accumulator, as kernels issue them
constexpr std::uint32_t kLeadingBytes = 128;
constexpr std::uint32_t kStrideBytes = 256;

__device__ std::uint64_t descriptor(const void* shared) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  return (static_cast<std::uint64_t>((address & 0x3ffff) >> 4)) |
         (static_cast<std::uint64_t>(kLeadingBytes >> 4) << 16) |
         (static_cast<std::uint64_t>(kStrideBytes >> 4) << 32);
}

// 64 rows of 32 bytes from global memory into core matrices: one 16-byte piece a thread.
__device__ void place(char* shared, const std::uint32_t* rows, std::size_t row_words) {
  const int row = threadIdx.x / 2;
  const int half = threadIdx.x % 2;
  const uint4 piece = *reinterpret_cast<const uint4*>(rows + row * row_words + 4 * half);
  *reinterpret_cast<uint4*>(shared + row / 8 * kStrideBytes + half * kLeadingBytes + row % 8 * 16) = piece;
}

__device__ void begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ void end() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
}

template <class Mma>
__global__ void __launch_bounds__(kThreads) wgmma_tiles(TileArguments t) {
  constexpr std::size_t kOut = std::size_t{kTileSide} * kTileSide * Mma::kBytes;
  constexpr int kStepShared = kTileSide * kStepBytes;
  __shared__ alignas(1024) char a_shared[kStage * kStepShared];
  __shared__ alignas(1024) char b_shared[kStage * kStepShared];
  const std::size_t row_words = static_cast<std::size_t>(t.steps) * kStepWords;
  for (int tile = blockIdx.x; tile < t.tiles; tile += gridDim.x) {
    const std::uint32_t* a = t.a + static_cast<std::size_t>(tile) * kTileSide * row_words;
    const std::uint32_t* b = t.b + static_cast<std::size_t>(tile) * kTileSide * row_words;
    Accumulators<Mma::kBytes> acc;
    acc.load(t.c + tile * kOut);
    for (int step = 0; step < t.steps; step += kStage, a += kStage * kStepWords, b += kStage * kStepWords) {
      const int n = min(kStage, t.steps - step);
      for (int i = 0; i < n; ++i) {
        place(a_shared + i * kStepShared, a + i * kStepWords, row_words);
        place(b_shared + i * kStepShared, b + i * kStepWords, row_words);
      }
      // Ordinary stores, then the tensor core's reads.
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
      __syncthreads();
      const auto multiply = [&](int i) {
        Mma::apply(acc.word, descriptor(a_shared + i * kStepShared), descriptor(b_shared + i * kStepShared));
      };
      // From the fence to the wait without a branch: else ptxas puts fences of its own between, and says so
      // (C7519).
      if (n == kStage) {
        begin();
#pragma unroll
        for (int i = 0; i < kStage; ++i) multiply(i);
        end();
      } else {
#pragma unroll 1
        for (int i = 0; i < n; ++i) {
          begin();
          multiply(i);
          end();
        }
      }
      __syncthreads();
    }
    acc.store(t.d + tile * kOut);
  }
}

template <class Mma>
bool launch(const TileArguments& t, void* stream) {
  wgmma_tiles<Mma><<<t.tiles, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(t);
  return true;
}

}  // namespace

bool launch_wgmma(Opcode opcode, const TileArguments& t, void* stream) {
  switch (opcode) {
    case Opcode::wgmma_f16:
      return launch<F16>(t, stream);
    case Opcode::wgmma_f16_f16out:
      return launch<F16Out>(t, stream);
    case Opcode::wgmma_bf16:
      return launch<Bf16>(t, stream);
    case Opcode::wgmma_tf32:
      return launch<Tf32>(t, stream);
    case Opcode::wgmma_e4m3_e4m3:
      return launch<E4m3E4m3>(t, stream);
    case Opcode::wgmma_e4m3_e5m2:
      return launch<E4m3E5m2>(t, stream);
    case Opcode::wgmma_e5m2_e4m3:
      return launch<E5m2E4m3>(t, stream);
    case Opcode::wgmma_e5m2_e5m2:
      return launch<E5m2E5m2>(t, stream);
    case Opcode::wgmma_e4m3_e4m3_f16out:
      return launch<E4m3E4m3F16>(t, stream);
    case Opcode::wgmma_e4m3_e5m2_f16out:
      return launch<E4m3E5m2F16>(t, stream);
    case Opcode::wgmma_e5m2_e4m3_f16out:
      return launch<E5m2E4m3F16>(t, stream);
    case Opcode::wgmma_e5m2_e5m2_f16out:
      return launch<E5m2E5m2F16>(t, stream);
    default:
      return false;
  }
}

}  // namespace assay::silicon
