// What fused attention whose sums are in f32 may do, step by step: hypotheses that multiply within a step and
// not across steps.
#pragma once

#include <cstdint>
#include <vector>

#include "cases/studies/identify/attention.hpp"

namespace assay {

using AttentionSchedules = std::vector<AttentionSchedule>;

// The exponential, its argument, the format of the weights and the quotient.
AttentionSchedules exponential_steps(const AttentionHead& head);
// Of each: tiles, parts, and how a row's weights are added and rescaled.
AttentionSchedules sum_steps(const AttentionSchedules& exponents, std::int64_t keys);
// Of those that are dealt to warps: parts of at least 256 keys that are stored with logarithms to base two,
// and merged in as many groups as a block has room for.
AttentionSchedules sum_steps_in_parts(const AttentionSchedules& exponents, const AttentionHead& head);
// Of each: how weighted values are added.
AttentionSchedules value_steps(const AttentionSchedules& sums, std::int64_t keys);
// Of each: the order of q.k and the format of q.
AttentionSchedules product_steps(const AttentionSchedules& values, std::int64_t d);

// `to` with what a step of `from` says.
void take_exponential(AttentionSchedule& to, const AttentionSchedule& from);
void take_values(AttentionSchedule& to, const AttentionSchedule& from);
void take_products(AttentionSchedule& to, const AttentionSchedule& from);

}  // namespace assay
