// The judge's path for a case with a fault: once without it, once with it, and the fault's requirement over
// both.
#pragma once

#include "harness/judge.hpp"

namespace assay {

// judge.inputs has a fault.
CaseResult judge_faulted(const Judge& judge, const Case& c);

}  // namespace assay
