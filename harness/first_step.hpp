// Where a kernel parts from the schedule that its contract declares (level=replay): the first step whose
// result differs.
#pragma once

#include <string>
#include <vector>

#include "harness/judge.hpp"

namespace assay {

// "the bits first differ when terms 64..95 are added: block 3 of 16". The kernel is run on inputs that end
// behind one step after another (Op::stages), by halving: with the step it differs from the replay, without
// it it does not. "" where the inputs cannot be cut or no run of them differs.
std::string first_differing_step(const Case& c, const Inputs& inputs, const Contract& contract,
                                 const std::vector<ReplayStage>& stages, Workers& workers,
                                 std::chrono::milliseconds timeout);

}  // namespace assay
