// How an attention call is cut: query rows of a workgroup, keys of a dispatch, parts of a split.
#pragma once

#include <cstdint>

#include "backends/vulkan/session.hpp"

namespace assay_vulkan {

// Query rows of a workgroup: as many of a head's as its shared memory takes, a power of two.
std::uint32_t rows_of(const Call& call, const Device& device);
// Keys that one dispatch takes, so that no shader's loops run longer than the device lets them: a multiple of
// a subgroup.
std::int64_t keys_at_a_time(const Call& call, const Device& device);
// At least two parts, so that the merge is never idle.
std::int64_t part_count(const Call& call, const Device& device);
// Keys of each part but the last.
std::int64_t part_keys(std::int64_t len, std::int64_t parts);

}  // namespace assay_vulkan
