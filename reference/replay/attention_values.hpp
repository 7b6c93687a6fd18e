// The tiles of a fused attention kernel and its sums of weighted values: a part of the replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/replay/attention.hpp"

namespace assay {

struct Tile {
  std::int64_t from, to;  // keys
  std::size_t place;      // among all tiles of a row
};

// The tiles of each part, and of each of those that it is dealt to, in the order in which they are taken; the
// first of all begins at `origin`.
std::vector<std::vector<Tile>> parts_of(const AttentionSchedule& how, std::int64_t keys, std::int64_t origin);

// A block of rows whose weights are known.
struct WeightedRows {
  const AttentionSchedule& how;
  std::int64_t rows, dv;
  std::size_t tiles;               // of a row
  std::span<const float> rescale;  // [rows, tiles]
  // out [rows, dv] += the weights of keys [from, to) times their values, by the schedule's pv.
  std::function<void(std::int64_t from, std::int64_t to, float* out)> chain;
};

// out [rows, dv] += weights [rows, keys] times V of keys [from, to), key after key, in f32.
void add_values(const AttentionSchedule& how, const ReplayKeys& kv, std::span<const float> weights,
                std::int64_t rows, std::int64_t from, std::int64_t to, float* out);
// o [rows, dv] of one part, not yet divided by the sum of its weights.
std::vector<float> values_of(const WeightedRows& block, std::span<const Tile> tiles);

}  // namespace assay
