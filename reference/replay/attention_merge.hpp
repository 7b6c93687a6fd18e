// The parts of a fused attention kernel's rows become the rows: a part of the replay.
#pragma once

#include <span>
#include <vector>

#include "reference/replay/attention.hpp"

namespace assay {

// What one row's parts left: largest logit, sum of the weights, o [dv] not yet divided.
struct RowPart {
  float top, sum;
  std::span<const float> o;
};
struct FinishedRow {
  std::vector<float> y;  // [dv], not yet rounded to the store's format
  float lse;             // to base e; NaN where a step of it is not modelled
  bool known;            // whether every step of y is modelled
};
// sink: the logit of `sink` in the schedule; unused without; v_scale: of V, used with kv_scale=head.
FinishedRow finish_row(const AttentionSchedule& how, std::span<const RowPart> parts, float scale, float sink,
                       float v_scale);

}  // namespace assay
