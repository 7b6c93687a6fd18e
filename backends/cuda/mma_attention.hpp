// Attention on NVIDIA's matrix units: rows of mma_attention_kernels.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/gpu/attention.hpp"

namespace assay_gpu {

inline constexpr std::int64_t kPrefillTile = 64, kFp8AttentionTile = 128;  // keys

#define ASSAY_UNIT_ATTENTION(kind)                                                     \
  bool attention_##kind##_chosen(const Call& call);                                    \
  void attention_##kind##_check(const Call& call, const DeviceInfo& device);           \
  std::string_view attention_##kind##_name(const Call& call);                          \
  std::string attention_##kind##_contract(const Call& call, const DeviceInfo& device); \
  void attention_##kind##_run(Run& run)
ASSAY_UNIT_ATTENTION(prefill_mma);
ASSAY_UNIT_ATTENTION(split_mma);
#undef ASSAY_UNIT_ATTENTION

// What of split_mma a schedule says: keys of a tile and of a part, parts, heads of a block, warps that share
// a part, elements of K that a lane loads at once, and how far logits may be above the maximum before it
// moves.
struct SplitMmaShape {
  std::string_view operands;
  std::int64_t tile, part_keys, parts, heads, warps, elements;
};
SplitMmaShape attention_split_mma_shape(const Call& call, const DeviceInfo& device);
inline constexpr int kSplitMmaSlack = 8;
// Whether K and V have scales, which this kernel applies to logits and outputs.
bool attention_split_mma_scaled(const Call& call);

// FP8: a number after p is the steps of 32 keys that are summed in the matrix unit before they are added in
// f32; 0: all.
void attention_fp8_wgmma_check(const Call& call, const DeviceInfo& device);
std::string_view attention_fp8_wgmma_name(const Call& call);
#define ASSAY_FP8_ATTENTION(suffix)                                                                \
  std::string attention_fp8_wgmma_##suffix##_contract(const Call& call, const DeviceInfo& device); \
  void attention_fp8_wgmma_##suffix##_run(Run& run)
ASSAY_FP8_ATTENTION(p1);
ASSAY_FP8_ATTENTION(p4);
ASSAY_FP8_ATTENTION(p64);
ASSAY_FP8_ATTENTION(p0);
ASSAY_FP8_ATTENTION(p4_single_level);
#undef ASSAY_FP8_ATTENTION

// Kernels of this vendor with their schedules declared whole: attention_replay.cpp.
std::span<const Kernel> attention_replay_kernels();

}  // namespace assay_gpu
