// out[m][n] = sum_k a[m][k] b[n][k] on a matrix unit, one wave per block: 16 rows of a by 64 of b, one chain
// of instructions over ascending k for each 16 x 16. Operands lie as the preparation left them: rows dense
// and padded with zeros to a multiple of 128 elements, so that no k needs a bound.
#pragma once

#include "backends/gpu/operands.hpp"
#include "backends/hip/units.hpp"

namespace assay_gpu {

inline constexpr int kUnitBlock = 16;
inline constexpr int kUnitColumns = 4;  // blocks of b's rows that a wave holds

template <class Layout>
__device__ inline Fragment<Layout> operand_at(const void* rows, int row, int count, int k, int at) {
  using Code = typename Layout::Code;
  Fragment<Layout> f{};
  if (row < count) {
    const Code* from = static_cast<const Code*>(rows) + static_cast<std::int64_t>(row) * k + at;
    __builtin_memcpy(f.code, __builtin_assume_aligned(from, sizeof f.code), sizeof f.code);
  }
  return f;
}

// Inlined by force, as the attention kernels are: outlined it would lose its registers to a call.
template <class Unit>
__device__ __attribute__((always_inline)) inline void multiply_on_unit(const Gemm& g) {
  using Layout = typename Unit::Layout;
  const int lane = static_cast<int>(threadIdx.x), k0 = Layout::first_k(lane);
  const int row0 = static_cast<int>(blockIdx.y) * kUnitBlock;
  const int column0 = static_cast<int>(blockIdx.x) * kUnitBlock * kUnitColumns;
  typename Unit::Acc sum[kUnitColumns] = {};
  for (int k = 0; k < g.k; k += Layout::kDepth) {
    const Fragment<Layout> a = operand_at<Layout>(g.a, row0 + lane % kUnitBlock, g.m, g.k, k + k0);
#pragma unroll
    for (int c = 0; c < kUnitColumns; ++c)
      Unit::mma(a, operand_at<Layout>(g.b, column0 + c * kUnitBlock + lane % kUnitBlock, g.n, g.k, k + k0),
                sum[c]);
  }
  for (int c = 0; c < kUnitColumns; ++c) {
    for (int i = 0; i < Layout::kResults; ++i) {
      const int row = row0 + Layout::row_of(lane, i), column = column0 + c * kUnitBlock + lane % kUnitBlock;
      if (row < g.m && column < g.n)
        g.out[static_cast<std::int64_t>(row) * g.n + column] = static_cast<float>(sum[c].value[i]);
    }
  }
}

}  // namespace assay_gpu
