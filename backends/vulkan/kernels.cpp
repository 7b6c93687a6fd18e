#include "backends/vulkan/kernels.hpp"

#include <array>
#include <vector>

#include "backends/plugin/kernels.hpp"
#include "backends/vulkan/replay.hpp"

namespace assay_vulkan {
namespace {

using assay_plugin::never;

// From this many keys on a decode call is split over the keys.
constexpr std::int64_t kSplitFromKeys = 2048;
bool splits(const Call& call, const Device&) {
  return call.integer("q") <= 2 && call.integer("len") >= kSplitFromKeys;
}

// Cooperative matrices are chosen where the device has them and the call is one for them.
template <void (*kCheck)(const Call&, const Device&)>
bool on_matrices(const Call& call, const Device& device) {
  if (!device.can().matrices()) return false;
  try {
    kCheck(call, device);
    return true;
  } catch (const Unsupported&) {
    return false;
  }
}
bool prefills_on_matrices(const Call& call, const Device& device) {
  return call.integer("q") > 2 && on_matrices<attention_matrix_check>(call, device);
}

// clang-format off
#define ASSAY_ONE(op) {#op, "", false, nullptr, op##_check, op##_name, op##_contract, op##_run}
#define ASSAY_KIND(op, kind, listed, chosen) \
  {#op, #kind, listed, chosen, op##_##kind##_check, op##_##kind##_name, op##_##kind##_contract, op##_##kind##_run}
// clang-format on

// Of several kernels of an op, the first that is `chosen` runs when the variant names none.
constexpr auto kKernels = std::to_array<Kernel>({
    ASSAY_ONE(softmax),
    ASSAY_ONE(logsumexp),
    ASSAY_KIND(layernorm, two_pass, true, nullptr),
    ASSAY_KIND(layernorm, one_pass, true, never),
    ASSAY_KIND(layernorm, one_pass_unclamped, false, never),  // a defect on purpose
    ASSAY_KIND(layernorm, welford, true, never),
    ASSAY_ONE(rmsnorm),
    ASSAY_ONE(wht),
    ASSAY_ONE(argmax),
    ASSAY_ONE(quantize),
    ASSAY_ONE(dequantize),
    ASSAY_ONE(requantize),
    ASSAY_ONE(kv_write),
    ASSAY_KIND(matmul, matrix, false, on_matrices<matmul_matrix_check>),
    ASSAY_KIND(matmul, scalar, true, nullptr),
    ASSAY_ONE(moe),
    ASSAY_KIND(attention, matrix, false, prefills_on_matrices),
    ASSAY_KIND(attention, split, true, splits),
    ASSAY_KIND(attention, whole, true, nullptr),
    ASSAY_KIND(attention, p_f16, true, never),
    ASSAY_KIND(attention, f16, false, never),
    ASSAY_KIND(attention, q8, false, never),
    ASSAY_KIND(attention, deferred, false, never),
    ASSAY_KIND(attention, convert_f16, true, never),
});

}  // namespace

std::span<const Kernel> kernels() {
  static const std::vector<Kernel> rows = [] {
    std::vector<Kernel> list(kKernels.begin(), kKernels.end());
    const std::span<const Kernel> more = replay_kernels();
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return rows;
}

std::string ftz(const Device& device) { return device.can().denormals_preserved ? "" : " ftz=yes"; }

}  // namespace assay_vulkan
