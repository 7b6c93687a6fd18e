// What a fused attention kernel may be: units, cuts into parts, and the finer fields of a schedule, the most
// common first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/replay/attention_schedule.hpp"

namespace assay {

// Units that take the format, into f32: the one declared first, then by how common they are.
std::vector<std::string> units_of(const std::string& format, const std::string& declared);
// Counts of parts that cut the tiles differently, in the manner of every kernel that gives ceil(tiles /
// split) to each.
std::vector<std::int64_t> splits_of(std::int64_t tiles);
// Schedules with the units, the tile, its order and the parts of `base`.
std::vector<AttentionSchedule> fine(const AttentionSchedule& base);
// These, and the same with an argument of their own for tiles at the rows' own positions: kernels that mask
// the diagonal alone.
std::vector<AttentionSchedule> with_own_tiles(const std::vector<AttentionSchedule>& bases);
// Of those, what the found one may be besides: with tiles of their own otherwise only what else it is.
std::vector<AttentionSchedule> others_of(const AttentionSchedule& found,
                                         std::vector<AttentionSchedule> hypotheses);

}  // namespace assay
