#include "backends/cpu/kernels.hpp"

#include <array>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

// Of a kernel that meets the tiles of keys in their order, in one part.
template <std::string (*kContract)(const Call& call, const Engine& engine)>
std::string in_tiles(const Call& call, const Engine& engine) {
  std::string text = kContract(call, engine);
  const std::string_view any = " order=any";
  return text.replace(text.find(any), any.size(), " order=tiles scaling=scores tiles=aligned sink=last");
}

// clang-format off
#define ASSAY_PLAIN(op) {#op, "", false, nullptr, op##_check, op##_contract, op##_run, #op "_run"}
#define ASSAY_KIND(op, kind, listed, chosen, check) \
  {#op, #kind, listed, chosen, check, op##_##kind##_contract, op##_##kind##_run, #op "_" #kind "_run"}
// The same kernel, with its schedule declared whole: judged bit by bit (level=replay).
#define ASSAY_REPLAYED(op, word, check, kernel) \
  {#op, word, false, never, check, kernel##_replay_contract, kernel##_run, #kernel "_run"}
// The same kernel, with the order of its tiles declared: judged key by key, which takes a limit longer than
// the kernel.
#define ASSAY_IN_TILES(kind) \
  {"attention", #kind "_tiles", false, never, attention_tiles_check, in_tiles<attention_##kind##_contract>, \
   attention_##kind##_run, "attention_" #kind "_run"}
#define ASSAY_ATTENTION(kind, listed, check) ASSAY_KIND(attention, kind, listed, attention_##kind##_chosen, check)
// clang-format on

// Of several kernels of an op, the first that is `chosen` runs when the variant names none.
constexpr auto kKernels = std::to_array<Kernel>({
    ASSAY_PLAIN(softmax),
    ASSAY_REPLAYED(softmax, "replay", softmax_check, softmax),
    ASSAY_PLAIN(logsumexp),
    ASSAY_REPLAYED(logsumexp, "replay", logsumexp_check, logsumexp),
    ASSAY_KIND(layernorm, two_pass, true, nullptr, layernorm_check),
    ASSAY_KIND(layernorm, one_pass, true, never, layernorm_check),
    ASSAY_KIND(layernorm, one_pass_unclamped, false, never, layernorm_check),  // a defect on purpose
    ASSAY_KIND(layernorm, welford, true, never, layernorm_check),
    ASSAY_REPLAYED(layernorm, "two_pass_replay", layernorm_check, layernorm_two_pass),
    ASSAY_REPLAYED(layernorm, "one_pass_replay", layernorm_check, layernorm_one_pass),
    ASSAY_PLAIN(rmsnorm),
    ASSAY_REPLAYED(rmsnorm, "replay", rmsnorm_check, rmsnorm),
    ASSAY_PLAIN(wht),
    ASSAY_REPLAYED(wht, "replay", wht_check, wht),
    ASSAY_PLAIN(quantize),
    ASSAY_PLAIN(dequantize),
    ASSAY_PLAIN(requantize),
    ASSAY_PLAIN(kv_write),
    ASSAY_PLAIN(matmul),
    ASSAY_REPLAYED(matmul, "replay", matmul_check, matmul),
    ASSAY_PLAIN(moe),
    ASSAY_REPLAYED(moe, "replay", moe_check, moe),
    ASSAY_PLAIN(argmax),
    ASSAY_ATTENTION(decode, true, attention_check),
    ASSAY_ATTENTION(prefill, true, attention_check),
    ASSAY_ATTENTION(split, true, attention_check),
    ASSAY_ATTENTION(prefill_p_f16, true, attention_check),
    ASSAY_ATTENTION(decode_q8, false, attention_decode_q8_check),
    ASSAY_ATTENTION(deferred, false, attention_deferred_check),
    ASSAY_ATTENTION(convert_f16, true, attention_check),
    ASSAY_IN_TILES(decode),
    ASSAY_IN_TILES(prefill),
    ASSAY_IN_TILES(prefill_p_f16),
    ASSAY_IN_TILES(convert_f16),
    ASSAY_REPLAYED(attention, "decode_replay", attention_check, attention_decode),
    ASSAY_REPLAYED(attention, "prefill_replay", attention_check, attention_prefill),
    ASSAY_REPLAYED(attention, "prefill_p_f16_replay", attention_check, attention_prefill_p_f16),
    ASSAY_REPLAYED(attention, "split_replay", attention_check, attention_split),
    ASSAY_REPLAYED(attention, "decode_q8_replay", attention_decode_q8_check, attention_decode_q8),
    ASSAY_REPLAYED(attention, "deferred_replay", attention_deferred_check, attention_deferred),
    ASSAY_REPLAYED(attention, "convert_f16_replay", attention_check, attention_convert_f16),
});

}  // namespace

std::span<const Kernel> kernels() { return kKernels; }

}  // namespace assay_cpu
