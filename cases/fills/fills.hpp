// The one list of fills.
#pragma once

#include <span>

#include "reference/inputs/fill.hpp"

namespace assay {

std::span<const Fill> fills();

}  // namespace assay
