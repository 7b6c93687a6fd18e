// Attention under level=replay: the bits that the declared schedule makes of a problem, and the schedule's
// steps.
#pragma once

#include "reference/ops/attention/problem.hpp"
#include "reference/replay/attention_schedule.hpp"

namespace assay {

// Throws InputError bad_value for what this schedule has no step for: softcap, sinks, alibi, V that is stored
// rotated.
void require_attention_schedule(const AttentionGeometry& geometry, const AttentionSchedule& schedule);

// problem: with the contract's conversions of K and V applied; asked: with q as it was given, for a schedule
// converts q itself. Of every output whose row of q, K and V are finite numbers and whose replay is one,
// truth.value becomes that and truth.limit 0. Throws InputError bad_contract.
void replay_attention(Truth& truth, const AttentionProblem& problem, const AttentionProblem& asked,
                      const Contract& contract);

// The products of q.k, by cutting q; then, with q zero and all weights equal, the keys of p.v, by cutting V
// where its format can be.
std::vector<ReplayStage> attention_stages(const Attributes& attributes, const TensorSet& inputs,
                                          const Contract& contract);

}  // namespace assay
