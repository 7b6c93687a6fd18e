// One row per kernel: op, the word that selects it, what it can run, the arithmetic that it declares, and
// itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/vulkan/session.hpp"

namespace assay_vulkan {

struct Kernel {
  std::string_view op;
  std::string_view variant;  // "" for an op with one kernel; "decode", "split", ...: the word of a variant
  bool listed;               // among the backend's variants: it takes whatever the op's other kernels take
  // Whether it is picked when none is named; nullptr: always.
  bool (*chosen)(const Call& call, const Device& device);
  void (*check)(const Call& call, const Device& device);  // throws Unsupported
  // Of the dispatch that does the work: declaration.path.
  std::string (*name)(const Call& call, const Device& device);
  std::string (*contract)(const Call& call, const Device& device);
  void (*run)(Session& session, const Trace& trace);
};

std::span<const Kernel> kernels();

#define ASSAY_KERNEL(kind)                                             \
  void kind##_check(const Call& call, const Device& device);           \
  std::string kind##_name(const Call& call, const Device& device);     \
  std::string kind##_contract(const Call& call, const Device& device); \
  void kind##_run(Session& session, const Trace& trace)
ASSAY_KERNEL(softmax);
ASSAY_KERNEL(logsumexp);
ASSAY_KERNEL(rmsnorm);
ASSAY_KERNEL(wht);
ASSAY_KERNEL(argmax);
ASSAY_KERNEL(quantize);
ASSAY_KERNEL(dequantize);
ASSAY_KERNEL(requantize);
ASSAY_KERNEL(kv_write);
ASSAY_KERNEL(matmul_scalar);
ASSAY_KERNEL(matmul_matrix);
ASSAY_KERNEL(moe);
ASSAY_KERNEL(layernorm_two_pass);
ASSAY_KERNEL(layernorm_one_pass);
ASSAY_KERNEL(layernorm_one_pass_unclamped);
ASSAY_KERNEL(layernorm_welford);
ASSAY_KERNEL(attention_matrix);
ASSAY_KERNEL(attention_whole);
ASSAY_KERNEL(attention_split);
ASSAY_KERNEL(attention_p_f16);
ASSAY_KERNEL(attention_f16);
ASSAY_KERNEL(attention_q8);
ASSAY_KERNEL(attention_deferred);
ASSAY_KERNEL(attention_convert_f16);
#undef ASSAY_KERNEL

// "ftz=yes" where the device does not promise to keep f32 subnormals, "" elsewhere.
std::string ftz(const Device& device);
// Largest finite magnitudes of source's groups that share a scale of `to` (nullptr-like kUnscaled: one
// group): bits in scratch, at the offset that comes back.
std::uint64_t group_absmax(Session& session, const DeviceOperand& source, const Format& from,
                           const Format& to_format, const DeviceOperand& to, std::int64_t groups);
// The contract of every kernel that stores in format `to`.
std::string quantiser_contract(std::string_view to);

}  // namespace assay_vulkan
