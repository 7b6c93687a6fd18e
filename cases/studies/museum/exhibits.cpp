#include "cases/studies/museum/exhibits.hpp"

namespace assay::museum {
namespace {

using enum Status;

constexpr Exhibit state(std::string_view number, std::string_view name, std::string_view title,
                        std::string_view citation) {
  return {number, name, title, citation, "", wrong, "", nullptr, true};
}
constexpr Exhibit check(std::string_view number, std::string_view name, std::string_view title,
                        std::string_view citation, std::string_view correct_behaviour, Noticed (*run)()) {
  return {number, name, title, citation, "", wrong, correct_behaviour, run, false};
}

// clang-format off
constexpr Exhibit kExhibits[] = {
    // Formats and scales
    {"1", "tq3_centroids", "tq3_0 centroids 0.3 and 1.0, copied from a variant that does not rotate", "field report on TQ3_0",
     "dequantize rows=4 cols=256 from=tq3_0_c2", wrong, "0.4528 and 1.510, the Lloyd-Max centroids"},
    {"2", "tq3_sign_mask", "tq3_0 sign mask 0xAA6CD4B2", "field report on TQ3_0",
     "dequantize rows=4 cols=256 from=tq3_0_c2", wrong, "0xB1A6D4B2"},
    {"2b", "deferred_inverse_left_out", "deferred inverse of tq3_0 left out: the output stays in V's rotated basis", "field report on TQ3_0",
     "attention heads=2 d=64 len=128 k=q8_0 v=tq3_0_c2", wrong, "transforms the row back"},
    {"2c", "deferred_inverse_twice", "deferred inverse of tq3_0 applied twice: the conversion to f16 had undone it already", "field report on TQ3_0",
     "attention heads=2 d=64 len=128 k=q8_0 v=tq3_0_c2", wrong, "transforms back what is rotated"},
    {"2d", "deferred_inverse_wrong_mask", "deferred inverse of tq3_0 by the sign mask 0xAA6CD4B2", "field report on TQ3_0",
     "attention heads=2 d=64 len=128 k=q8_0 v=tq3_0_c2", wrong, "0xB1A6D4B2"},
    {"2e", "deferred_inverse_before_merge", "deferred inverse of tq3_0 applied to each part of a split, stored in f16, then merged", "field report on TQ3_0",
     "attention heads=2 d=32 len=16 k=q8_0 v=tq3_0_c2 dtype=f32 fill=constant", wrong, "merges in f32, then transforms back once"},
    {"3a", "tq3_raw_rms", "tq3_0 stores the raw RMS of a block", "field report on TQ3_0",
     "quantize rows=4 cols=256 to=tq3_0_c2", wrong, "a scale that keeps the block's norm"},
    {"3b", "tq3_zero_block", "tq3_0 forces the scale of a zero block to 1: structured noise", "field report on TQ3_0",
     "quantize rows=4 cols=256 to=tq3_0_c2 fill=sparse", wrong, "scale 0, and zeros"},
    {"4a", "fn_read_as_fnuz", "e4m3fn K and V read as e4m3fnuz: half of every value", "vLLM #45562, #45720",
     "attention heads=2 d=64 len=128 q=2 kv=e4m3fn_tensor", wrong, "reads the encoding that the cache has"},
    {"4b", "fnuz_read_as_fn", "e4m3fnuz read as e4m3fn", "vLLM #45562, #45720",
     "dequantize rows=4 cols=256 from=e4m3fnuz", wrong, "reads the encoding that the tensor has"},
    {"5", "fnuz_minus_zero", "a negative that underflows is stored as 0x80, which is NaN in FNUZ", "SGLang #28455",
     "quantize rows=16 cols=2048 to=e4m3fnuz_tensor fill=outlier", wrong, "stores 0"},
    {"6", "nvfp4_global_multiplied", "nvfp4 global scale multiplied instead of divided", "vLLM #55643; GB10 report",
     "dequantize rows=4 cols=256 from=nvfp4", wrong, "divides"},
    {"7a", "nvfp4_swizzle_ignored", "nvfp4 block scales written swizzled, read linearly", "vLLM #50084",
     "dequantize rows=128 cols=64 from=nvfp4_swizzled", wrong, "follows the 128x4 order"},
    {"7b", "nvfp4_nibbles_swapped", "nvfp4 high nibble first", "vLLM #50084",
     "dequantize rows=4 cols=256 from=nvfp4", wrong, "low nibble first"},
    {"8", "ue4m3_signed", "ue4m3 scales read as signed: the highest of the seven magnitude bits taken for a sign", "llama.cpp #25608",
     "dequantize rows=4 cols=256 from=ue4m3 fill=codes", wrong, "all seven bits are magnitude"},
    {"9", "reciprocal_for_divide", "x * (1 / scale) under a declared division: differs on tie-aligned data only", "field report: 294 of 6174 there, 0 of 504,000 on random data",
     "quantize rows=16 cols=1024 to=int8_tok fill=quotient_ties", wrong, "divides"},
    {"10a", "w4a8_metadata_dict", "weight metadata a dict instead of a list: the W4A8 kernel is skipped silently", "ProgressiveSpec report",
     "matmul m=4 n=64 k=128 a=int8_tok b=int4_ch dtype=bf16", fallback, "takes the W4A8 kernel"},
    {"10b", "group_scales_per_channel", "per-group scales fed to a per-channel epilogue", "ProgressiveSpec report",
     "matmul m=4 n=32 k=128 a=f32 b=int4_g32 dtype=f32 path=f32 fill=outlier", wrong, "a scale for each group of 32"},
    {"10c", "moe_metadata_dict", "the same in a mixture of experts: the W4A8 kernel is announced, and f32 is multiplied", "ProgressiveSpec report",
     "moe tokens=4 hidden=64 inter=32 experts=4 topk=2 a=int8_tok w=int4_ch dtype=f32", wrong, "enters the W4A8 kernel"},
    {"10d", "moe_reordered_read_linearly", "weights packed eight to an int32 and reordered, read linearly", "ProgressiveSpec report; AWQ",
     "moe tokens=4 hidden=64 inter=32 experts=4 topk=2 a=bf16 w=int4_g32_packed dtype=f32", wrong, "undoes the order"},
    {"10e", "moe_first_scale_dropped", "weight_scale of weight_scale x weight_scale_2 is dropped", "ProgressiveSpec report",
     "moe tokens=4 hidden=64 inter=32 experts=4 topk=2 a=int8_tok w=int4_ch_tensor dtype=f32", wrong, "multiplies both"},
    {"10f", "moe_scale_twice", "a scale that the loader multiplied is applied again", "ProgressiveSpec report",
     "moe tokens=4 hidden=64 inter=32 experts=4 topk=2 a=int8_tok w=int4_ch_tensor dtype=f32", wrong, "once"},
    {"11a", "kv_scale_dropped", "K and V scales loaded and never applied", "vLLM #27232, #54623",
     "attention heads=2 d=64 len=128 q=2 kv=e4m3fn_head", wrong, "applies them"},
    {"11b", "q_descale_skipped", "FP8 product whose left scale (Q's) is skipped", "vLLM #42580",
     "matmul m=4 n=32 k=128 a=e4m3fn_tok b=e4m3fn_tok dtype=f32 path=f32", wrong, "applies both scales"},
    {"12", "quantiser_hides_nan", "quantiser hides NaN: a maximum that drops it, and a code of 0", "ggml q8_0, q4_0, mxfp4, nvfp4",
     "quantize rows=4 cols=256 to=e4m3fn_tok fault=nan_code", wrong, "the element comes back as NaN"},

    // Attention
    {"13a", "max_from_minus_inf", "running maximum starts at -inf, and a masked tile gives inf - inf", "llama.cpp #12776",
     "attention heads=2 d=64 len=128 q=8 mask=window window=16 fill=value_mean", wrong, "guards the first maximum"},
    {"13b", "max_from_half_f16", "running maximum starts at -65504/2, real scores lie lower", "llama.cpp #13090",
     "attention heads=2 d=64 len=256 fill=abyss", wrong, "starts at -inf"},
    {"14a", "masked_tile_keeps_pointer", "`continue` at a masked tile skips the increment of the K/V pointer", "llama.cpp #14916",
     "attention heads=2 d=64 len=128 q=8 mask=window window=16 fill=value_mean", wrong, "moves on"},
    {"14b", "no_visible_tile", "every tile of a row is masked: normalised by a sum of 0", "llama.cpp #15321",
     "attention heads=2 d=64 len=16 q=40 mask=causal", wrong, "the row is 0"},
    {"15", "split_metadata_partial", "combine of a split decode reads the metadata of the first parts only", "llama.cpp #13852",
     "attention heads=2 d=64 len=4096 fill=value_mean", wrong, "merges every part"},
    {"16a", "f16_vkq_overflow", "f16 accumulator of P V overflows", "llama.cpp #17746, #18606",
     "attention heads=2 d=64 len=256 fill=extreme", wrong, "accumulates in f32, as declared"},
    {"16b", "f16_kq_overflow", "q.k formed in f16 overflows in one kernel", "llama.cpp #17875",
     "attention heads=2 d=64 len=256 fill=huge_logits", wrong, "forms it in f32, as declared"},
    {"17a", "rescale_not_flushed", "exp of the rescale by exponent bits, which wrap where it should be 0", "llama.cpp #13991",
     "attention heads=2 d=64 len=256 fill=abyss", wrong, "flushes to 0"},
    {"17b", "rescale_skipped", "one block's rescale is missing", "flash-decode reports",
     "attention heads=2 d=64 len=96 fill=ramp", wrong, "rescales at every new maximum"},
    {"18a", "gqa_wrong_head", "three query heads to a KV head: the head is found by a shift", "llama.cpp #19115",
     "attention heads=12 kv_heads=4 d=64 len=96", wrong, "divides"},
    {"18b", "offset_overflow", "row offsets of 32 bits wrap past 4 GiB: the rows span 8 GiB by their strides", "llama.cpp #23610, #24945; AITER #4774",
     "attention heads=1 d=64 len=96 layout=far", Status::leak, "64-bit offsets"},
    {"18c", "block_id_truncated", "block ids above 65,535 read another page (at full scale: 81,921 pages)", "AITER report",
     "attention heads=1 d=8 len=65536 page=1 fill=window_onehot", Status::leak, "32-bit block ids"},
    {"19a", "v_from_wrong_page", "V's page looked up once per tile: wrong for pages below 64 and head dim 256", "FlashInfer #3022",
     "attention heads=1 d=256 len=256 page=16", wrong, "looked up for every key"},
    {"19b", "half_of_v_not_decoded", "half of each V row is not decoded: type missing from a per-type list", "FlashInfer #3022",
     "attention heads=2 d=64 len=128 q=2 kv=e4m3fn_head", wrong, "decodes all of it"},
    {"20a", "v_view_of_k", "V taken for a view of K because its offset is 0", "llama.cpp #19145",
     "attention heads=2 d=64 len=128 q=2", wrong, "compares the tensors"},
    {"20b", "rotation_not_undone", "the output is never un-rotated", "llama.cpp #25382, #26423",
     "attention heads=2 d=64 len=128 q=2 rotate=qkv", wrong, "one inverse transform per head"},
    {"21", "single_level_14_bits", "FP8 P V accumulated in 14 bits alone under a two-level declaration", "flash-attention #104: needle at 128k 91 % -> 13 %",
     "attention heads=1 d=32 len=131072 kv=e4m3fn dtype=bf16 fill=uniform", wrong, "promotes to f32 every 128 keys"},
    {"22a", "freed_page_nan", "positions behind the end hold NaN, weigh 0 and are multiplied", "vLLM #641, FA3 #2374, FlashInfer #942",
     "attention heads=2 d=64 len=77 batch=3 page=16 lengths=ragged fault=poison_tails", Status::leak, "never multiplies them"},
    state("22b", "null_block_poisoned", "NaN written to the null block reaches every request", "vLLM #39444"),
    state("23", "block_committed_early", "prefix-cache block committed before its KV is written", "vLLM #50283"),
    {"24", "f16_bits_in_bf16", "f16 bits written into a bf16 output", "cudnn-frontend #414",
     "attention heads=2 d=64 len=128 q=2 kv=bf16 dtype=bf16", wrong, "writes bf16"},
    {"25", "missing_barrier", "a tile of V is used before its load is complete; which one changes with every run", "FlashInfer #2716; llama.cpp #13742",
     "attention heads=2 d=64 len=160 q=2", nondeterministic, "waits"},

    // Normalisation and softmax
    {"26", "one_pass_negative", "one-pass variance goes negative: NaN", "field report: -3.178e-7 under eps 1e-12",
     "layernorm rows=16 cols=512 dtype=f32 eps=1e-12 fill=constant", wrong, "two passes, as declared"},
    {"27", "scalar_tail_squared", "the scalar tail of a norm stores the square that it summed", "llama.cpp #16558",
     "layernorm rows=4 cols=33 dtype=f32", wrong, "stores the difference"},
    {"28", "partial_warp_dropped", "the sum of a partial warp is dropped", "llama.cpp #26708",
     "rmsnorm rows=4 cols=33 dtype=f32", wrong, "sums every element"},
    {"29", "max_of_first_warp", "softmax takes its maximum from the first warp alone", "llama.cpp #24451",
     "softmax rows=16 cols=128 dtype=f32 fill=extreme", wrong, "of every element"},

    // Dispatch: the answer is right, the path is not
    {"30", "no_template_instance", "no instance for (q8_0, tq3_0): V is converted to f16 first", "field report on TQ3_0: 6.8 times slower",
     "attention heads=2 d=64 len=128 k=q8_0 v=tq3_0_c2", fallback, "has the instance"},
    {"30b", "announced_instance", "the dispatcher announces the instance for (q8_0, tq3_0) that is missing, and converts V to f16", "field report on TQ3_0",
     "attention heads=2 d=256 len=160 k=q8_0 v=tq3_0_c2", fallback, "enters the instance"},
    {"30c", "undeclared_conversion", "V in tq3_0 converted to f16 under a declaration without one: each number is rounded", "field report on TQ3_0",
     "attention heads=2 d=512 len=160 k=q8_0 v=tq3_0_c2 dtype=f32 fill=constant", wrong, "decodes V where it is used"},
    {"30d", "converted_buffer", "V in tq3_0 converted to a buffer of f16 that is larger than the cache", "field report on TQ3_0",
     "attention heads=1 d=512 len=512 k=q8_0 v=tq3_0_c2", fallback, "takes a tile at a time"},
    {"31", "mixed_types_unfused", "K and V of different types leave the fused kernel", "llama.cpp #28455: 1511 -> 197 tok/s",
     "attention heads=2 d=64 len=128 k=q8_0 v=q4_0", fallback, "stays fused"},
    {"32", "architecture_table", "architecture table lacks gfx1201: f32 instead of FP8", "AITER; vLLM #46192",
     "matmul m=4 n=32 k=128 a=e4m3fn_tok b=e4m3fn_tok path=codes dtype=bf16", fallback, "has the row"},
    {"33", "exception_in_log", "an exception inside a debug log line forces the fallback tactic", "FlashInfer #2882",
     "matmul m=4 n=32 k=128 a=bf16 b=bf16 dtype=bf16", fallback, "the line logs"},
    {"34", "version_pin", "versions compared as text: the fast build is missed", "vllm-omni #6971",
     "attention heads=2 d=64 len=128 q=4 mask=causal", fallback, "compares numbers"},
    {"35", "one_sm_family", "a check names one family: SM121 takes the bf16 path", "vLLM #31085",
     "matmul m=4 n=32 k=128 a=bf16 b=nvfp4 path=bf16 dtype=bf16", fallback, "from that family on"},
    {"36", "hadamard_hint_missed", "Hadamard hint missed: a plain matrix product", "ggml",
     "wht rows=4 cols=256 dtype=f32", fallback, "the fast transform"},

    // State: scenarios
    state("37a", "scale_locked_on_first_request", "scale locked on the first request", "vLLM #11906 until #49389"),
    state("37b", "scale_from_dummy_pass", "scale taken from a dummy pass", "vLLM #37554"),
    state("38", "reordered_weights", "reordered weights read by the old dequantiser: garbage on the second prompt", "llama.cpp #21638"),
    state("39", "cache_of_another_rotation", "restored KV cache with another rotation silently misread", "llama.cpp #28498"),
    state("40", "nan_in_cached_prefix", "NaN in a cached prefix poisons later requests", "the cascade report"),

    // Found while preparing this project
    {"41", "f16_v_accumulator", "P V accumulated in f16 for f16 V", "ggml CPU flash attention: NMSE 1.2e-5 at 512 keys",
     "attention heads=2 d=64 len=1024", wrong, "accumulates in f32, as declared"},
    check("42a", "matching_infinity", "a matching Inf makes the whole case vacuous", "llama.cpp test-backend-ops", "every element is judged", matching_infinity),
    check("42b", "nothing_tested", "0 of 0 tests passed: OK", "llama.cpp test-backend-ops -o NOSUCHOP", "nothing judged is no pass", nothing_tested),
    check("43", "unread_ratio", "a failed comparison is logged, and its ratio read by nobody", "AITER op tests: 308 of 572 calls", "one bad element makes the run red", unread_ratio),
};
// clang-format on

}  // namespace

std::span<const Exhibit> exhibits() { return kExhibits; }

}  // namespace assay::museum
