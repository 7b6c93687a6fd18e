#include "cases/studies/silicon/instruction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "reference/error.hpp"

namespace assay::silicon {
namespace {

using enum Opcode;

constexpr auto kInstructions = std::to_array<Instruction>({
    // clang-format off
    {mma_f16,                  "mma_f16",                  "hopper_f16",                 "f16",    "f16",    "f32", 16},
    {mma_f16_f16out,           "mma_f16_f16out",           "hopper_f16_f16out",          "f16",    "f16",    "f16", 16},
    {mma_bf16,                 "mma_bf16",                 "hopper_bf16",                "bf16",   "bf16",   "f32", 16},
    {mma_tf32,                 "mma_tf32",                 "hopper_tf32",                "tf32",   "tf32",   "f32", 8},
    {mma_e4m3_e4m3,            "mma_e4m3_e4m3",            "hopper_fp8_mma_sync",        "e4m3fn", "e4m3fn", "f32", 32},
    {mma_e4m3_e5m2,            "mma_e4m3_e5m2",            "hopper_fp8_mma_sync",        "e4m3fn", "e5m2",   "f32", 32},
    {mma_e5m2_e4m3,            "mma_e5m2_e4m3",            "hopper_fp8_mma_sync",        "e5m2",   "e4m3fn", "f32", 32},
    {mma_e5m2_e5m2,            "mma_e5m2_e5m2",            "hopper_fp8_mma_sync",        "e5m2",   "e5m2",   "f32", 32},
    {mma_e4m3_e4m3_f16out,     "mma_e4m3_e4m3_f16out",     "hopper_fp8_mma_sync_f16out", "e4m3fn", "e4m3fn", "f16", 32},
    {mma_e4m3_e5m2_f16out,     "mma_e4m3_e5m2_f16out",     "hopper_fp8_mma_sync_f16out", "e4m3fn", "e5m2",   "f16", 32},
    {mma_e5m2_e4m3_f16out,     "mma_e5m2_e4m3_f16out",     "hopper_fp8_mma_sync_f16out", "e5m2",   "e4m3fn", "f16", 32},
    {mma_e5m2_e5m2_f16out,     "mma_e5m2_e5m2_f16out",     "hopper_fp8_mma_sync_f16out", "e5m2",   "e5m2",   "f16", 32},
    {wgmma_f16,                "wgmma_f16",                "hopper_f16",                 "f16",    "f16",    "f32", 16},
    {wgmma_f16_f16out,         "wgmma_f16_f16out",         "hopper_f16_f16out",          "f16",    "f16",    "f16", 16},
    {wgmma_bf16,               "wgmma_bf16",               "hopper_bf16",                "bf16",   "bf16",   "f32", 16},
    {wgmma_tf32,               "wgmma_tf32",               "hopper_tf32",                "tf32",   "tf32",   "f32", 8},
    {wgmma_e4m3_e4m3,          "wgmma_e4m3_e4m3",          "hopper_fp8",                 "e4m3fn", "e4m3fn", "f32", 32},
    {wgmma_e4m3_e5m2,          "wgmma_e4m3_e5m2",          "hopper_fp8",                 "e4m3fn", "e5m2",   "f32", 32},
    {wgmma_e5m2_e4m3,          "wgmma_e5m2_e4m3",          "hopper_fp8",                 "e5m2",   "e4m3fn", "f32", 32},
    {wgmma_e5m2_e5m2,          "wgmma_e5m2_e5m2",          "hopper_fp8",                 "e5m2",   "e5m2",   "f32", 32},
    {wgmma_e4m3_e4m3_f16out,   "wgmma_e4m3_e4m3_f16out",   "hopper_fp8_f16out",          "e4m3fn", "e4m3fn", "f16", 32},
    {wgmma_e4m3_e5m2_f16out,   "wgmma_e4m3_e5m2_f16out",   "hopper_fp8_f16out",          "e4m3fn", "e5m2",   "f16", 32},
    {wgmma_e5m2_e4m3_f16out,   "wgmma_e5m2_e4m3_f16out",   "hopper_fp8_f16out",          "e5m2",   "e4m3fn", "f16", 32},
    {wgmma_e5m2_e5m2_f16out,   "wgmma_e5m2_e5m2_f16out",   "hopper_fp8_f16out",          "e5m2",   "e5m2",   "f16", 32},
    // clang-format on
});
static_assert(kInstructions.size() == kOpcodes);

constexpr auto kAmd = std::to_array<Instruction>({
    // clang-format off
    {mfma_f16,            "cdna3_mfma_f16", "cdna3_f16", "f16", "f16", "f32", 16, "gfx942"},
    {mfma_bf16,           "cdna3_mfma_bf16", "cdna3_bf16", "bf16", "bf16", "f32", 16, "gfx942"},
    {mfma_fp8_fp8,        "cdna3_mfma_fp8_fp8", "cdna3_fp8", "e4m3fnuz", "e4m3fnuz", "f32", 32, "gfx942"},
    {mfma_fp8_bf8,        "cdna3_mfma_fp8_bf8", "cdna3_fp8", "e4m3fnuz", "e5m2fnuz", "f32", 32, "gfx942"},
    {mfma_bf8_fp8,        "cdna3_mfma_bf8_fp8", "cdna3_fp8", "e5m2fnuz", "e4m3fnuz", "f32", 32, "gfx942"},
    {mfma_bf8_bf8,        "cdna3_mfma_bf8_bf8", "cdna3_fp8", "e5m2fnuz", "e5m2fnuz", "f32", 32, "gfx942"},
    {mfma_f16,            "cdna4_mfma_f16", "cdna4_f16", "f16", "f16", "f32", 16, "gfx950"},
    {mfma_bf16,           "cdna4_mfma_bf16", "cdna4_bf16", "bf16", "bf16", "f32", 16, "gfx950"},
    {mfma_fp8_fp8,        "cdna4_mfma_fp8_fp8", "cdna4_fp8", "e4m3fn", "e4m3fn", "f32", 32, "gfx950"},
    {mfma_fp8_bf8,        "cdna4_mfma_fp8_bf8", "cdna4_fp8", "e4m3fn", "e5m2", "f32", 32, "gfx950"},
    {mfma_bf8_fp8,        "cdna4_mfma_bf8_fp8", "cdna4_fp8", "e5m2", "e4m3fn", "f32", 32, "gfx950"},
    {mfma_bf8_bf8,        "cdna4_mfma_bf8_bf8", "cdna4_fp8", "e5m2", "e5m2", "f32", 32, "gfx950"},
    {wmma_gfx11_f16,      "rdna35_wmma_f16", "rdna35_f16", "f16", "f16", "f32", 16, "gfx1150 gfx1151"},
    {wmma_gfx12_f16,      "rdna4_wmma_f16", "rdna4_f16", "f16", "f16", "f32", 16, "gfx1200 gfx1201"},
    {wmma_gfx12_bf16,     "rdna4_wmma_bf16", "rdna4_bf16", "bf16", "bf16", "f32", 16, "gfx1200 gfx1201"},
    {wmma_gfx12_fp8_fp8,  "rdna4_wmma_fp8_fp8", "rdna4_fp8", "e4m3fn", "e4m3fn", "f32", 32, "gfx1200 gfx1201"},
    {wmma_gfx12_fp8_bf8,  "rdna4_wmma_fp8_bf8", "rdna4_fp8", "e4m3fn", "e5m2", "f32", 32, "gfx1200 gfx1201"},
    {wmma_gfx12_bf8_fp8,  "rdna4_wmma_bf8_fp8", "rdna4_fp8", "e5m2", "e4m3fn", "f32", 32, "gfx1200 gfx1201"},
    {wmma_gfx12_bf8_bf8,  "rdna4_wmma_bf8_bf8", "rdna4_fp8", "e5m2", "e5m2", "f32", 32, "gfx1200 gfx1201"},
    // clang-format on
});
constexpr auto kTables = std::to_array<std::span<const Instruction>>({kInstructions, kAmd});
constexpr int kTf32Shift = 13;

}  // namespace

std::span<const Instruction> instructions() { return kInstructions; }

std::vector<const Instruction*> instructions_of(std::string_view architecture) {
  std::vector<const Instruction*> all;
  for (const std::span<const Instruction> table : kTables) {
    for (const Instruction& i : table) {
      const std::string padded = fmt::format(" {} ", i.targets);
      if (padded.find(fmt::format(" {} ", architecture)) != std::string::npos) all.push_back(&i);
    }
  }
  return all;
}

std::vector<std::string_view> architectures() {
  std::vector<std::string_view> all;
  for (const std::span<const Instruction> table : kTables) {
    for (const Instruction& i : table) {
      for (std::string_view rest = i.targets; !rest.empty();) {
        const std::string_view one = rest.substr(0, rest.find(' '));
        rest.remove_prefix(std::min(rest.size(), one.size() + 1));
        if (std::ranges::find(all, one) == all.end()) all.push_back(one);
      }
    }
  }
  return all;
}

const Instruction& instruction(std::string_view name) {
  std::string known;
  for (const std::span<const Instruction> table : kTables) {
    for (const Instruction& i : table) {
      if (i.name == name) return i;
      known += fmt::format(" {}", i.name);
    }
  }
  throw InputError(InputErrorKind::unknown_name, fmt::format("instruction '{}'; known:{}", name, known));
}

std::uint32_t load_code(const Instruction& how, const unsigned char* element) {
  std::uint32_t word = 0;
  std::memcpy(&word, element, static_cast<std::size_t>(how.element_bytes()));
  return how.element_bytes() == 4 ? word >> kTf32Shift : word;
}

void store_code(const Instruction& how, std::uint32_t code, unsigned char* element) {
  const std::uint32_t word = how.element_bytes() == 4 ? code << kTf32Shift : code;
  std::memcpy(element, &word, static_cast<std::size_t>(how.element_bytes()));
}

float accumulator_number(const Instruction& how, std::uint32_t code) {
  if (how.out == "f32") return std::bit_cast<float>(code);
  static const std::span<const float> table = decode_table_f32(scalar_format("f16"));
  return table[code & 0xffff];
}

std::uint32_t load_accumulator(const Instruction& how, const unsigned char* element) {
  std::uint32_t word = 0;
  std::memcpy(&word, element, static_cast<std::size_t>(how.accumulator_bytes()));
  return word;
}

void store_accumulator(const Instruction& how, std::uint32_t code, unsigned char* element) {
  std::memcpy(element, &code, static_cast<std::size_t>(how.accumulator_bytes()));
}

bool same_number(float x, float y) {
  return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) ||
         (std::isnan(x) && std::isnan(y));
}

}  // namespace assay::silicon
