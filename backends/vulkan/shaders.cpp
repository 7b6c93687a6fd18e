#include "backends/vulkan/shaders.hpp"

#include <algorithm>
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
constexpr std::uint32_t kOpEntryPoint = 15, kOpExecutionMode = 16, kOpCapability = 17,
                        kOpExecutionModeId = 331, kOpDecorate = 71, kNoContraction = 42;

// OpEntryPoint: execution model, id, name as words ended by a 0 byte, interface variables.
void append_entry_point(std::span<const std::uint32_t> old, std::string_view name,
                        std::vector<std::uint32_t>& out) {
  std::size_t interface = 3;
  const auto ends_name = [](std::uint32_t word) { return word >> 24 == 0; };  // the padding is 0 bytes
  while (!ends_name(old[interface])) ++interface;
  ++interface;
  std::vector<std::uint32_t> text(name.size() / 4 + 1, 0);
  for (std::size_t c = 0; c < name.size(); ++c) {
    text[c / 4] |= static_cast<std::uint32_t>(static_cast<unsigned char>(name[c])) << (8 * (c % 4));
  }
  const std::size_t words = 3 + text.size() + (old.size() - interface);
  out.insert(out.end(), {static_cast<std::uint32_t>(words) << 16 | kOpEntryPoint, old[1], old[2]});
  out.insert(out.end(), text.begin(), text.end());
  out.insert(out.end(), old.begin() + static_cast<std::ptrdiff_t>(interface), old.end());
}

// Products, sums, differences and quotients of floats, scalars and vectors: word 2 of each is its result's
// id.
bool is_arithmetic(std::uint32_t opcode) {
  constexpr std::uint32_t kOpFNegate = 127, kOpFAdd = 129, kOpFSub = 131, kOpFMul = 133, kOpFDiv = 136,
                          kOpVectorTimesScalar = 142;
  constexpr std::array kArithmetic = {kOpFNegate, kOpFAdd, kOpFSub, kOpFMul, kOpFDiv, kOpVectorTimesScalar};
  return std::ranges::find(kArithmetic, opcode) != kArithmetic.end();
}
void append_no_contraction(std::span<const std::uint32_t> module, std::vector<std::uint32_t>& out) {
  for (std::size_t i = kHeaderWords; i < module.size(); i += module[i] >> 16)
    if (is_arithmetic(module[i] & 0xFFFFU))
      out.insert(out.end(), {3U << 16 | kOpDecorate, module[i + 2], kNoContraction});
}

}  // namespace

bool has_shader(std::string_view name) {
  return std::ranges::find(kShaders, name, &Shader::name) != kShaders.end();
}

std::span<const std::uint32_t> shader(std::string_view name) {
  const auto row = std::ranges::find(kShaders, name, &Shader::name);
  if (row == kShaders.end()) throw assay_plugin::Failed("no shader is named " + std::string(name));
  return row->words;
}

void need_matrix_shader(std::string_view name) {
  if (!has_shader(name)) {
    throw assay_plugin::Unsupported(
        "this build has no shaders on cooperative matrices: no glslang with "
        "GL_KHR_cooperative_matrix was found when it was configured");
  }
}

std::vector<std::uint32_t> finished_module(std::span<const std::uint32_t> module, std::string_view name,
                                           std::span<const std::uint32_t> modes) {
  std::vector<std::uint32_t> out(module.begin(), module.begin() + kHeaderWords);
  std::uint32_t entry = 0;
  bool capabilities_done = false;
  bool modes_done = false, decorated = false;
  for (std::size_t i = kHeaderWords; i < module.size(); i += module[i] >> 16) {
    const std::uint32_t opcode = module[i] & 0xFFFFU;
    if (!capabilities_done && opcode != kOpCapability) {
      for (std::size_t m = 0; m < modes.size(); m += 3)
        out.insert(out.end(), {2U << 16 | kOpCapability, modes[m + 1]});
      capabilities_done = true;
    }
    const bool before_modes =
        opcode == kOpEntryPoint || opcode == kOpExecutionMode || opcode == kOpExecutionModeId;
    if (entry != 0 && !modes_done && !before_modes) {
      for (std::size_t m = 0; m < modes.size(); m += 3) {
        out.insert(out.end(), {4U << 16 | kOpExecutionMode, entry, modes[m], modes[m + 2]});
      }
      modes_done = true;
    }
    if (!decorated && opcode == kOpDecorate) {
      append_no_contraction(module, out);
      decorated = true;
    }
    const std::span<const std::uint32_t> instruction = module.subspan(i, module[i] >> 16);
    if (opcode == kOpEntryPoint) {
      entry = instruction[2];
      append_entry_point(instruction, name, out);
    } else {
      out.insert(out.end(), instruction.begin(), instruction.end());
    }
  }
  return out;
}

}  // namespace assay_vulkan
