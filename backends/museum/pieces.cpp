#include <array>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

// clang-format off
// The path is the routine that runs: nothing is announced.
#define ASSAY_PLAIN(routine, arguments) #routine, [](const Call& call, const Trace&, bool defect) { routine arguments; }
constexpr std::string_view kDecode = "mid=f32 roundings=1";
constexpr std::string_view kEncode = "scale=divide code=divide nan=propagate int_range=symmetric overflow=saturate";
constexpr std::string_view kFlash = "qk=f32 tile=32 exp_ulp=4 p=f32 denominator=exact rowsum=f32 pv=f32 out=dtype order=any";
constexpr std::string_view kFlashSplit = "qk=f32 tile=32 exp_ulp=4 p=f32 denominator=exact rowsum=f32 pv=f32 split=4 merge=once out=dtype order=any";
constexpr std::string_view kFlashFp8 = "qk=f32 tile=128 exp_ulp=4 p=e4m3fn p_shift=8 denominator=exact rowsum=f32 pv=hopper_fp8 promote=128 pv_block=32 out=dtype order=any";
constexpr std::string_view kFlashMixed = "qk=f32 tile=32 exp_ulp=4 p=f32 denominator=exact rowsum=f32 pv=f32 convert=f16 out=dtype order=any";
constexpr std::string_view kFlashDeferred = "v_inverse=row qk=f32 tile=32 exp_ulp=4 p=f32 denominator=exact rowsum=f32 pv=f32 out=dtype order=any";
constexpr std::string_view kFlashDeferredSplit = "v_inverse=row qk=f32 tile=32 exp_ulp=4 p=f32 denominator=exact rowsum=f32 pv=f32 split=4 merge=once out=dtype order=any";
constexpr std::string_view kProduct = "acc=f32 order=any";
constexpr std::string_view kInteger = "acc=i32";
constexpr std::string_view kExperts = "acc=i32 epilogue_roundings=3 gate_up=f32 silu_ulp=2 expert_out=f32";
constexpr std::string_view kTwoScales = "acc=i32 epilogue_roundings=4 gate_up=f32 silu_ulp=2 expert_out=f32";
constexpr std::string_view kPacked = "acc=f32 order=any epilogue_roundings=0 gate_up=f32 silu_ulp=2 expert_out=f32";
constexpr std::string_view kNorm = "acc=f32 order=any rsqrt_ulp=2 div_ulp=1";
constexpr std::string_view kTwoPass = "variance=two_pass acc=f32 order=any rsqrt_ulp=2 div_ulp=1";
constexpr std::string_view kSoftmax = "acc=f32 order=any exp=e exp_ulp=2 div_ulp=1";
constexpr std::string_view kTransform = "acc=f32 order=any";

// Two tiles of 32 rows of at most 512 f32, and what a row of the output is made in.
constexpr std::string_view kTiles = "deterministic=yes nan=propagate temporary_bytes=262144";

#define ASSAY_FLASH(name, contract, slip, ...) \
  {name, "attention", contract, ASSAY_PLAIN(flash, (call, defect ? Slip::slip : Slip::none, Flash{__VA_ARGS__}))}

constexpr auto kPieces = std::to_array<Piece>({
    {"tq3_centroids", "dequantize", kDecode, ASSAY_PLAIN(tq3_dequantize, (call, defect, false))},
    {"tq3_sign_mask", "dequantize", kDecode, ASSAY_PLAIN(tq3_dequantize, (call, false, defect))},
    {"tq3_raw_rms", "quantize", kEncode, ASSAY_PLAIN(tq3_quantize, (call, defect ? ScaleSlip::raw_rms : ScaleSlip::none))},
    {"tq3_zero_block", "quantize", kEncode, ASSAY_PLAIN(tq3_quantize, (call, defect ? ScaleSlip::one_for_zero_blocks : ScaleSlip::none))},
    ASSAY_FLASH("fn_read_as_fnuz", kFlash, fn_read_as_fnuz),
    {"fnuz_read_as_fn", "dequantize", kDecode, ASSAY_PLAIN(dequantize_as, (call, defect ? "e4m3fn" : "e4m3fnuz"))},
    {"fnuz_minus_zero", "quantize", kEncode, ASSAY_PLAIN(quantize_minus_zero, (call, defect))},
    {"nvfp4_global_multiplied", "dequantize", kDecode, ASSAY_PLAIN(nvfp4_dequantize, (call, defect, false))},
    {"nvfp4_swizzle_ignored", "dequantize", kDecode, ASSAY_PLAIN(dequantize_as, (call, defect ? "nvfp4" : "nvfp4_swizzled"))},
    {"nvfp4_nibbles_swapped", "dequantize", kDecode, ASSAY_PLAIN(nvfp4_dequantize, (call, false, defect))},
    {"ue4m3_signed", "dequantize", kDecode, ASSAY_PLAIN(ue4m3_scales, (call, defect))},
    {"reciprocal_for_divide", "quantize", kEncode, ASSAY_PLAIN(int8_by_reciprocal, (call, defect))},
    {"w4a8_metadata_dict", "matmul", kInteger, "moe_w4a8_int8", w4a8_by_metadata},
    {"moe_metadata_dict", "moe", kExperts, "moe_int8_experts", moe_by_metadata},
    {"moe_reordered_read_linearly", "moe", kPacked, ASSAY_PLAIN(moe_of_packed_words, (call, defect))},
    {"moe_first_scale_dropped", "moe", kTwoScales, ASSAY_PLAIN(moe_of_two_scales, (call, defect, false))},
    {"moe_scale_twice", "moe", kTwoScales, ASSAY_PLAIN(moe_of_two_scales, (call, false, defect))},
    {"group_scales_per_channel", "matmul", kProduct, ASSAY_PLAIN(matmul_rows, (call, defect, false))},
    ASSAY_FLASH("kv_scale_dropped", kFlash, scale_dropped),
    {"q_descale_skipped", "matmul", kProduct, ASSAY_PLAIN(matmul_rows, (call, false, defect))},
    {"quantiser_hides_nan", "quantize", kEncode, ASSAY_PLAIN(quantize_hiding_nan, (call, defect))},

    ASSAY_FLASH("max_from_minus_inf", kFlash, max_from_minus_inf),
    ASSAY_FLASH("max_from_half_f16", kFlash, max_from_half_f16),
    ASSAY_FLASH("masked_tile_keeps_pointer", kFlash, masked_tile_keeps_pointer),
    ASSAY_FLASH("no_visible_tile", kFlash, no_visible_tile),
    ASSAY_FLASH("split_metadata_partial", kFlashSplit, half_of_the_parts_merged, .split = 4),
    ASSAY_FLASH("f16_vkq_overflow", kFlash, f16_accumulator),
    ASSAY_FLASH("f16_kq_overflow", kFlash, f16_logits),
    ASSAY_FLASH("rescale_not_flushed", kFlash, rescale_not_flushed),
    ASSAY_FLASH("rescale_skipped", kFlash, rescale_skipped),
    ASSAY_FLASH("gqa_wrong_head", kFlash, power_of_two_group),
    ASSAY_FLASH("offset_overflow", kFlash, offset_in_32_bits),
    ASSAY_FLASH("block_id_truncated", kFlash, page_in_16_bits),
    ASSAY_FLASH("v_from_wrong_page", kFlash, one_page_per_tile, .tile = 64),
    ASSAY_FLASH("half_of_v_not_decoded", kFlash, half_v_raw),
    ASSAY_FLASH("v_view_of_k", kFlash, v_is_k),
    ASSAY_FLASH("rotation_not_undone", kFlash, never_unrotated),
    ASSAY_FLASH("single_level_14_bits", kFlashFp8, single_level, .tile = 128, .weights = Weights::e4m3fn),
    ASSAY_FLASH("freed_page_nan", kFlash, zero_times_freed),
    ASSAY_FLASH("f16_bits_in_bf16", kFlash, f16_bits),
    ASSAY_FLASH("missing_barrier", kFlash, tile_before_its_load),
    ASSAY_FLASH("f16_v_accumulator", kFlash, f16_accumulator),
    ASSAY_FLASH("deferred_inverse_left_out", kFlashDeferred, never_unrotated, .deferred = true),
    ASSAY_FLASH("deferred_inverse_twice", kFlashDeferred, inverse_twice, .deferred = true),
    ASSAY_FLASH("deferred_inverse_wrong_mask", kFlashDeferred, inverse_wrong_mask, .deferred = true),
    ASSAY_FLASH("deferred_inverse_before_merge", kFlashDeferredSplit, inverse_before_f16_merge, .split = 4, .deferred = true),

    {"one_pass_negative", "layernorm", kTwoPass, ASSAY_PLAIN(layernorm_by, (call, defect, false))},
    {"scalar_tail_squared", "layernorm", kTwoPass, ASSAY_PLAIN(layernorm_by, (call, false, defect))},
    {"partial_warp_dropped", "rmsnorm", kNorm, ASSAY_PLAIN(rmsnorm_by_warps, (call, defect))},
    {"max_of_first_warp", "softmax", kSoftmax, ASSAY_PLAIN(softmax_by_warps, (call, defect))},

    {"no_template_instance", "attention", kFlashMixed, "flash_q8_0_tq3_0", kv_template_instance},
    {"announced_instance", "attention", kFlashMixed, "flash_q8_0_tq3_0", announced_instance},
    {"undeclared_conversion", "attention", kFlash, "kv_by_one_entry", kv_by_one_entry},
    {"converted_buffer", "attention", kFlashMixed, "kv_by_one_entry", kv_by_one_entry, kTiles},
    {"mixed_types_unfused", "attention", kFlash, "flash_fused", fused_for_mixed_types},
    {"architecture_table", "matmul", kProduct, "gemm_fp8_native", architecture_table},
    {"exception_in_log", "matmul", kProduct, "gemm_tactic_17", logged_tactic},
    {"version_pin", "attention", kFlash, "flash_prebuilt", version_pin},
    {"one_sm_family", "matmul", kProduct, "gemm_nvfp4_native", sm_family},
    {"hadamard_hint_missed", "wht", kTransform, "hadamard_fast", hadamard_hint},
});
#undef ASSAY_PLAIN
#undef ASSAY_FLASH
// clang-format on

}  // namespace

std::span<const Piece> pieces() { return kPieces; }

}  // namespace assay_museum
