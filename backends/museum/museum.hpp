// The museum's kernels: scalar, small, and each with one defect that shipped in a real engine behind a
// switch. With the switch off the same code is the correct counterpart, and declares the same arithmetic.
#pragma once

#include <span>
#include <string_view>

#include "backends/cpu/attention.hpp"
#include "backends/cpu/call.hpp"
#include "backends/cpu/codecs.hpp"
#include "backends/cpu/kernels.hpp"
#include "backends/cpu/layouts.hpp"
#include "backends/cpu/ops.hpp"
#include "backends/cpu/rows.hpp"

namespace assay_museum {

using namespace assay_cpu;

// One row: variant NAME runs it with the defect, NAME.correct without.
struct Piece {
  std::string_view name;
  std::string_view op;
  std::string_view contract;  // of both
  std::string_view path;      // the kernel that both claim to run
  void (*run)(const Call& call, const Trace& trace, bool defect);
  std::string_view promises = "deterministic=yes nan=propagate";
};
std::span<const Piece> pieces();

// attention.cpp: a flash-style kernel, one query row after the other. Keys go by tiles through an online
// softmax, in `split` parts that are merged.
enum class Slip {
  none,
  fn_read_as_fnuz,            // K and V codes decoded with the other FP8 bias
  scale_dropped,              // K and V codes used without their scales
  max_from_minus_inf,         // no guard: inf - inf where a whole tile is masked
  max_from_half_f16,          // the running maximum starts at -65504 / 2
  masked_tile_keeps_pointer,  // `continue` skips the increment of the K/V position
  no_visible_tile,            // normalises by a sum of 0
  half_of_the_parts_merged,   // the metadata of the later parts are never initialised
  f16_accumulator,            // sum p v kept in f16
  f16_logits,                 // q . k formed in f16
  rescale_not_flushed,        // exp by exponent bits, which wrap below -126
  rescale_skipped,            // of one tile
  power_of_two_group,         // head -> KV head by a shift
  offset_in_32_bits,          // byte offsets of rows wrap
  page_in_16_bits,            // page numbers wrap
  one_page_per_tile,          // V's page looked up once per tile
  half_v_raw,                 // the second half of each V row: codes without their scale
  v_is_k,                     // V taken for a view of K
  never_unrotated,            // the output stays in V's rotated basis
  single_level,               // PV accumulated in the matrix unit alone
  zero_times_freed,           // positions beyond the end weigh 0 and are multiplied
  f16_bits,                   // f16 codes stored into a bf16 output
  tile_before_its_load,       // a missing barrier: one tile of V is still the one before
  inverse_twice,              // V in tq3_0 was converted, and so transformed back, before the sum was
  inverse_wrong_mask,         // the row is transformed back by the signs 0xAA6CD4B2
  inverse_before_f16_merge,   // parts are transformed back and stored in f16 before they are merged
};
enum class Weights { f32, e4m3fn };  // what enters PV; e4m3fn: by a 14-bit matrix unit, 128 keys at a time
struct Flash {
  std::int64_t tile = 32;
  std::int64_t split = 1;
  Weights weights = Weights::f32;
  bool deferred = false;  // V in tq3_0 enters PV in its rotated basis, and the row is transformed back
};
void flash(const Call& call, Slip slip, const Flash& shape = {});

// codecs.cpp
void tq3_dequantize(const Call& call, bool wrong_centroids, bool wrong_signs);
enum class ScaleSlip { none, raw_rms, one_for_zero_blocks };
void tq3_quantize(const Call& call, ScaleSlip slip);
void dequantize_as(const Call& call, std::string_view format);
void quantize_minus_zero(const Call& call, bool defect);
void nvfp4_dequantize(const Call& call, bool multiply, bool high_nibble_first);
void ue4m3_scales(const Call& call, bool as_signed);
void int8_by_reciprocal(const Call& call, bool reciprocal);
void quantize_hiding_nan(const Call& call, bool hides);
void matmul_rows(const Call& call, bool first_group_only, bool drop_a_scale);

// dispatch.cpp: the answer is right, the path is not.
#define ASSAY_DISPATCH(name) void name(const Call& call, const Trace& trace, bool defect)
ASSAY_DISPATCH(w4a8_by_metadata);
ASSAY_DISPATCH(fused_for_mixed_types);
ASSAY_DISPATCH(architecture_table);
ASSAY_DISPATCH(logged_tactic);
ASSAY_DISPATCH(version_pin);
ASSAY_DISPATCH(sm_family);
ASSAY_DISPATCH(hadamard_hint);
// instances.cpp
ASSAY_DISPATCH(kv_template_instance);
ASSAY_DISPATCH(announced_instance);
ASSAY_DISPATCH(kv_by_one_entry);
// experts.cpp
ASSAY_DISPATCH(moe_by_metadata);
void moe_of_packed_words(const Call& call, bool defect);
void moe_of_two_scales(const Call& call, bool first_dropped, bool twice);
#undef ASSAY_DISPATCH

// reductions.cpp
void layernorm_by(const Call& call, bool one_pass, bool tail_squared);
void rmsnorm_by_warps(const Call& call, bool drop_partial_warp);
void softmax_by_warps(const Call& call, bool first_warp_only);

}  // namespace assay_museum
