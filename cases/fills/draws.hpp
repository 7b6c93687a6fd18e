// Whole arrays of draws: the same bits as one draw after the other, at the speed of the machine's vectors.
#pragma once

#include <span>

#include "reference/inputs/random.hpp"

namespace assay {

// out[i] = the f32 number nearest to stream.gaussian(first + i).
void draw_gaussian(const Stream& stream, std::uint64_t first, std::span<float> out);

// Of an embedded fill: of each two rows one, drawn, is no probe, nor is the last of an odd number; one row
// alone is one.
inline bool natural_row(const Stream& stream, std::size_t row, std::size_t rows) {
  constexpr std::uint64_t kDraw = std::uint64_t{1} << 59;  // no index of an element
  return (row | 1) < rows ? (stream.bits(kDraw + row / 2) & 1) == row % 2 : rows > 1;
}

}  // namespace assay
