// The words of backends/plugin/call.hpp, at home in this backend.
#pragma once

#include "backends/plugin/call.hpp"

namespace assay_cpu {
using namespace assay_plugin;
}  // namespace assay_cpu
