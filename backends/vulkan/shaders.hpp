// The one list of shaders: SPIR-V made from shaders/NAME.comp when the project is built, and by
// shaders/matrix/generate where the compiler that it needs is there, which is newer than Debian 12's.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace assay_vulkan {

bool has_shader(std::string_view name);
std::span<const std::uint32_t> shader(std::string_view name);
void need_matrix_shader(std::string_view name);  // Unsupported where this build lacks it

// The module with its entry point renamed, execution modes added to it, and every product, sum, difference
// and quotient of floats decorated NoContraction, so that no driver makes one rounding of two, or adds in
// another order. modes: triples of execution mode, capability, width of the floats.
std::vector<std::uint32_t> finished_module(std::span<const std::uint32_t> module, std::string_view name,
                                           std::span<const std::uint32_t> modes);

}  // namespace assay_vulkan
