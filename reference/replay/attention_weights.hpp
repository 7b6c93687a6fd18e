// The weights of a block of rows, tile by tile: a part of the replay of fused attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/replay/attention_values.hpp"

namespace assay {

struct WeighedBlock {
  std::vector<float> rescale;     // [rows, tiles]: what a row is multiplied by in front of a tile
  std::vector<float> tops, sums;  // [parts, rows]
};

// s [rows, keys]: S of rows first .. first + rows, which become their weights, rounded to the schedule's p.
// divisors: of rows of q that were scaled, one each, or none.
WeighedBlock weigh_rows(const AttentionSchedule& how, const ReplayQueries& queries, std::int64_t keys,
                        std::int64_t first, std::int64_t rows, std::span<const float> divisors,
                        const std::vector<std::vector<Tile>>& plan, std::vector<float>& s);

}  // namespace assay
