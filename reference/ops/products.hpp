// Products of fixed rows (a GEMM's activations) with one batch of weights after another: Dot (dot.hpp) for
// each pair, and where the contract declares the whole schedule of a matrix unit, its bits.
//
// Replay. acc names a unit whose model is no assumption, order=sequential says that blocks of g come in
// ascending k, and `promote` where the accumulator restarts. The operands are numbers of the unit's formats.
// Then fused_gemm computes what the kernel holds before its epilogue, and the enclosure of the accumulation
// is that number with error 0: no bound of truncation enters. With operands that are not decided the kernel
// holds one of several rows: when each of them is one of two neighbours, and at most kMostUndecided per row
// are, every combination is replayed and the enclosure is the hull of the results; a row with more of them
// falls back to the bound around the exact sum, which holds for every order. So does, with ftz=yes, a row
// with a number below 2^-126, which may have been flushed on its way to the unit, and a product of two rows
// whose sums, multiples of the last bits of both, may be that small: blocks are then added to another number.
// And of a unit that no hardware has confirmed, one whose sums may be subnormal, or whose zeros may lie
// beside so large a number that the least exponent, taken for a zero's, would align a block: published models
// differ there.
//
// With numbers, FP8 GEMM, k = 4096, unit gaussians, acc=hopper_fp8 promote=4, median limit / |value|: bounded
// 115 %, replayed 2 u = 1.2e-7, the roundings of the two scales.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/ops/dot.hpp"
#include "reference/parallel.hpp"

namespace assay {

inline constexpr std::size_t kMostUndecided = 3;  // 2^3 replays of a row at most
// Weights of one batch: what the lanes of fused_gemm share, and few enough to stay in cache.
inline constexpr std::int64_t kProductBatch = 64;
// f(first, count) for every batch of n weights.
template <typename F>
void parallel_batches(std::int64_t n, const F& f) {
  parallel_units(static_cast<std::size_t>((n + kProductBatch - 1) / kProductBatch), [&](std::size_t unit) {
    const std::int64_t first = static_cast<std::int64_t>(unit) * kProductBatch;
    f(first, std::min(kProductBatch, n - first));
  });
}

class Products {
 public:
  Products(const Dot& dot, std::vector<OperandRow> rows);
  ~Products();
  const std::vector<OperandRow>& rows() const { return rows_; }
  // Element [i * weights.size() + j] is of row i and weights j.
  std::vector<DotResult> operator()(std::span<const OperandRow> weights) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> pack(PackedOperand::Side side, std::span<const OperandRow> rows) const;
  std::vector<Enclosure> replay(std::span<const OperandRow> weights) const;

  const Dot& dot_;
  std::vector<OperandRow> rows_;
  std::unique_ptr<Packed> left_;  // nullptr when nothing is replayed
};

}  // namespace assay
