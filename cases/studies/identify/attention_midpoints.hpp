// Values whose outputs lie between two numbers of a narrow store: which of both is stored shows the last bits
// of the sums in f32.
#pragma once

#include <cstdint>
#include <span>

#include "cases/studies/identify/attention_designs.hpp"

namespace assay {

// What a column of V has: drawn values, of which one is replaced; one value alone; or a number of key 0 and a
// power of two of key 1.
enum class ColumnOfV : std::uint8_t { drawn, one_value, pair };

// Of the first columns of V such values that the exact output of one of the last rows of q, all keys being
// visible, is within a few of f32's places of a midpoint of the store. rounded: of weights that are rounded
// to as many bits as the store has, before V takes them.
void move_to_midpoints(std::uint64_t base, const AttentionLayout& layout, ColumnOfV column, bool rounded,
                       std::span<const float> q, std::span<const float> k, std::span<float> v);

}  // namespace assay
