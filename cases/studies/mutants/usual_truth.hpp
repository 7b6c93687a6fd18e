// What the usual rules compare an output with. They know no contract: their reference is the op's formula on
// the decoded inputs, in f64, whatever the kernel declares. The truth that assay judges matmul and moe by is
// another: it stands around what the declared path makes of the operands, quantisers and the store included,
// and would lend the rules what they do not have. Of every other op the truth's value is the formula's; of
// attention it is that of the converted problem where the kernel declares a conversion (q=, convert=), which
// favours the rules.
#pragma once

#include <span>
#include <vector>

#include "harness/case.hpp"
#include "reference/ops/op.hpp"

namespace assay::mutants {

// By output, as `truths`, which are those of the same inputs.
std::vector<std::vector<double>> usual_truth(const Case& c, const TensorSet& inputs,
                                             std::span<const Truth> truths);

}  // namespace assay::mutants
