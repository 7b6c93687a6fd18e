// What a run will cost: `assay run --list --cost`.
#pragma once

#include "harness/judge.hpp"
#include "harness/plan.hpp"

namespace assay {

// Judges a few cases of each op on each backend, from the lightest on and none of more than a second, and
// prints for each case of the plan the seconds that follow and the memory that it needs, in front of its
// line, and the sums. Seconds of a case: kernel, worker, reference and inputs, as if nothing else ran, by
// its bytes alone: an attribute that makes a case slow and no larger is not seen. Returns an exit code.
int tell_cost(const Plan& plan, int jobs, Workers& workers, const JudgeOptions& options);

}  // namespace assay
