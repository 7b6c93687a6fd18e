// What the packing and the vector kernels of fused_gemm share: one tile of rows x kPanel outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/arithmetic/matrix_unit.hpp"

namespace assay {

inline constexpr std::size_t kPanel =
    16;  // outputs side by side: rows of B interleaved, whatever the vector length

// Values and, at the same index, the power of two of each element's non-normalised exponent (0 for a zero,
// which is how a zero term stays out of the maximum). Lane = float where every product, scaled sum and result
// is exact in it (FP8 into e8m13), double elsewhere.
template <typename Lane>
struct Tile {
  const Lane* a;
  const Lane* a_power;
  std::size_t a_stride;  // elements between rows
  const Lane* b;         // [depth][kPanel]
  const Lane* b_power;
  std::size_t rows;
  std::size_t depth;  // a multiple of group
  float* c;           // [rows][kPanel]
};

struct TileRule {
  Combine combine;
  std::size_t group;
  int fraction_bits;
  Precision out;
  bool nearest;
  int least_exponent;  // of M, units that truncate
};

void fused_tile(const Tile<float>& tile, const TileRule& rule);   // truncate into e8m13, pairwise_flush
void fused_tile(const Tile<double>& tile, const TileRule& rule);  // everything else but wrap
const char* fused_tile_target();  // the instruction set that runs, for reports

}  // namespace assay
