// The one list of faults.
#pragma once

#include <span>

#include "reference/inputs/fault.hpp"

namespace assay {

std::span<const Fault> faults();

}  // namespace assay
