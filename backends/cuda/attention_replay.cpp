// The attention kernels with their schedules declared whole, to be judged bit by bit (level=replay).
#include <array>
#include <string>

#include "backends/cuda/matrix_ops.hpp"
#include "backends/cuda/mma_attention.hpp"

namespace assay_gpu {
namespace {

// An element of any format is a number that is rounded to f32 once.
void check_vector(const Call& call, const DeviceInfo&) { attention_check(call); }

// What all have in common; nothing is contracted (-fmad=false). Logits are times log2 e, and most kernels
// then take differences.
std::string schedule(const Call& call, std::string_view units, std::int64_t tile, std::string_view more,
                     std::string_view argument = "scaled", std::string_view tanh = "cuda_tanhf") {
  std::string text = " level=replay schedule=" + std::string(units) +
                     "/out:" + std::string(call.text("dtype")) + "/tile:" + std::to_string(tile) +
                     "/argument:" + std::string(argument) + "/constant:float/sum_fma:no/quotient:division" +
                     std::string(more);
  if (call.real("softcap") > 0) text += "/cap:" + std::string(tanh);
  if (call.yes("alibi")) text += "/bias:subtract";
  if (call.yes("sinks")) text += "/sink:exp2f";
  if (call.text("rotate") == "qkv") text += "/unrotate:ascending";
  return text;
}
// A warp has a row: a lane every 32nd key of a tile, added when the tile is done.
constexpr std::string_view kWarpSums = "/exp:exp2f/sums:tile/lanes:32/pack:1/fold:halving";
// A quad has a row: a lane two neighbouring keys of eight.
constexpr std::string_view kQuadSums = "/exp:ex2/sums:thread/lanes:4/pack:2/fold:adjacent";

// Scales beside the codes that a unit multiplies.
const char* head_scales(bool scaled) { return scaled ? "/kv_scale:head" : ""; }

std::string decode_schedule(const Call& call, const DeviceInfo& device, std::string_view tanh) {
  return attention_decode_contract(call, device) +
         schedule(call, "qk:f32/pv:f32/p:f32", attention_vector_tile(call), kWarpSums, "scaled", tanh);
}
std::string decode_contract(const Call& call, const DeviceInfo& device) {
  return decode_schedule(call, device, "cuda_tanhf");
}
std::string deferred_schedule(const Call& call, const DeviceInfo& device, const char* stages) {
  return attention_deferred_contract(call, device) +
         schedule(call, "qk:f32/pv:f32/p:f32", attention_vector_tile(call), kWarpSums) +
         "/unrotate:" + stages;
}
std::string deferred_contract(const Call& call, const DeviceInfo& device) {
  return deferred_schedule(call, device, "ascending");
}
// A defect on purpose: declares that halves are transformed first.
std::string halves_contract(const Call& call, const DeviceInfo& device) {
  return deferred_schedule(call, device, "descending");
}
std::string other_tanh_contract(const Call& call, const DeviceInfo& device) {
  return decode_schedule(call, device, "libm");
}

// The merge: a warp folds its sums by halves, then the 16 warps' follow each other.
std::string merge(const Call& call, std::int64_t parts, std::int64_t keys) {
  return "/split:" + std::to_string(parts) + "/part:" + std::to_string(keys) +
         "/merge:lanes/merge_lanes:" + std::to_string(kMergeThreads) +
         "/merge_fold:16.8.4.2.1.32*16/merge_groups:" +
         std::to_string(attention_merge_groups(static_cast<int>(call.integer("dv"))));
}
std::string split_contract(const Call& call, const DeviceInfo& device) {
  const AttentionParts parts = attention_split_parts(call, device);
  return attention_split_contract(call, device) +
         schedule(call, "qk:f32/pv:f32/p:f32", attention_vector_tile(call),
                  std::string(kWarpSums) + merge(call, parts.count, parts.keys));
}

// A warp has every fourth tile of a part and the heads of a block; a lane of a column has a key of eight.
// Where nothing lies between the scale and the maximum, whole tiles fold both into one rounding.
template <int kSlack>
std::string split_mma_contract(const Call& call, const DeviceInfo& device) {
  const SplitMmaShape shape = attention_split_mma_shape(call, device);
  const std::string unit = std::string(matrix_generation(device)) + "_" + std::string(shape.operands);
  return attention_split_mma_contract(call, device) +
         schedule(call, "qk:" + unit + "/pv:" + unit + "/p:" + std::string(shape.operands), shape.tile,
                  "/exp:ex2/lanes:8/pack:1/fold:adjacent/edge:scaled/merge_exp:exp2f/slack:" +
                      std::to_string(kSlack) + "/slack_rows:" + std::to_string(shape.heads) +
                      "/deal:" + std::to_string(shape.warps) + "/dot_run:" + std::to_string(shape.elements) +
                      merge(call, shape.parts, shape.part_keys),
                  call.yes("alibi") || call.real("softcap") > 0 ? "scaled" : "fma_max") +
         head_scales(attention_split_mma_scaled(call));
}

std::string prefill_contract(const Call& call, const DeviceInfo& device) {
  const std::string dtype(call.text("dtype")), unit = std::string(matrix_generation(device)) + "_" + dtype;
  return attention_prefill_mma_contract(call, device) +
         schedule(call, "qk:" + unit + "/pv:" + unit + "/p:" + dtype, kPrefillTile, kQuadSums);
}

// Where sums are promoted after several tiles, these are counted from the first that a block of rows sees.
const char* origin(const Call& call, std::int64_t promote) {
  return promote > kFp8AttentionTile && call.text("mask") == "window"
             ? "/origin:64/origin_rows:group/origin_at:tile"
             : "";
}
template <auto kContract, std::int64_t kPromote>
std::string fp8_contract(const Call& call, const DeviceInfo& device) {
  return kContract(call, device) +
         schedule(call, "q:e4m3fn/qk:hopper_fp8/pv:hopper_fp8/p:e4m3fn/p_shift:8", kFp8AttentionTile,
                  std::string(kQuadSums) + "/promote:" + std::to_string(kPromote)) +
         head_scales(call.text("k") != "e4m3fn" || call.text("v") != "e4m3fn") + origin(call, kPromote);
}

// clang-format off
#define ASSAY_FP8(suffix, keys) \
  {"attention", "fp8_wgmma_" #suffix "_replay", never, attention_fp8_wgmma_check, attention_fp8_wgmma_name, \
   fp8_contract<attention_fp8_wgmma_##suffix##_contract, keys>, attention_fp8_wgmma_##suffix##_run}
// clang-format on

constexpr auto kRows = std::to_array<Kernel>({
    {"attention", "decode_replay", never, check_vector, attention_decode_name, decode_contract,
     attention_decode_run},
    // A defect on purpose: declares the C library's tanh.
    {"attention", "decode_as_libm_tanh", never, check_vector, attention_decode_name, other_tanh_contract,
     attention_decode_run, true},
    {"attention", "deferred_replay", never, attention_deferred_check, attention_decode_name,
     deferred_contract, attention_deferred_run},
    {"attention", "deferred_as_halves", never, attention_deferred_check, attention_decode_name,
     halves_contract, attention_deferred_run, true},
    {"attention", "split_replay", never, check_vector, attention_split_name, split_contract,
     attention_split_run},
    {"attention", "split_mma_replay", never, attention_split_mma_check, attention_split_mma_name,
     split_mma_contract<kSplitMmaSlack>, attention_split_mma_run},
    // A defect on purpose: declares that the maximum moves earlier than it does.
    {"attention", "split_mma_as_slack_1", never, attention_split_mma_check, attention_split_mma_name,
     split_mma_contract<1>, attention_split_mma_run, true},
    {"attention", "prefill_mma_replay", never, attention_prefill_mma_check, attention_prefill_mma_name,
     prefill_contract, attention_prefill_mma_run},
    ASSAY_FP8(p1, 32),
    ASSAY_FP8(p4, 128),
    ASSAY_FP8(p64, 2048),
    ASSAY_FP8(p0, 0),
    // A defect on purpose: declares promotion after every 128 keys and promotes after 32.
    {"attention", "fp8_wgmma_p4_with_p1", never, attention_fp8_wgmma_check, attention_fp8_wgmma_name,
     fp8_contract<attention_fp8_wgmma_p4_contract, 128>, attention_fp8_wgmma_p1_run, true},
});
#undef ASSAY_FP8

}  // namespace

std::span<const Kernel> attention_replay_kernels() { return kRows; }

}  // namespace assay_gpu
