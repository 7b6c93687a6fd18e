#include "backends/gpu/kernels.hpp"

#include <array>

#include "backends/gpu/operands.hpp"
#include "backends/gpu/ops.hpp"

namespace assay_gpu {
namespace {

bool matmul_has_integers(const Call& call) {
  return Product(call.text("a"), call.text("b"), call.text("path")).integer();
}
bool moe_has_integers(const Call& call) {
  return Product(call.text("a"), call.text("w"), call.text("path")).integer();
}

// clang-format off
#define ASSAY_OP(op, kind, chosen, check) {#op, #kind, chosen, check, op##_##kind##_name, op##_##kind##_contract, op##_##kind##_run}
// clang-format on

const auto kOps = std::to_array<Kernel>({
    ASSAY_OP(softmax, block, nullptr, softmax_check),
    ASSAY_OP(logsumexp, block, nullptr, logsumexp_check),
    ASSAY_OP(layernorm, two_pass, nullptr, layernorm_check),
    ASSAY_OP(layernorm, one_pass, never, layernorm_check),
    ASSAY_OP(layernorm, welford, never, layernorm_check),
    ASSAY_OP(rmsnorm, block, nullptr, rmsnorm_check),
    ASSAY_OP(wht, warp, wht_warp_chosen, wht_warp_check),
    ASSAY_OP(wht, block, nullptr, wht_check),
    ASSAY_OP(argmax, block, nullptr, argmax_check),
    ASSAY_OP(quantize, bits, nullptr, quantize_check),
    ASSAY_OP(dequantize, bits, nullptr, dequantize_check),
    ASSAY_OP(requantize, bits, nullptr, requantize_check),
    ASSAY_OP(kv_write, bits, nullptr, kv_write_check),
    ASSAY_GEMM_ROWS("dp4a", gemm_dp4a, matmul_has_integers, moe_has_integers),
    ASSAY_GEMM_ROWS("f32", gemm_f32, nullptr, nullptr),
    ASSAY_REPLAY_ROWS("f32_replay", gemm_f32, false),
    ASSAY_REPLAY_ROWS("dp4a_replay", gemm_dp4a, false),
});
#undef ASSAY_OP

}  // namespace

std::span<const Kernel> op_kernels() { return kOps; }

}  // namespace assay_gpu
