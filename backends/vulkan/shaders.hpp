// The one list of shaders: SPIR-V made from shaders/NAME.comp when the project is built.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace assay_vulkan {

// Empty: not built, because the shader compiler did not know an extension that it needs.
std::span<const std::uint32_t> shader(std::string_view name);

// The module with execution modes for 32-bit floats (and 64-bit where the mode's width says so) added to its
// entry point. modes: triples of execution mode, capability, width.
std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> module,
                                               std::span<const std::uint32_t> modes);

}  // namespace assay_vulkan
