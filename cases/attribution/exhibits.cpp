#include "cases/attribution/exhibits.hpp"

#include <algorithm>
#include <span>

namespace assay::attribution {
namespace {

// The museum's own list (cases/studies/museum/exhibits.cpp) by what was wrong; `assay attribution` refuses a
// list that differs from its corpus.
// clang-format off
constexpr Exhibit kExhibits[] = {
    {"tq3_centroids", "dequantize", "codec", "tq3_0 centroids 0.3 and 1.0, copied from a variant that does not rotate (field report on TQ3_0)"},
    {"tq3_sign_mask", "dequantize", "codec", "tq3_0 sign mask 0xAA6CD4B2 (field report on TQ3_0)"},
    {"tq3_raw_rms", "quantize", "codec", "tq3_0 stores the raw RMS of a block (field report on TQ3_0)"},
    {"tq3_zero_block", "quantize", "codec", "tq3_0 forces the scale of a zero block to 1: structured noise (field report on TQ3_0)"},
    {"fn_read_as_fnuz", "attention", "codec", "e4m3fn K and V read as e4m3fnuz: half of every value (vLLM #45562, #45720)"},
    {"fnuz_read_as_fn", "dequantize", "codec", "e4m3fnuz read as e4m3fn (vLLM #45562, #45720)"},
    {"fnuz_minus_zero", "quantize", "codec", "a negative that underflows is stored as 0x80, which is NaN in FNUZ (SGLang #28455)"},
    {"nvfp4_global_multiplied", "dequantize", "codec", "nvfp4 global scale multiplied instead of divided (vLLM #55643; GB10 report)"},
    {"nvfp4_swizzle_ignored", "dequantize", "codec", "nvfp4 block scales written swizzled, read linearly (vLLM #50084)"},
    {"nvfp4_nibbles_swapped", "dequantize", "codec", "nvfp4 high nibble first (vLLM #50084)"},
    {"ue4m3_signed", "dequantize", "codec", "ue4m3 scales read as signed: the highest of the seven magnitude bits taken for a sign (llama.cpp #25608)"},
    {"reciprocal_for_divide", "quantize", "codec", "x * (1 / scale) under a declared division: differs on tie-aligned data only (field report: 294 of 6174 there, 0 of 504,000 on random data)"},
    {"w4a8_metadata_dict", "matmul", "dispatch", "weight metadata a dict instead of a list: the W4A8 kernel is skipped silently (ProgressiveSpec report)"},
    {"group_scales_per_channel", "matmul", "codec,scale", "per-group scales fed to a per-channel epilogue (ProgressiveSpec report)"},
    {"kv_scale_dropped", "attention", "codec", "K and V scales loaded and never applied (vLLM #27232, #54623)"},
    {"q_descale_skipped", "matmul", "scale", "FP8 product whose left scale (Q's) is skipped (vLLM #42580)"},
    {"quantiser_hides_nan", "quantize", "codec", "quantiser hides NaN: a maximum that drops it, and a code of 0 (ggml q8_0, q4_0, mxfp4, nvfp4)"},
    {"max_from_minus_inf", "attention", "max", "running maximum starts at -inf, and a masked tile gives inf - inf (llama.cpp #12776)"},
    {"max_from_half_f16", "attention", "max", "running maximum starts at -65504/2, real scores lie lower (llama.cpp #13090)"},
    {"masked_tile_keeps_pointer", "attention", "addressing", "`continue` at a masked tile skips the increment of the K/V pointer (llama.cpp #14916)"},
    {"no_visible_tile", "attention", "output", "every tile of a row is masked: normalised by a sum of 0 (llama.cpp #15321)"},
    {"split_metadata_partial", "attention", "merge", "combine of a split decode reads the metadata of the first parts only (llama.cpp #13852)"},
    {"f16_vkq_overflow", "attention", "pv", "f16 accumulator of P V overflows (llama.cpp #17746, #18606)"},
    {"f16_kq_overflow", "attention", "qk", "q.k formed in f16 overflows in one kernel (llama.cpp #17875)"},
    {"rescale_not_flushed", "attention", "rescale", "exp of the rescale by exponent bits, which wrap where it should be 0 (llama.cpp #13991)"},
    {"rescale_skipped", "attention", "rescale", "one block's rescale is missing (flash-decode reports)"},
    {"gqa_wrong_head", "attention", "addressing", "three query heads to a KV head: the head is found by a shift (llama.cpp #19115)"},
    {"offset_overflow", "attention", "addressing", "row offsets of 32 bits wrap past 4 GiB: the rows span 8 GiB by their strides (llama.cpp #23610, #24945; AITER #4774)"},
    {"block_id_truncated", "attention", "addressing", "block ids above 65,535 read another page (at full scale: 81,921 pages) (AITER report)"},
    {"v_from_wrong_page", "attention", "addressing", "V's page looked up once per tile: wrong for pages below 64 and head dim 256 (FlashInfer #3022)"},
    {"half_of_v_not_decoded", "attention", "codec", "half of each V row is not decoded: type missing from a per-type list (FlashInfer #3022)"},
    {"v_view_of_k", "attention", "addressing", "V taken for a view of K because its offset is 0 (llama.cpp #19145)"},
    {"rotation_not_undone", "attention", "output", "the output is never un-rotated (llama.cpp #25382, #26423)"},
    {"single_level_14_bits", "attention", "pv", "FP8 P V accumulated in 14 bits alone under a two-level declaration (flash-attention #104: needle at 128k 91 % -> 13 %)"},
    {"freed_page_nan", "attention", "pv,mask", "positions behind the end hold NaN, weigh 0 and are multiplied (vLLM #641, FA3 #2374, FlashInfer #942)"},
    {"f16_bits_in_bf16", "attention", "output", "f16 bits written into a bf16 output (cudnn-frontend #414)"},
    {"missing_barrier", "attention", "race", "a tile of V is used before its load is complete; which one changes with every run (FlashInfer #2716; llama.cpp #13742)"},
    {"one_pass_negative", "layernorm", "moments", "one-pass variance goes negative: NaN (field report: -3.178e-7 under eps 1e-12)"},
    {"scalar_tail_squared", "layernorm", "normalise,output", "the scalar tail of a norm stores the square that it summed (llama.cpp #16558)"},
    {"partial_warp_dropped", "rmsnorm", "moments", "the sum of a partial warp is dropped (llama.cpp #26708)"},
    {"max_of_first_warp", "softmax", "max", "softmax takes its maximum from the first warp alone (llama.cpp #24451)"},
    {"no_template_instance", "attention", "dispatch", "no instance for (q8_0, tq3_0): V is converted to f16 first (field report on TQ3_0: 6.8 times slower)"},
    {"mixed_types_unfused", "attention", "dispatch", "K and V of different types leave the fused kernel (llama.cpp #28455: 1511 -> 197 tok/s)"},
    {"architecture_table", "matmul", "dispatch", "architecture table lacks gfx1201: f32 instead of FP8 (AITER; vLLM #46192)"},
    {"exception_in_log", "matmul", "dispatch", "an exception inside a debug log line forces the fallback tactic (FlashInfer #2882)"},
    {"version_pin", "attention", "dispatch", "versions compared as text: the fast build is missed (vllm-omni #6971)"},
    {"one_sm_family", "matmul", "dispatch", "a check names one family: SM121 takes the bf16 path (vLLM #31085)"},
    {"hadamard_hint_missed", "wht", "dispatch", "Hadamard hint missed: a plain matrix product (ggml)"},
    {"f16_v_accumulator", "attention", "pv", "P V accumulated in f16 for f16 V (ggml CPU flash attention: NMSE 1.2e-5 at 512 keys)"},
};
// clang-format on

bool has_stage(std::string_view stages, std::string_view stage) {
  while (!stages.empty()) {
    const auto end = std::min(stages.find(','), stages.size());
    if (stages.substr(0, end) == stage) return true;
    stages.remove_prefix(std::min(end + 1, stages.size()));
  }
  return false;
}

}  // namespace

std::span<const Exhibit> exhibits() { return kExhibits; }

std::vector<const Exhibit*> nearest_exhibits(std::string_view op, std::string_view stage, std::size_t most) {
  std::vector<const Exhibit*> near;
  for (const bool same_op : {true, false})
    for (const Exhibit& e : kExhibits)
      if ((e.op == op) == same_op && has_stage(e.stages, stage) && near.size() < most) near.push_back(&e);
  return near;
}

}  // namespace assay::attribution
