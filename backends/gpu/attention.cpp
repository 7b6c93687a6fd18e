#include "backends/gpu/attention.hpp"

#include <cmath>
#include <vector>

#include "backends/gpu/formats.hpp"
#include "backends/plugin/attention.hpp"

namespace assay_gpu {
namespace {

constexpr std::int64_t kLargestHead = 1024;

Element dtype_element(std::string_view dtype) {
  return dtype == "f16" ? Element::f16 : dtype == "bf16" ? Element::bf16 : Element::f32;
}

}  // namespace

void attention_check(const Call& call) {
  const std::string_view dtype = call.text("dtype");
  check_dtype(dtype);
  check_readable(call, "q", dtype);
  check_readable(call, "k", call.text("k"));
  check_readable(call, "v", call.text("v"));
  attention_shape_check(call, kLargestHead);
}

AttentionArgs attention_args(const Run& run) {
  const Call& call = run.call;
  const std::string_view mask = call.text("mask");
  const auto count = [&](const char* name) { return static_cast<int>(call.integer(name)); };
  const auto wanted = [&](bool is, const char* name) { return is ? run.memory.input(name) : View(); };
  AttentionArgs a{};
  a.batch = count("batch");
  a.heads = count("heads");
  a.kv_heads = count("kv_heads");
  a.group = a.heads / a.kv_heads;
  a.d = count("d");
  a.dv = count("dv");
  a.q = count("q");
  a.len = count("len");
  a.page = count("page");
  a.causal = mask == "causal" || mask == "window";
  a.window = mask == "window" ? count("window") : 0;
  a.unrotate = call.text("rotate") == "qkv";
  a.scale = static_cast<float>(call.real("scale"));
  if (a.scale == 0) a.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(a.d)));
  a.softcap = static_cast<float>(call.real("softcap"));
  a.dtype = dtype_element(call.text("dtype"));
  a.queries = run.memory.input("q");
  a.keys = run.memory.input_planes("k", call.text("k"));
  a.values = run.memory.input_planes("v", call.text("v"));
  a.page_table = wanted(a.page > 0, "page_table");
  a.lengths = wanted(call.text("lengths") == "ragged", "lengths");
  a.mask = wanted(mask == "random", "mask");
  a.sinks = wanted(call.yes("sinks"), "sinks");
  a.slopes = wanted(call.yes("alibi"), "slopes");
  a.out = run.memory.output("out");
  return a;
}

Partials allocate_partials(Run& run, const AttentionArgs& args, int parts) {
  const std::int64_t slots = static_cast<std::int64_t>(args.batch) * args.q * args.heads * parts;
  return {run.memory.temporary_array<float>(slots), run.memory.temporary_array<float>(slots),
          run.memory.temporary_array<float>(slots * args.dv), parts};
}

std::string attention_contract(std::string_view qk, std::string_view p, std::string_view pv,
                               std::int64_t tile, std::int64_t promote, std::int64_t split, int block) {
  std::string text = "qk=" + std::string(qk) + " tile=" + std::to_string(tile) +
                     " exp_ulp=2 p=" + std::string(p) + " pv=" + std::string(pv) +
                     " promote=" + std::to_string(promote);
  if (block > 1) text += " qk_block=" + std::to_string(block) + " pv_block=" + std::to_string(block);
  if (split > 1)
    text += " split=" + std::to_string(split) + " part=" + std::to_string(promote) + " merge=once";
  return text;
}

std::int64_t split_part_keys(std::int64_t len, std::int64_t unit, std::int64_t blocks, std::int64_t wanted) {
  const std::int64_t units = (len + unit - 1) / unit;
  std::int64_t parts = wanted / (blocks < 1 ? 1 : blocks);
  if (parts < 2) parts = 2;        // the merge is never idle
  if (parts > 4096) parts = 4096;  // and has their weights in shared memory
  if (parts > units) parts = units;
  return (units + parts - 1) / parts * unit;
}

bool rows_are_vectors(const assay_tensor& tensor) {
  for (std::int32_t a = 0; a + 1 < tensor.rank; ++a) {
    if (tensor.shape[a] > 1 && tensor.stride[a] % 16 != 0) return false;
  }
  return true;
}

std::span<const Kernel> attention_kernels() {
  static const std::vector<Kernel> rows = [] {
    std::vector<Kernel> list;
    for (const std::span<const Kernel> part : {attention_unit_kernels(), attention_vector_kernels()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return rows;
}

}  // namespace assay_gpu
