// What a program hands to the harness: every fill and every fault of the project.
#pragma once

#include "cases/faults/faults.hpp"
#include "cases/fills/fills.hpp"
#include "reference/inputs/lists.hpp"

namespace assay {

inline InputLists input_lists() { return {fills(), faults()}; }

}  // namespace assay
