// An attribution as a person reads it.
#pragma once

#include <string>

#include "cases/attribution/attribute.hpp"

namespace assay::attribution {

// The hypothesis, the evidence for and against it, and the exhibits of the museum that are like it.
std::string report(const Attribution& a);

}  // namespace assay::attribution
