// Copies of K and V made before the attention proper.
// convert_f16 is what an engine without a kernel for these formats does: it converts the whole cache to f16,
// to nearest, and runs the f16 kernel. It shows in the trace under its own name, with the temporary memory
// that it takes.
#include "backends/gpu/attention_vector.cuh"

namespace assay_gpu {
namespace {

constexpr int kThreads = 256;

}  // namespace

// A thread per element of each key that some request has; the rest of `to` is left alone.
__global__ void __launch_bounds__(kThreads)
    attention_convert_f16(const GPU_GRID_CONSTANT AttentionArgs a, const Planes from, std::uint16_t* to) {
  const std::int64_t per_key = static_cast<std::int64_t>(a.kv_heads) * from.length;
  const std::int64_t count = static_cast<std::int64_t>(a.batch) * a.len * per_key;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; e < count;
       e += threads) {
    const int c = static_cast<int>(e % from.length), g = static_cast<int>(e % per_key / from.length);
    const int j = static_cast<int>(e / per_key % a.len), b = static_cast<int>(e / per_key / a.len);
    if (j >= length_of(a, b)) continue;
    const std::int64_t row = key_row(a, b, j, g);
    to[row * from.length + c] =
        static_cast<std::uint16_t>(encode_element(Element::f16, decode(from, row, c)));
  }
}

namespace {

Planes converted(Run& run, const AttentionArgs& a, const Planes& from) {
  auto* to = run.memory.temporary_array<std::uint16_t>(from.rows * from.length);
  const std::int64_t count = static_cast<std::int64_t>(a.batch) * a.len * a.kv_heads * from.length;
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  attention_convert_f16<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), kThreads>>>(a, from, to);
  run.launched("attention_convert_f16");
  Planes planes;
  planes.format = Format{Element::f16, Scaling::none, Block::none, 1, 0};
  planes.payload = from.payload;
  planes.payload.data = reinterpret_cast<unsigned char*>(to);
  std::int64_t stride = 2;
  for (std::int32_t axis = from.payload.rank - 1; axis >= 0; --axis) {
    planes.payload.stride[axis] = stride;
    stride *= from.payload.shape[axis];
  }
  planes.rows = from.rows;
  planes.length = from.length;
  planes.middle = from.middle;
  return planes;
}

}  // namespace

std::string attention_convert_f16_contract(const Call& call, const DeviceInfo& device) {
  return "convert=f16 " + attention_decode_contract(call, device);
}

void attention_convert_f16_run(Run& run) {
  AttentionArgs args = attention_args(run);
  args.keys = converted(run, args, args.keys);
  args.values = converted(run, args, args.values);
  attention_decode_with(run, args);
}

View aligned_payload(Run& run, const View& view, std::int64_t row_bytes) {
  if (reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0) return view;
  std::int64_t bytes = row_bytes;
  for (std::int32_t axis = 0; axis + 1 < view.rank; ++axis)
    bytes += (view.shape[axis] - 1) * view.stride[axis];
  View copy = view;
  copy.data = static_cast<unsigned char*>(run.memory.temporary(static_cast<std::size_t>(bytes)));
  if (gpuMemcpy(copy.data, view.data, static_cast<std::size_t>(bytes), gpuMemcpyDeviceToDevice) !=
      gpuSuccess) {
    throw Failed("a copy of " + std::to_string(bytes) + " bytes on the device failed");
  }
  run.trace.note("realigned_bytes", std::to_string(bytes));
  return copy;
}

}  // namespace assay_gpu
