// The run of a case with a fault: once without it, once with it, and the fault's duty over both.
#pragma once

#include "harness/runner.hpp"

namespace assay {

// `inputs` has a fault; the parameters are those of run_case.
CaseResult run_faulted(const Case& c, const Inputs& inputs, TruthCache& truths, Workers& workers,
                       const RunOptions& options);

}  // namespace assay
