// The products q.k of keys that are left behind those served together: a part of the replay of fused
// attention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/replay/attention.hpp"
#include "reference/replay/attention_values.hpp"
#include "reference/replay/schedule.hpp"

namespace assay {

// How one q.k is summed in f32 or f16: of keys served together, and of those that are left, in so many lanes.
Schedule dot_of(const AttentionSchedule& how);
Schedule left_dot_of(const AttentionSchedule& how, std::int64_t lanes);
// s [rows, keys]: of rows first .. first + rows, each key that is left behind whole groups of dot_rows in its
// run takes its number from `left`, every second one from `second` where that is not empty. A run is of
// neighbouring keys of one tile that the row sees.
void take_left(const AttentionSchedule& how, const ReplayQueries& queries, std::int64_t keys,
               std::int64_t first, std::int64_t rows, const std::vector<std::vector<Tile>>& plan,
               std::span<const float> left, std::span<const float> second, std::vector<float>& s);

}  // namespace assay
