#include "backends/vulkan/shaders.hpp"

#include <array>
#include <string>

#include "backends/plugin/call.hpp"
#include "backends/vulkan/generated_shaders.hpp"

namespace assay_vulkan {
namespace {

struct Shader {
  std::string_view name;
  std::span<const std::uint32_t> words;
};

constexpr auto kShaders = std::to_array<Shader>({
#define X(name) {#name, k_##name},
    ASSAY_VULKAN_SHADERS(X)
#undef X
});

// SPIR-V: five words of header, then instructions; the first word of one is its length << 16 | opcode.
constexpr std::size_t kHeaderWords = 5;
constexpr std::uint32_t kOpEntryPoint = 15, kOpExecutionMode = 16, kOpCapability = 17, kOpExecutionModeId = 331;

}  // namespace

std::span<const std::uint32_t> shader(std::string_view name) {
  for (const Shader& row : kShaders) {
    if (row.name == name) return row.words;
  }
  throw assay_plugin::Failed("no shader is named " + std::string(name));
}

std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> module,
                                               std::span<const std::uint32_t> modes) {
  std::vector<std::uint32_t> out(module.begin(), module.begin() + kHeaderWords);
  std::uint32_t entry = 0;
  bool capabilities_done = false;
  bool modes_done = false;
  for (std::size_t i = kHeaderWords; i < module.size(); i += module[i] >> 16) {
    const std::uint32_t opcode = module[i] & 0xFFFFU;
    if (opcode == kOpEntryPoint) entry = module[i + 2];
    if (!capabilities_done && opcode != kOpCapability) {
      for (std::size_t m = 0; m < modes.size(); m += 3) out.insert(out.end(), {2U << 16 | kOpCapability, modes[m + 1]});
      capabilities_done = true;
    }
    const bool before_modes = opcode == kOpEntryPoint || opcode == kOpExecutionMode || opcode == kOpExecutionModeId;
    if (entry != 0 && !modes_done && !before_modes) {
      for (std::size_t m = 0; m < modes.size(); m += 3) {
        out.insert(out.end(), {4U << 16 | kOpExecutionMode, entry, modes[m], modes[m + 2]});
      }
      modes_done = true;
    }
    out.insert(out.end(), module.begin() + static_cast<std::ptrdiff_t>(i),
               module.begin() + static_cast<std::ptrdiff_t>(i + (module[i] >> 16)));
  }
  return out;
}

}  // namespace assay_vulkan
