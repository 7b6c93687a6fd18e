// Runs a plan: several jobs side by side, results in the plan's order.
#pragma once

#include <functional>
#include <vector>

#include "harness/backends.hpp"
#include "harness/judge.hpp"
#include "harness/plan.hpp"
#include "harness/result.hpp"

namespace assay {

// on_result is called once per case, in the plan's order, by one thread at a time.
void run_plan(const Plan& plan, const std::vector<BackendInfo>& known, int jobs, const JudgeOptions& options,
              const std::function<void(CaseResult&)>& on_result);

}  // namespace assay
