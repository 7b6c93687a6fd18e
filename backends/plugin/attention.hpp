// What every backend asks of an attention call before it looks at formats.
#pragma once

#include <cstdint>

#include "backends/plugin/call.hpp"

namespace assay_plugin {

// Throws Unsupported for heads that do not share KV heads evenly, a head dimension above `largest_head`, an
// inverse rotation of part of a group, or an attribute whose tensor is missing.
void attention_shape_check(const Call& call, std::int64_t largest_head);

}  // namespace assay_plugin
