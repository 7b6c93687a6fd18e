// Where a run first leaves the reference: the same engine in f64 beside it, fed the same tokens, stage by
// stage.
#pragma once

#include <vector>

#include "cases/studies/cascade/engine.hpp"
#include "cases/studies/cascade/report.hpp"

namespace assay::scenarios {

// Two references: the same policy (what arithmetic alone changes: NaN against a number), and no quantisation
// (what the cache changes). `run` was recorded.
std::vector<CascadeDivergence> divergences(const Model& model, const std::vector<Request>& requests,
                                           const Settings& settings, const Run& run);

}  // namespace assay::scenarios
