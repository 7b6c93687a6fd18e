// Whole arrays of draws: the same bits as one draw after the other, at the speed of the machine's vectors.
#pragma once

#include <span>

#include "reference/inputs/random.hpp"

namespace assay {

// out[i] = the f32 number nearest to stream.gaussian(first + i).
void draw_gaussian(const Stream& stream, std::uint64_t first, std::span<float> out);

}  // namespace assay
