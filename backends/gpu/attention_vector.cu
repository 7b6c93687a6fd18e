#include "backends/gpu/attention_vector.cuh"

#include <algorithm>

namespace assay_gpu {

template <Fast kKeys, Fast kValues, int kColumns, int kRows>
__global__ void __launch_bounds__(kVectorThreads) attention_decode(const GPU_GRID_CONSTANT VectorArgs args) {
  vector_attention<kKeys, kValues, kColumns, kRows, true>(args);
}
template <Fast kKeys, Fast kValues, int kColumns, int kRows>
__global__ void __launch_bounds__(kVectorThreads) attention_split(const GPU_GRID_CONSTANT VectorArgs args) {
  vector_attention<kKeys, kValues, kColumns, kRows, false>(args);
}

namespace {

Fast fast_format(const Format& format) {
  switch (format.block) {
    case Block::q8_0:
      return Fast::q8_0;
    case Block::q4_0:
      return Fast::q4_0;
    case Block::tq3_0_c2s1:
      return Fast::tq3_0_c2s1;
    case Block::none:
      break;
    default:
      return Fast::any;
  }
  if (format.scaling != Scaling::none && format.scaling != Scaling::tensor &&
      format.scaling != Scaling::head && format.scaling != Scaling::token) {
    return Fast::any;
  }
  switch (format.element) {
    case Element::f16:
      return Fast::f16;
    case Element::bf16:
      return Fast::bf16;
    case Element::e4m3fn:
      return Fast::e4m3fn;
    case Element::e5m2:
      return Fast::e5m2;
    default:
      return Fast::any;
  }
}

struct Launch {
  VectorArgs args;
  unsigned blocks;
  int shared_bytes;
  bool split;

  template <Fast kKeys, Fast kValues, int kColumns, int kRows>
  void go() const {
    const auto kernel = split ? attention_split<kKeys, kValues, kColumns, kRows>
                              : attention_decode<kKeys, kValues, kColumns, kRows>;
    if (shared_bytes > 48 << 10 && gpuAllowSharedMemory(kernel, shared_bytes) != gpuSuccess) {
      throw Failed("the device refuses a block " + std::to_string(shared_bytes) + " bytes of shared memory");
    }
    kernel<<<blocks, kVectorThreads, static_cast<std::size_t>(shared_bytes)>>>(args);
  }
  // The instance of a pair of formats, for widths up to 128.
  template <Fast kKeys, Fast kValues>
  bool pair(Fast keys, Fast values) const {
    if (keys != kKeys || values != kValues || args.width > kVectorThreads) return false;
    go<kKeys, kValues, 1, 8>();
    return true;
  }
};

}  // namespace

void run_vector(Run& run, const AttentionArgs& a, int parts, int part_keys, const Partials& partials) {
  const int width = std::max(a.d, a.dv);
  const VectorShape shape = vector_shape(width);
  const int row_blocks = (a.q * a.group + shape.rows - 1) / shape.rows;
  const std::int64_t blocks = static_cast<std::int64_t>(parts) * row_blocks * a.kv_heads * a.batch;
  if (blocks > 0x7FFFFFFF) throw Unsupported("more than 2^31 blocks");
  const int floats =
      shape.rows * width + shape.keys * (width + 1) + shape.rows * shape.tile() + 3 * shape.rows;
  const bool split = partials.parts > 0;
  const Launch launch{{a, partials, parts, part_keys, row_blocks, shape.keys, width},
                      static_cast<unsigned>(blocks),
                      floats * static_cast<int>(sizeof(float)),
                      split};
  const Fast k = fast_format(a.keys.format), v = fast_format(a.values.format);
  using enum Fast;
  bool compiled =
      launch.pair<f16, f16>(k, v) || launch.pair<e4m3fn, e4m3fn>(k, v) || launch.pair<q8_0, q8_0>(k, v);
#if !ASSAY_GPU_HIP  // five architectures at a time: the other pairs go through `any` there
  compiled = compiled || launch.pair<bf16, bf16>(k, v) || launch.pair<e5m2, e5m2>(k, v) ||
             launch.pair<q4_0, q4_0>(k, v) || launch.pair<q8_0, q4_0>(k, v) ||
             launch.pair<q8_0, tq3_0_c2s1>(k, v) || launch.pair<f16, tq3_0_c2s1>(k, v) ||
             launch.pair<tq3_0_c2s1, tq3_0_c2s1>(k, v);
#endif
  if (!compiled) {
    if (width <= 128) {
      launch.go<any, any, 1, 8>();
    } else if (width <= 256) {
      launch.go<any, any, 2, 8>();
    } else if (width <= 512) {
      launch.go<any, any, 4, 4>();
    } else {
      launch.go<any, any, 8, 4>();
    }
  }
  run.launched(split ? "attention_split" : "attention_decode");
}

std::int64_t attention_vector_tile(const Call& call) {
  return vector_shape(static_cast<int>(std::max(call.integer("d"), call.integer("dv")))).tile();
}

namespace {

// Four blocks of 128 threads keep a multiprocessor's memory pipes busy.
std::int64_t part_keys_of(const Call& call, const DeviceInfo& device) {
  const VectorShape shape = vector_shape(static_cast<int>(std::max(call.integer("d"), call.integer("dv"))));
  const std::int64_t rows = call.integer("q") * (call.integer("heads") / call.integer("kv_heads"));
  const std::int64_t blocks =
      call.integer("batch") * call.integer("kv_heads") * ((rows + shape.rows - 1) / shape.rows);
  return split_part_keys(call.integer("len"), shape.tile(), blocks, std::int64_t{4} * device.multiprocessors);
}

}  // namespace

AttentionParts attention_split_parts(const Call& call, const DeviceInfo& device) {
  const std::int64_t keys = part_keys_of(call, device);
  return {keys, (call.integer("len") + keys - 1) / keys};
}

std::string attention_decode_contract(const Call& call, const DeviceInfo&) {
  return attention_contract("f32", "f32", "f32", attention_vector_tile(call), call.integer("len"), 1);
}

void attention_decode_with(Run& run, const AttentionArgs& args) {
  const std::int64_t tile = attention_vector_tile(run.call);
  run_vector(run, args, 1, static_cast<int>((args.len + tile - 1) / tile * tile), Partials{});
}
void attention_decode_run(Run& run) { attention_decode_with(run, attention_args(run)); }

// V in tq3_0 is a look-up in its codebook inside the loop; the inverse transform is linear, and made once per
// output row.
void attention_deferred_check(const Call& call, const DeviceInfo&) {
  attention_check(call);
  if (call.text("rotate") == "qkv") throw Unsupported("rotate=qkv asks for a second transform of its own");
  if (!call.text("v").starts_with("tq3_0_"))
    throw Unsupported("format " + std::string(call.text("v")) + " is not stored rotated");
}

std::string attention_deferred_contract(const Call& call, const DeviceInfo& device) {
  return "v_inverse=row " + attention_decode_contract(call, device);
}

void attention_deferred_run(Run& run) {
  AttentionArgs args = attention_args(run);
  Block& block = args.values.format.block;
  block = block == Block::tq3_0_c2s1 ? Block::tq3_0_c2s1_rotated : Block::tq3_0_c2_rotated;
  args.unrotate = true;
  attention_decode_with(run, args);
}

std::string attention_split_contract(const Call& call, const DeviceInfo& device) {
  const AttentionParts parts = attention_split_parts(call, device);
  return attention_contract("f32", "f32", "f32", attention_vector_tile(call), parts.keys, parts.count);
}

void attention_split_run(Run& run) {
  const AttentionArgs args = attention_args(run);
  const AttentionParts parts = attention_split_parts(run.call, run.device);
  const Partials partials = allocate_partials(run, args, static_cast<int>(parts.count));
  run_vector(run, args, partials.parts, static_cast<int>(parts.keys), partials);
  merge_partials(run, args, partials, View{});
}

}  // namespace assay_gpu
