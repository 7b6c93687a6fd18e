// moe under level=replay: the bits that the declared schedule makes of the operands, and the schedule's
// steps.
//
//   exp=libm silu=quotient combine=experts code=division up.acc=f32 up.lanes=16 down.acc=f32 down.lanes=16
//   down.scales=a_b
//
//   up.*, down.*   the sums over hidden of gate and up, and over inter of w2 h
//                  (reference/replay/grouped_schedule.hpp): the rows that meet one expert's weights are its
//                  slots in the order of topk_ids
//   silu           g / (1 + e) (quotient) or g fl(1 / (1 + e)) (sigmoid), e = exp(-g) by `exp`
//                  (reference/replay/exponentials.hpp); times v
//   code           on path=codes, of s = absmax / D: h / s (division) or h fl(1 / s) (reciprocal)
//   combine        y[t] = 0 + c out + ...: by ascending expert (experts) or in the order of topk_ids (slots);
//                  a product and a sum, each rounded
// Each step is in f32 and rounded once. The casts gate_up, h and expert_out and the place of the weight are
// the contract's own.
#pragma once

#include <memory>

#include "reference/ops/op.hpp"

namespace assay {

// exp, silu, combine, code.
std::span<const KeySpec> moe_schedule_keys();

// Of every output whose token meets finite numbers only, truth.value becomes what the schedule stores and
// truth.limit 0; the others stay as they are. Throws InputError bad_contract: a schedule that is none, or
// does not fit the operands or the rest of the contract. One call, any number of contracts: operands are made
// once, the first products once for all schedules in a row that share theirs.
class MoeReplay {
 public:
  MoeReplay(const Attributes& attributes, const TensorSet& inputs);  // which outlive it
  ~MoeReplay();
  void operator()(Truth& truth, const Contract& contract);

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

// Slots of a token from the last to the second; then, with one slot, columns of w2; then, with one column of
// w2, those of x.
std::vector<ReplayStage> moe_stages(const Attributes& attributes, const TensorSet& inputs,
                                    const Contract& contract);

}  // namespace assay
