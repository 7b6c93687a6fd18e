#include "backends/cpu/kernels.hpp"

#include <array>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

std::string op_name(const Call& call) { return std::string(call.op()); }

#define ASSAY_PLAIN(op) \
  { #op, "", nullptr, op##_check, op_name, op##_contract, op##_run }
#define ASSAY_ATTENTION(kind, check)                                               \
  {                                                                                \
    "attention", #kind, attention_##kind##_chosen, check, attention_##kind##_name, \
        attention_##kind##_contract, attention_##kind##_run                        \
  }

bool never(const Call&) { return false; }  // runs only when a variant names it

#define ASSAY_NAMED(op) \
  { #op, "", nullptr, op##_check, op##_name, op##_contract, op##_run }
#define ASSAY_VARIANCE(kind, chosen)                                                                   \
  {                                                                                                    \
    "layernorm", #kind, chosen, layernorm_check, layernorm_##kind##_name, layernorm_##kind##_contract, \
        layernorm_##kind##_run                                                                         \
  }
// Of several kernels of an op, the first that is `chosen` runs when the variant names none.
constexpr auto kKernels = std::to_array<Kernel>({
    ASSAY_PLAIN(softmax),
    ASSAY_PLAIN(logsumexp),
    ASSAY_VARIANCE(two_pass, nullptr),
    ASSAY_VARIANCE(one_pass, never),
    ASSAY_VARIANCE(welford, never),
    ASSAY_PLAIN(rmsnorm),
    ASSAY_PLAIN(wht),
    ASSAY_NAMED(quantize),
    ASSAY_NAMED(dequantize),
    ASSAY_NAMED(requantize),
    ASSAY_NAMED(kv_write),
    ASSAY_NAMED(matmul),
    ASSAY_NAMED(moe),
    ASSAY_PLAIN(argmax),
    ASSAY_ATTENTION(decode, attention_check),
    ASSAY_ATTENTION(prefill, attention_check),
    ASSAY_ATTENTION(split, attention_check),
    ASSAY_ATTENTION(prefill_p_f16, attention_check),
    ASSAY_ATTENTION(decode_q8, attention_decode_q8_check),
    ASSAY_ATTENTION(convert_f16, attention_check),
});

}  // namespace

std::span<const Kernel> kernels() { return kKernels; }

}  // namespace assay_cpu
