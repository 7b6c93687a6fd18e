// Sums of f32 side by side: one plan, kSumLanes sets of terms.
#pragma once

#include <cstddef>

#include "reference/replay/sum_plan.hpp"

namespace assay {

inline constexpr std::size_t kSumLanes = 16;

// Term k of lane j is a[k] b[k kSumLanes + j] with `broadcast`, a[k kSumLanes + j] b[k kSumLanes + j]
// without, and a[k kSumLanes + j] itself where b is nullptr.
struct LaneTerms {
  const float* a;
  bool broadcast;
  const float* b;
};

// Whether all that a plan does is done in f32, by steps of one term.
bool is_plain_f32(const SumPlan& plan);
// Executes such a plan. registers: plan.registers vectors of kSumLanes; the sums are those of plan.result.
void run_lanes(const SumPlan& plan, const LaneTerms& terms, float* registers);

}  // namespace assay
