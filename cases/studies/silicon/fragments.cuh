// How the matrix instructions spread a tile over registers, and the tile kernels around them.
// mma.sync and wgmma share
//   the accumulator's layout   a warp owns 16 rows; a lane has rows lane / 4 and lane / 4 + 8,
//                              columns 8 j + 2 (lane % 4) and + 1
//   the operands' layout       counted in 32-bit words: 8 words a row and step, whatever the format
#pragma once

#include <cstdint>

#include "cases/studies/silicon/device.hpp"

namespace assay::silicon {

inline constexpr int kThreads = 128;  // one warpgroup a tile
inline constexpr int kStepWords = kStepBytes / 4;
inline constexpr int kColumnGroups = kTileSide / 8;

// The accumulators of one lane for 64 columns: 4 f32 or 2 pairs of f16 for each 8 columns.
template <int Bytes>
struct Accumulators {
  static constexpr int kPerGroup = Bytes == 4 ? 4 : 2;
  std::uint32_t word[kColumnGroups * kPerGroup];

  // Element index of two columns that lie side by side.
  static __device__ std::size_t at(int group, int half) {
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / 32 * 16 + lane / 4 + 8 * half;
    return static_cast<std::size_t>(row) * kTileSide + 8 * group + 2 * (lane % 4);
  }
  __device__ void load(const void* tile) {
#pragma unroll
    for (int j = 0; j < kColumnGroups; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (Bytes == 4) {
          const uint2 pair =
              *reinterpret_cast<const uint2*>(static_cast<const std::uint32_t*>(tile) + at(j, half));
          word[4 * j + 2 * half] = pair.x;
          word[4 * j + 2 * half + 1] = pair.y;
        } else {
          word[2 * j + half] =
              *reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(tile) + at(j, half));
        }
      }
    }
  }
  __device__ void store(void* tile) const {
#pragma unroll
    for (int j = 0; j < kColumnGroups; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if constexpr (Bytes == 4) {
          *reinterpret_cast<uint2*>(static_cast<std::uint32_t*>(tile) + at(j, half)) =
              make_uint2(word[4 * j + 2 * half], word[4 * j + 2 * half + 1]);
        } else {
          *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(tile) + at(j, half)) =
              word[2 * j + half];
        }
      }
    }
  }
};

struct TileArguments {
  const std::uint32_t* a;
  const std::uint32_t* b;
  const char* c;
  char* d;
  int tiles;
  int steps;
};

// Defined in mma_tiles.cu and wgmma_tiles.cu: enqueue on `stream`; false for an opcode of the other file.
bool launch_mma(Opcode opcode, const TileArguments& arguments, void* stream);
bool launch_wgmma(Opcode opcode, const TileArguments& arguments, void* stream);

}  // namespace assay::silicon
