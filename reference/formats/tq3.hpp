// The tq3_0 family: what kernels with a deferred inverse need besides format.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "reference/formats/format.hpp"

namespace assay {

// Several incompatible layouts are called tq3_0; each is a row.
struct Tq3Layout {
  std::string_view name;
  int bytes;
  int index_offset;  // 8 bytes: 2-bit codebook index of element j in bits 2 (j % 4) of byte j / 4
  int sign_offset;   // 4 bytes: bit j % 8 of byte j / 8, set when the residual of element j is positive
  int scale_offset;  // f16
  bool signs_used;   // c2: stored, and ignored when decoding
};
std::span<const Tq3Layout> tq3_layouts();

// The 2-bit Lloyd-Max quantiser of the unit normal, by fixed-point iteration on the density in long double.
struct Tq3Codebook {
  double threshold;                // between the two magnitudes
  std::array<double, 2> centroid;  // 0.4528, 1.510: mean of the cell
  // E|y - centroid| within the cell: the mean-square best step of a residual sign.
  std::array<double, 2> spread;
};
const Tq3Codebook& tq3_codebook();

// The level of (index 0..3, sign bit), in units of the scale: index 0, 1, 2, 3 = -c1, -c0, +c0, +c1, the sign
// adds or takes the cell's spread. Centroids and spreads are rounded to f32 first, so a level is exact in
// f64.
double tq3_level(const Tq3Layout& layout, unsigned index, bool positive_residual);

// scale * level: the values before the inverse rotation, exact in f64. decode_range gives D H (these) /
// sqrt(32) per block of 32. Same arguments and errors as decode_range; any other format is a bad_value.
void decode_range_rotated(const Encoded& tensor, std::int64_t first, std::span<double> out);

}  // namespace assay
