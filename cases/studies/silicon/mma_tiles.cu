// Tiles by mma.sync.m16n8: each of four warps forms 16 rows, operands straight from global memory.
#include <cuda_runtime.h>

#include "cases/studies/silicon/fragments.cuh"

namespace assay::silicon {
namespace {

#define ASSAY_MMA_F32(NAME, TYPES)                                                                   \
  struct NAME {                                                                                      \
    static constexpr int kBytes = 4;                                                                 \
    static __device__ void apply(std::uint32_t* d, const std::uint32_t* a, const std::uint32_t* b) { \
      asm volatile("mma.sync.aligned." TYPES                                                         \
                   " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"              \
                   : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                  \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));              \
    }                                                                                                \
  }
#define ASSAY_MMA_F16(NAME, TYPES)                                                                   \
  struct NAME {                                                                                      \
    static constexpr int kBytes = 2;                                                                 \
    static __device__ void apply(std::uint32_t* d, const std::uint32_t* a, const std::uint32_t* b) { \
      asm volatile("mma.sync.aligned." TYPES " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};\n"    \
                   : "+r"(d[0]), "+r"(d[1])                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));              \
    }                                                                                                \
  }

ASSAY_MMA_F32(F16, "m16n8k16.row.col.f32.f16.f16.f32");
ASSAY_MMA_F16(F16Out, "m16n8k16.row.col.f16.f16.f16.f16");
ASSAY_MMA_F32(Bf16, "m16n8k16.row.col.f32.bf16.bf16.f32");
ASSAY_MMA_F32(E4m3E4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32");
ASSAY_MMA_F32(E4m3E5m2, "m16n8k32.row.col.f32.e4m3.e5m2.f32");
ASSAY_MMA_F32(E5m2E4m3, "m16n8k32.row.col.f32.e5m2.e4m3.f32");
ASSAY_MMA_F32(E5m2E5m2, "m16n8k32.row.col.f32.e5m2.e5m2.f32");
ASSAY_MMA_F16(E4m3E4m3F16, "m16n8k32.row.col.f16.e4m3.e4m3.f16");
ASSAY_MMA_F16(E4m3E5m2F16, "m16n8k32.row.col.f16.e4m3.e5m2.f16");
ASSAY_MMA_F16(E5m2E4m3F16, "m16n8k32.row.col.f16.e5m2.e4m3.f16");
ASSAY_MMA_F16(E5m2E5m2F16, "m16n8k32.row.col.f16.e5m2.e5m2.f16");
ASSAY_MMA_F32(Tf32, "m16n8k8.row.col.f32.tf32.tf32.f32");

template <class Mma>
__global__ void __launch_bounds__(kThreads) mma_tiles(TileArguments t) {
  constexpr std::size_t kOut = std::size_t{kTileSide} * kTileSide * Mma::kBytes;
  constexpr int kPer = Accumulators<Mma::kBytes>::kPerGroup;
  const std::size_t row_words = static_cast<std::size_t>(t.steps) * kStepWords;
  const int lane = threadIdx.x % 32;
  for (int tile = blockIdx.x; tile < t.tiles; tile += gridDim.x) {
    const std::uint32_t* a =
        t.a + (static_cast<std::size_t>(tile) * kTileSide + threadIdx.x / 32 * 16 + lane / 4) * row_words +
        lane % 4;
    const std::uint32_t* b =
        t.b + (static_cast<std::size_t>(tile) * kTileSide + lane / 4) * row_words + lane % 4;
    Accumulators<Mma::kBytes> acc;
    acc.load(t.c + tile * kOut);
    for (int step = 0; step < t.steps; ++step, a += kStepWords, b += kStepWords) {
      const std::uint32_t x[4] = {a[0], a[8 * row_words], a[4], a[8 * row_words + 4]};
#pragma unroll
      for (int j = 0; j < kColumnGroups; ++j) {
        const std::uint32_t y[2] = {b[8 * j * row_words], b[8 * j * row_words + 4]};
        Mma::apply(acc.word + kPer * j, x, y);
      }
    }
    acc.store(t.d + tile * kOut);
  }
}

template <class Mma>
bool launch(const TileArguments& t, void* stream) {
  mma_tiles<Mma><<<t.tiles, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(t);
  return true;
}

}  // namespace

bool launch_mma(Opcode opcode, const TileArguments& t, void* stream) {
  switch (opcode) {
    case Opcode::mma_f16:
      return launch<F16>(t, stream);
    case Opcode::mma_f16_f16out:
      return launch<F16Out>(t, stream);
    case Opcode::mma_bf16:
      return launch<Bf16>(t, stream);
    case Opcode::mma_tf32:
      return launch<Tf32>(t, stream);
    case Opcode::mma_e4m3_e4m3:
      return launch<E4m3E4m3>(t, stream);
    case Opcode::mma_e4m3_e5m2:
      return launch<E4m3E5m2>(t, stream);
    case Opcode::mma_e5m2_e4m3:
      return launch<E5m2E4m3>(t, stream);
    case Opcode::mma_e5m2_e5m2:
      return launch<E5m2E5m2>(t, stream);
    case Opcode::mma_e4m3_e4m3_f16out:
      return launch<E4m3E4m3F16>(t, stream);
    case Opcode::mma_e4m3_e5m2_f16out:
      return launch<E4m3E5m2F16>(t, stream);
    case Opcode::mma_e5m2_e4m3_f16out:
      return launch<E5m2E4m3F16>(t, stream);
    case Opcode::mma_e5m2_e5m2_f16out:
      return launch<E5m2E5m2F16>(t, stream);
    default:
      return false;
  }
}

}  // namespace assay::silicon
