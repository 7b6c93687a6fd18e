#include "backends/vulkan/replay.hpp"

#include <array>
#include <string>

#include "backends/plugin/kernels.hpp"
#include "backends/vulkan/attention_plan.hpp"

namespace assay_vulkan {
namespace {

using assay_plugin::never;

void check_known(const Device& device) {
  const Capabilities& can = device.can();
  if (can.lane_fold.empty())
    throw Unsupported("no schedule is known of " + can.name + " (" + can.driver +
                      "): the order in which it adds the lanes of a subgroup is not");
}

template <void (*kCheck)(const Call&, const Device&)>
void checked(const Call& call, const Device& device) {
  check_known(device);
  kCheck(call, device);
}

// Attention. Logits are S times the scale, weights e^(x - max) by exact.glsl; a lane has a key of a tile, and
// the tile's weights are added across the subgroup; o takes one key after the other.
template <void (*kCheck)(const Call&, const Device&)>
void attention_replay_check(const Call& call, const Device& device) {
  checked<kCheck>(call, device);
}

std::string schedule(const Call& call, std::string_view units, std::int64_t tile, std::int64_t rows,
                     std::string_view more) {
  std::string text = " level=replay schedule=" + std::string(units) +
                     "/out:" + std::string(call.text("dtype")) + "/tile:" + std::to_string(tile) +
                     "/argument:scaled/exp:series9/sum_fma:no/quotient:division" + std::string(more);
  if (call.real("softcap") > 0) text += "/cap:series9";
  if (call.yes("alibi")) text += "/bias:subtract";
  if (call.yes("sinks")) text += "/sink:own";
  if (call.text("rotate") == "qkv") text += "/unrotate:ascending";
  if (call.text("mask") == "window") text += "/origin:" + std::to_string(rows) + "/origin_rows:group";
  return text;
}
std::string of_lanes(const Call& call, const Device& device, std::string_view units, std::string_view fold) {
  const std::string lanes = std::to_string(device.subgroup());
  return schedule(call, units, device.subgroup(), rows_of(call, device),
                  "/fma:no/sums:tile/pack:1/lanes:" + lanes + "/fold:" + std::string(fold));
}

// Of a kernel that takes so many keys in a dispatch: a window's tiles begin anew where one ends.
std::string of_dispatches(const Call& call, const Device& device, std::string_view units,
                          std::string_view fold) {
  const std::int64_t keys = keys_at_a_time(call, device);
  return of_lanes(call, device, units, fold) +
         (call.text("mask") == "window" && keys < call.integer("len") ? "/cut:" + std::to_string(keys) : "");
}

template <auto kContract>
std::string whole_contract(const Call& call, const Device& device) {
  return kContract(call, device) + of_dispatches(call, device, "qk:f32/pv:f32/p:f32", device.can().lane_fold);
}
std::string p_f16_contract(const Call& call, const Device& device) {
  return attention_p_f16_contract(call, device) +
         of_dispatches(call, device, "qk:f32/pv:f32/p:f16", device.can().lane_fold);
}
std::string f16_contract(const Call& call, const Device& device) {
  return attention_f16_contract(call, device) +
         of_dispatches(call, device, "qk:f16/pv:f32/p:f32", device.can().lane_fold);
}
std::string deferred_schedule(const Call& call, const Device& device, const char* stages) {
  return attention_deferred_contract(call, device) +
         of_dispatches(call, device, "qk:f32/pv:f32/p:f32", device.can().lane_fold) + "/unrotate:" + stages;
}
std::string deferred_contract(const Call& call, const Device& device) {
  return deferred_schedule(call, device, "ascending");
}
// A defect on purpose: declares that halves are transformed first.
std::string halves_contract(const Call& call, const Device& device) {
  return deferred_schedule(call, device, "descending");
}
// A block's codes are summed as integers; the two scales' product is exact, and that with the sum is one
// rounding.
std::string q8_contract(const Call& call, const Device& device) {
  return attention_q8_contract(call, device) +
         of_dispatches(call, device, "q:q8_0/qk:f32/dot_block:32/pv:f32/p:f32", device.can().lane_fold);
}
std::string split_contract(const Call& call, const Device& device) {
  const std::int64_t parts = part_count(call, device);
  return attention_split_contract(call, device) +
         of_lanes(call, device, "qk:f32/pv:f32/p:f32", device.can().lane_fold) +
         "/merge:weights/split:" + std::to_string(parts) +
         "/part:" + std::to_string(part_keys(call.integer("len"), parts));
}
// A lane has a row, and adds its weights to its sum one after the other; a tile's product with V is made from
// zero.
std::string matrix_contract(const Call& call, const Device& device) {
  constexpr std::int64_t kTile = 16;
  const std::string type(call.text("dtype")), unit = device.can().matrix_unit(type);
  return attention_matrix_contract(call, device) +
         schedule(call, "qk:" + unit + "/pv:" + unit + "/p:" + type, kTile, kTile,
                  "/sums:thread/lanes:1/pack:1/values:tile/values_fma:no");
}
// Where schedules are declared, subnormals are kept, whatever the driver promises.
std::string without_flushing(std::string contract) {
  constexpr std::string_view kFlushing = " ftz=yes";
  const std::size_t at = contract.find(kFlushing);
  return at == std::string::npos ? contract : contract.erase(at, kFlushing.size());
}
std::string acc_of(const std::string& contract) {
  constexpr std::size_t kBehind = 4;  // "acc="
  return contract.substr(kBehind, contract.find(' ') - kBehind);
}
bool is_scaled(const std::string& contract) {
  return contract.find("epilogue_roundings=0") == std::string::npos;
}

// A defect on purpose: declares that the lanes are added from the last to the first.
std::string reversed_contract(const Call& call, const Device& device) {
  return attention_whole_contract(call, device) +
         of_dispatches(call, device, "qk:f32/pv:f32/p:f32", "reverse");
}

// A mixture: a token's row meets an expert's weights by itself; silu by a quotient; the experts' results
// follow topk_ids.
std::string moe_replay_contract(const Call& call, const Device& device) {
  const std::string contract = without_flushing(moe_contract(call, device)), acc = acc_of(contract);
  const char* scales = is_scaled(contract) ? "/down.scales:a_b/up.scales:a_b" : "";
  return contract + " level=replay schedule=exp:series9/combine:slots/up.acc:" + acc + "/down.acc:" + acc +
         scales;
}

// Products: a lane has a column, and adds one product after the other.
template <auto kContract>
std::string matmul_contract(const Call& call, const Device& device) {
  const std::string contract = without_flushing(kContract(call, device));
  const std::string_view path = call.text("path");
  return contract +
         (path == "e4m3fn" ? " scale=divide code=divide"
          : path == "q8"   ? " scale=divide code=reciprocal"
                           : "") +
         " level=replay schedule=acc:" + acc_of(contract) + (is_scaled(contract) ? "/scales:a_b" : "");
}
// A defect on purpose: declares two sums side by side.
std::string paired_contract(const Call& call, const Device& device) {
  return matmul_contract<matmul_scalar_contract>(call, device) + "/lanes:2";
}

// clang-format off
#define ASSAY_ATTENTION(variant, kind, contract) \
  {"attention", variant, false, never, attention_replay_check<attention_##kind##_check>, attention_##kind##_name, contract, \
   attention_##kind##_run}
#define ASSAY_MATMUL(variant, kind, contract) \
  {"matmul", variant, false, never, checked<matmul_##kind##_check>, matmul_##kind##_name, contract, matmul_##kind##_run}
// clang-format on

constexpr auto kRows = std::to_array<Kernel>({
    ASSAY_ATTENTION("whole_replay", whole, whole_contract<attention_whole_contract>),
    ASSAY_ATTENTION("split_replay", split, split_contract),
    ASSAY_ATTENTION("p_f16_replay", p_f16, p_f16_contract),
    ASSAY_ATTENTION("f16_replay", f16, f16_contract),
    ASSAY_ATTENTION("q8_replay", q8, q8_contract),
    ASSAY_ATTENTION("deferred_replay", deferred, deferred_contract),
    ASSAY_ATTENTION("deferred_as_halves", deferred, halves_contract),
    ASSAY_ATTENTION("convert_f16_replay", convert_f16, whole_contract<attention_convert_f16_contract>),
    ASSAY_ATTENTION("matrix_replay", matrix, matrix_contract),
    ASSAY_ATTENTION("whole_as_reversed", whole, reversed_contract),
    ASSAY_MATMUL("scalar_replay", scalar, matmul_contract<matmul_scalar_contract>),
    ASSAY_MATMUL("matrix_replay", matrix, matmul_contract<matmul_matrix_contract>),
    ASSAY_MATMUL("scalar_as_pairs", scalar, paired_contract),
    {"moe", "replay", false, never, checked<moe_check>, moe_name, moe_replay_contract, moe_run},
});
#undef ASSAY_ATTENTION
#undef ASSAY_MATMUL

}  // namespace

std::span<const Kernel> replay_kernels() { return kRows; }

}  // namespace assay_vulkan
