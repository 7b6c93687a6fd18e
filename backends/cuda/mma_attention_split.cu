#include "backends/cuda/mma_attention_split.cuh"

#include <utility>

#include "backends/cuda/matrix_ops.hpp"
#include "backends/cuda/mma_attention.hpp"

namespace assay_gpu {
namespace {

struct SplitFormat {
  SplitCodes codes = SplitCodes::none;
  int bytes = 2;
  bool scaled = false;
};

SplitFormat split_format(const Call& call) {
  const std::string_view k = call.text("k"), dtype = call.text("dtype");
  if (k != call.text("v")) return {};
  if (dtype == "bf16") return k == "bf16" ? SplitFormat{SplitCodes::bfloat} : SplitFormat{};
  if (dtype != "f16") return {};
  if (k == "f16") return {SplitCodes::half};
  for (const auto& [element, codes] : {std::pair{std::string_view("e4m3fn"), SplitCodes::e4m3},
                                       std::pair{std::string_view("e5m2"), SplitCodes::e5m2}}) {
    if (!k.starts_with(element)) continue;
    const std::string_view scaling = k.substr(element.size());
    if (scaling.empty()) return {codes, 1};
    if (scaling == "_tensor" || scaling == "_head") return {codes, 1, true};
  }
  return {};
}

static_assert(kSlack == kSplitMmaSlack);

int heads_of_block(std::int64_t group) { return group <= 8 ? 8 : 16; }
int head_blocks(std::int64_t group) { return static_cast<int>(group <= 8 ? 1 : (group + 15) / 16); }

SplitPlan plan(const Call& call, const DeviceInfo& device) {
  return split_mma_plan(call.integer("len"), call.integer("d"), split_format(call).bytes,
                        call.integer("batch"), call.integer("kv_heads"),
                        call.integer("heads") / call.integer("kv_heads"), device.multiprocessors);
}

bool wide_enough(const Call& call) {
  return call.integer("d") == call.integer("dv") && (call.integer("d") == 64 || call.integer("d") == 128);
}

template <class Codes, int kD>
void launch(const SplitMmaArgs& args, int heads_per_block, dim3 grid) {
  if (heads_per_block == 8) {
    attention_split_mma<Codes, kD, 1><<<grid, kSplitWarps * 32>>>(args);
  } else {
    attention_split_mma<Codes, kD, 2><<<grid, kSplitWarps * 32>>>(args);
  }
}
template <class Codes>
void launch(const SplitMmaArgs& args, int heads_per_block, dim3 grid) {
  args.a.d == 64 ? launch<Codes, 64>(args, heads_per_block, grid)
                 : launch<Codes, 128>(args, heads_per_block, grid);
}

}  // namespace

SplitPlan split_mma_plan(std::int64_t len, std::int64_t d, int bytes, std::int64_t sequences,
                         std::int64_t kv_heads, std::int64_t group, int multiprocessors) {
  const std::int64_t tile = kSplitTileElements / d;
  const std::int64_t resident =
      static_cast<std::int64_t>(split_resident(bytes, group <= 8)) * multiprocessors;
  const std::int64_t part_keys =
      split_part_keys(len, tile * kSplitWarps, sequences * kv_heads * head_blocks(group), resident);
  return {tile, part_keys, (len + part_keys - 1) / part_keys};
}

void launch_split_mma(const SplitMmaArgs& args, SplitCodes codes) {
  const int heads_per_block = heads_of_block(args.a.group);
  const dim3 grid(static_cast<unsigned>(args.partials.parts),
                  static_cast<unsigned>(args.a.kv_heads * head_blocks(args.a.group)),
                  static_cast<unsigned>(args.a.batch));
  switch (codes) {
    case SplitCodes::half:
      return launch<CodesHalf>(args, heads_per_block, grid);
    case SplitCodes::bfloat:
      return launch<CodesBfloat>(args, heads_per_block, grid);
    case SplitCodes::e4m3:
      return launch<CodesE4m3>(args, heads_per_block, grid);
    default:
      return launch<CodesE5m2>(args, heads_per_block, grid);
  }
}

bool attention_split_mma_chosen(const Call& call) {
  return call.integer("q") == 1 && call.integer("len") >= 2048 && call.text("mask") != "random" &&
         wide_enough(call) && split_format(call).codes != SplitCodes::none &&
         rows_are_vectors(call.input("k")) && rows_are_vectors(call.input("v")) &&
         call.integer("batch") <= 65535 && call.integer("page") % 16 == 0;
}

void attention_split_mma_check(const Call& call, const DeviceInfo& device) {
  attention_check(call);
  if (call.integer("q") != 1)
    throw Unsupported("split_mma takes one query row, not q=" + std::string(call.text("q")));
  if (call.text("mask") == "random") throw Unsupported("split_mma has no random mask");
  if (!wide_enough(call)) throw Unsupported("split_mma takes d = dv = 64 or 128");
  const SplitFormat format = split_format(call);
  if (format.codes == SplitCodes::none) {
    throw Unsupported(
        "split_mma takes K and V in f16, e4m3fn or e5m2 (bare, _tensor or _head) with dtype=f16, or all in "
        "bf16");
  }
  if (!rows_are_vectors(call.input("k")) || !rows_are_vectors(call.input("v"))) {
    throw Unsupported("split_mma loads 16 bytes at once: strides of K and V must be multiples of 16");
  }
  if (call.integer("batch") > 65535) throw Unsupported("more than 65535 sequences");
  if (call.integer("page") % 16 != 0) throw Unsupported("split_mma takes pages of a multiple of 16 keys");
  matrix_generation(device);
}

SplitMmaShape attention_split_mma_shape(const Call& call, const DeviceInfo& device) {
  const SplitPlan p = plan(call, device);
  const SplitFormat format = split_format(call);
  return {format.codes == SplitCodes::bfloat ? "bf16" : "f16",
          p.tile,
          p.part_keys,
          p.parts,
          heads_of_block(call.integer("heads") / call.integer("kv_heads")),
          kSplitWarps,
          16 / format.bytes};
}
bool attention_split_mma_scaled(const Call& call) { return split_format(call).scaled; }

std::string_view attention_split_mma_name(const Call&) { return "attention_split_mma"; }

std::string attention_split_mma_contract(const Call& call, const DeviceInfo& device) {
  const SplitMmaShape s = attention_split_mma_shape(call, device);
  const std::string unit = std::string(matrix_generation(device)) + "_" + std::string(s.operands);
  return attention_contract(unit, s.operands, unit, s.tile, s.part_keys / s.warps, s.parts * s.warps, 16);
}

void attention_split_mma_run(Run& run) {
  const SplitFormat format = split_format(run.call);
  const SplitPlan p = plan(run.call, run.device);
  SplitMmaArgs args{};
  args.a = attention_args(run);
  args.keys = aligned_payload(run, args.a.keys.payload, args.a.d * format.bytes);
  args.values = aligned_payload(run, args.a.values.payload, args.a.dv * format.bytes);
  if (format.scaled) args.k_scale = args.a.keys.scale;
  args.partials = allocate_partials(run, args.a, static_cast<int>(p.parts));
  args.part_keys = static_cast<int>(p.part_keys);
  launch_split_mma(args, format.codes);
  run.launched("attention_split_mma");
  merge_partials(run, args.a, args.partials, format.scaled ? args.a.values.scale : View{});
}

}  // namespace assay_gpu
