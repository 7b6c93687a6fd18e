// The stages of a Walsh-Hadamard transform in f32: a part of the replay.
#pragma once

#include <cstdint>
#include <span>

namespace assay {

// One stage of n numbers: a + b and a - b of each two at distance `half`.
void butterflies(float* x, std::int64_t n, std::int64_t half);
// Each group of 32 becomes D H x / sqrt(32), D the signs of tq3: stages of neighbours first (ascending) or of
// halves first, then the factor, then the signs. Other numbers behind the last whole group stay.
void rotate_back(std::span<float> row, bool ascending);

}  // namespace assay
