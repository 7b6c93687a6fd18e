// Ops on rows under level=replay: the bits that the declared schedule makes of a row, and the schedule's
// steps.
#pragma once

#include <string_view>

#include "reference/ops/op.hpp"
#include "reference/replay/row_replay.hpp"

namespace assay {

// The inputs of such a call as its replay takes them.
RowInputs row_inputs(std::string_view op, const Attributes& attributes, const TensorSet& inputs);

// Of every row of finite numbers, each output whose replay is a finite number: truth.value becomes that,
// truth.limit 0. Throws InputError bad_contract.
void replay_rows(Truth& truth, std::string_view op, const Attributes& attributes, const TensorSet& inputs,
                 const Contract& contract);

// Columns of x, one by one; of wht stages of the transform. One function per op, as Op::stages has no other
// way to know its op.
std::vector<ReplayStage> row_stages(std::string_view op, const Attributes& attributes,
                                    const TensorSet& inputs, const Contract& contract);

}  // namespace assay
