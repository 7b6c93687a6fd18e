// The adversary's inputs: the project's fills, pools of its own made for the seams of the limits, and edits.
//
//   x:set:I:V      element I becomes V; of integers (topk_ids) too
//   x:scale:V      every element times V        x:add:V   every element plus V
//   x:copy:I:J     element I becomes element J  x:swap:I:J
//   x:pool:P:S     the whole tensor anew, from pool P with seed S
//   x:draw:P:S:I   element I anew, from pool P with seed S
//   x:plane:N:I:V  of the encoded tensor: number I of plane N (".scale", "" of codes) becomes V
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/adversary/family.hpp"

namespace assay::adversary {

// Names of pools: inputs.cpp says what each is made for.
std::vector<std::string> pool_names();

TensorSet make_inputs(const Op& op, const Attributes& attributes, const InputPlan& plan);
// One more edit for a tensor of the op.
std::string random_edit(const Op& op, const Attributes& attributes, Draw& draw);

}  // namespace assay::adversary
