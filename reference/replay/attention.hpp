// The bits of a fused attention kernel, from its schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/replay/attention_schedule.hpp"

namespace assay {

// One head of K [keys, d] and V [keys, dv], row-major, numbers of `format`.
struct ReplayKeys {
  std::int64_t keys = 0, d = 0, dv = 0;
  std::span<const float> k, v;
  std::string format;
};
// Rows of q [rows, d] that see this head. Row i sees key j where visible(i, j); empty: all.
struct ReplayQueries {
  std::int64_t rows = 0;
  std::span<const float> q;
  double scale = 1;  // of q.k
  std::function<bool(std::int64_t, std::int64_t)> visible = {};
  float k_scale = 1, v_scale = 1;                        // with kv_scale=head of the schedule
  double softcap = 0;                                    // 0: none; needs cap of the schedule
  float slope = 0;                                       // of alibi; with bias of the schedule
  std::int64_t first = 0;                                // the position of row 0 among the keys
  std::int64_t head = 0, group = 1;                      // which of how many heads of the group
  float sink = -std::numeric_limits<float>::infinity();  // with sink of the schedule
  // Rows are heads of a group at the position `first`, each with a slope and a sink of its own, and see what
  // row 0 sees.
  bool heads = false;
  std::span<const float> slopes = {}, sinks = {};
  float slope_of(std::int64_t row) const {
    return slopes.empty() ? slope : slopes[static_cast<std::size_t>(row)];
  }
  float sink_of(std::int64_t row) const {
    return sinks.empty() ? sink : sinks[static_cast<std::size_t>(row)];
  }
};
struct ReplayedRows {
  std::vector<float> out;           // [rows, dv], numbers of `out`
  std::vector<float> lse;           // [rows], to base e; NaN where a step of it is not modelled
  std::vector<std::uint8_t> known;  // [rows]: 0 where a step of the output itself is not modelled
};

// A head prepared once for any number of schedules on the same units.
class AttentionReplay {
 public:
  explicit AttentionReplay(ReplayKeys keys);
  ~AttentionReplay();
  ReplayedRows run(const AttentionSchedule& schedule, const ReplayQueries& queries) const;

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace assay
