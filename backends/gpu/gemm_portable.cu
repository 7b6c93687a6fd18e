// Products of prepared operands on any GPU: f32 by fused multiply-add, int8 by the four-way dot instruction.
// A block of 16 x 16 threads makes a tile of 64 x 64 outputs, 4 x 4 to a thread; sums run over ascending k.
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/operands.hpp"

namespace assay_gpu {
namespace {

constexpr int kTile = 64;
constexpr int kSide = 16;  // threads of a block's side
constexpr int kPer = kTile / kSide;
constexpr int kStep = 16;  // 4-byte words of a row per round

struct FusedMultiplyAdd {
  using Word = float;
  using Sum = float;
  static constexpr int kElements = 1;  // of a word
  __device__ static Sum add(Word a, Word b, Sum c) { return fmaf(a, b, c); }
};
struct DotOfFour {
  using Word = int;
  using Sum = int;
  static constexpr int kElements = 4;
  __device__ static Sum add(Word a, Word b, Sum c) { return dot4(a, b, c); }
};

template <class Unit>
__device__ void gemm_tile(const Gemm& g) {
  using Word = typename Unit::Word;
  __shared__ Word a[kTile][kStep + 1];
  __shared__ Word b[kTile][kStep + 1];
  const int row0 = static_cast<int>(blockIdx.y) * kTile;
  const int column0 = static_cast<int>(blockIdx.x) * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int ty = thread / kSide;
  const int tx = thread % kSide;
  const int words = g.k / Unit::kElements;
  const Word* left = static_cast<const Word*>(g.a);
  const Word* right = static_cast<const Word*>(g.b);
  typename Unit::Sum sum[kPer][kPer] = {};
  for (int first = 0; first < words; first += kStep) {
    for (int i = thread; i < kTile * kStep; i += kSide * kSide) {
      const int r = i / kStep;
      const int w = i % kStep;
      const std::int64_t at = first + w;
      a[r][w] = row0 + r < g.m ? left[static_cast<std::int64_t>(row0 + r) * words + at] : Word{};
      b[r][w] = column0 + r < g.n ? right[static_cast<std::int64_t>(column0 + r) * words + at] : Word{};
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kStep; ++w) {
      for (int i = 0; i < kPer; ++i) {
        for (int j = 0; j < kPer; ++j)
          sum[i][j] = Unit::add(a[ty * kPer + i][w], b[tx + kSide * j][w], sum[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPer; ++i) {
    for (int j = 0; j < kPer; ++j) {
      const int row = row0 + ty * kPer + i;
      const int column = column0 + tx + kSide * j;
      if (row < g.m && column < g.n)
        g.out[static_cast<std::int64_t>(row) * g.n + column] = static_cast<float>(sum[i][j]);
    }
  }
}

__global__ void gemm_fma_f32(const GPU_GRID_CONSTANT Gemm g) { gemm_tile<FusedMultiplyAdd>(g); }
__global__ void gemm_dot4_s8(const GPU_GRID_CONSTANT Gemm g) { gemm_tile<DotOfFour>(g); }

dim3 grid_of(const Gemm& g) {
  return dim3(static_cast<unsigned>((g.n + kTile - 1) / kTile),
              static_cast<unsigned>((g.m + kTile - 1) / kTile));
}

const GemmKernel kF32 = {"gemm_fma_f32",
                         Stored::f32,
                         false,
                         [](Path) { return true; },
                         nullptr,
                         [](const DeviceInfo&) { return std::string("acc=f32 order=sequential"); },
                         [](Run&, const Gemm& g) { gemm_fma_f32<<<grid_of(g), kSide * kSide>>>(g); },
                         [](const DeviceInfo&) { return std::string("acc:f32/fma:yes"); }};
const GemmKernel kDp4a = {"gemm_dot4_s8",
                          Stored::byte,
                          true,
                          [](Path path) { return path == Path::codes; },
                          nullptr,
                          [](const DeviceInfo&) { return std::string("acc=i32"); },
                          [](Run&, const Gemm& g) { gemm_dot4_s8<<<grid_of(g), kSide * kSide>>>(g); },
                          [](const DeviceInfo&) { return std::string("acc:i32"); }};

}  // namespace

const GemmKernel& gemm_f32() { return kF32; }
const GemmKernel& gemm_dp4a() { return kDp4a; }

}  // namespace assay_gpu
