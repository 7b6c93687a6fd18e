// The one list of laws.
#pragma once

#include <span>

#include "harness/laws.hpp"

namespace assay {

std::span<const Law> laws();

}  // namespace assay
