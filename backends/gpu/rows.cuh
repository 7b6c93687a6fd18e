// Rows of f32, f16 or bf16 as a block of threads reads and writes them: one row per block, columns thread by
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "backends/gpu/elements.cuh"
#include "backends/gpu/planes.cuh"

namespace assay_gpu {

inline constexpr int kRowThreads = 256;
// The most additions that a term of a block's sum goes through: a thread's own, the tree of a warp, and the
// warps one after another (block_reduce). more: additions that follow it.
inline std::string row_order(std::int64_t cols, int more = 0) {
  constexpr int kTreeOfWarp = 5;
  const std::int64_t own = (cols + kRowThreads - 1) / kRowThreads - 1;
  return "order=depth:" + std::to_string(own + kTreeOfWarp + kRowThreads / kWarp - 1 + more);
}

struct RowTensor {
  View view;
  Element dtype;
};

__device__ inline float load_value(Element dtype, const unsigned char* row, std::int64_t column) {
  if (dtype == Element::f32) return reinterpret_cast<const float*>(row)[column];
  return decode_element(dtype, reinterpret_cast<const std::uint16_t*>(row)[column]);
}
__device__ inline void store_value(Element dtype, unsigned char* row, std::int64_t column, float value) {
  if (dtype == Element::f32) {
    reinterpret_cast<float*>(row)[column] = value;
  } else {
    reinterpret_cast<std::uint16_t*>(row)[column] = static_cast<std::uint16_t>(encode_element(dtype, value));
  }
}

}  // namespace assay_gpu
