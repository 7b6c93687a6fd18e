#include "backends/cpu/kernels.hpp"

#include <array>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

std::string op_name(const Call& call) { return std::string(call.op()); }

#define ASSAY_PLAIN(op) \
  { #op, "", nullptr, op##_check, op_name, op##_contract, op##_run }
#define ASSAY_ATTENTION(kind)                                                                \
  {                                                                                          \
    "attention", #kind, attention_##kind##_chosen, attention_check, attention_##kind##_name, \
        attention_##kind##_contract, attention_##kind##_run                                  \
  }

constexpr auto kKernels = std::to_array<Kernel>({
    ASSAY_PLAIN(softmax),
    ASSAY_PLAIN(wht),
    ASSAY_ATTENTION(decode),
    ASSAY_ATTENTION(prefill),
    ASSAY_ATTENTION(split),
});

}  // namespace

std::span<const Kernel> kernels() { return kKernels; }

}  // namespace assay_cpu
