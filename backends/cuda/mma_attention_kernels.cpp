// The rows of attention on NVIDIA's matrix units, and those with a schedule.
#include <array>
#include <vector>

#include "backends/cuda/mma_attention.hpp"

namespace assay_gpu {
namespace {

// clang-format off
#define ASSAY_ROW(kind) \
  {"attention", #kind, attention_##kind##_chosen, attention_##kind##_check, attention_##kind##_name, \
   attention_##kind##_contract, attention_##kind##_run}
#define ASSAY_FP8(suffix, hidden) \
  {"attention", "fp8_wgmma_" #suffix, never, attention_fp8_wgmma_check, attention_fp8_wgmma_name, \
   attention_fp8_wgmma_##suffix##_contract, attention_fp8_wgmma_##suffix##_run, hidden}
// clang-format on

constexpr auto kRows = std::to_array<Kernel>({
    ASSAY_ROW(prefill_mma),
    ASSAY_ROW(split_mma),
    ASSAY_FP8(p1, false),
    ASSAY_FP8(p4, false),
    ASSAY_FP8(p64, false),
    ASSAY_FP8(p0, false),
    ASSAY_FP8(p4_single_level, true),
});
#undef ASSAY_ROW
#undef ASSAY_FP8

}  // namespace

std::span<const Kernel> attention_unit_kernels() {
  static const std::vector<Kernel> rows = [] {
    std::vector<Kernel> list(kRows.begin(), kRows.end());
    const std::span<const Kernel> more = attention_replay_kernels();
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return rows;
}

}  // namespace assay_gpu
