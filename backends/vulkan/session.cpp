#include "backends/vulkan/session.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace assay_vulkan {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kMargin = 256;  // before and after each region
constexpr int kMarginByte = 0xA5;

std::uint64_t aligned(std::uint64_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

// From the first byte of the first element to the last of the last.
std::uint64_t span_bytes(const assay_tensor& tensor) {
  std::int64_t last = 0;
  for (std::int32_t a = 0; a + 1 < tensor.rank; ++a) last += (tensor.shape[a] - 1) * tensor.stride[a];
  return static_cast<std::uint64_t>(last + row_bytes(tensor.format, assay_plugin::row_length(tensor)));
}

std::uint64_t dense_bytes(const assay_tensor& tensor) {
  return static_cast<std::uint64_t>(assay_plugin::row_count(tensor) *
                                    row_bytes(tensor.format, assay_plugin::row_length(tensor)));
}
// Rows so far apart that their holes would fill the device are moved together.
bool packed(const assay_tensor& tensor) { return span_bytes(tensor) > 4 * dense_bytes(tensor) + (1U << 20); }

// Between the caller's tensor and its place: in one piece with the bytes between rows, or row by row.
void copy(const assay_tensor& tensor, std::byte* place, bool to_place) {
  const auto move = [&](std::byte* host, std::byte* device, std::size_t bytes) {
    std::memcpy(to_place ? device : host, to_place ? host : device, bytes);
  };
  if (!packed(tensor)) return move(static_cast<std::byte*>(tensor.data), place, span_bytes(tensor));
  const auto bytes = static_cast<std::size_t>(row_bytes(tensor.format, assay_plugin::row_length(tensor)));
  for (std::int64_t row = 0; row < assay_plugin::row_count(tensor); ++row) {
    move(assay_plugin::mutable_row(tensor, row), place + static_cast<std::size_t>(row) * bytes, bytes);
  }
}

// Outer axes that lie evenly become one, so that most rows are found by one product.
void join_axes(DeviceTensor& t) {
  while (t.rank > 2) {
    const std::int32_t a = t.rank - 3;  // with its neighbour a + 1
    if (t.stride[a] != t.stride[a + 1] * t.shape[a + 1]) return;
    t.shape[a] *= t.shape[a + 1];
    t.stride[a] = t.stride[a + 1];
    t.shape[a + 1] = t.shape[a + 2];
    t.stride[a + 1] = t.stride[a + 2];
    --t.rank;
  }
}

void relocate(DeviceTensor& tensor, std::uint64_t base) {
  if (tensor.data != 0) tensor.data += base;
}
void relocate(Params& params, std::uint64_t base) {
  for (DeviceOperand& operand : params.operand) {
    for (DeviceTensor* tensor :
         {&operand.payload, &operand.scale, &operand.block_scale, &operand.global_scale}) {
      relocate(*tensor, base);
    }
  }
  for (DeviceTensor& tensor : params.tensor) relocate(tensor, base);
  for (std::uint64_t& address : params.scratch) {
    if (address != 0) address += base;
  }
}

}  // namespace

Session::Session(Device& device, const Call& call) : device_(device), call_(call) {
  const assay_call& raw = call.raw();
  for (std::int32_t i = 0; i < raw.input_count + raw.output_count; ++i) {
    const bool output = i >= raw.input_count;
    const assay_tensor& tensor = output ? raw.outputs[i - raw.input_count] : raw.inputs[i];
    placed_.push_back({&tensor, place(packed(tensor) ? dense_bytes(tensor) : span_bytes(tensor)), output});
  }
}

std::uint64_t Session::place(std::uint64_t bytes) {
  const std::uint64_t at = aligned(end_ + kMargin);
  regions_.emplace_back(at, bytes);
  end_ = at + bytes;
  return at;
}

std::uint64_t Session::scratch(std::int64_t bytes) {
  scratch_bytes_ += bytes;
  return place(static_cast<std::uint64_t>(bytes));
}

DeviceTensor Session::tensor(std::string_view name) const {
  for (const Placed& placed : placed_) {
    const assay_tensor& from = *placed.tensor;
    if (name != from.name) continue;
    DeviceTensor to;
    to.data = placed.offset;
    to.rank = from.rank;
    to.width = static_cast<std::int32_t>(assay_plugin::row_length(from));
    to.rows = static_cast<std::int32_t>(assay_plugin::row_count(from));
    for (std::int32_t a = 0; a < from.rank; ++a) {
      to.shape[a] = static_cast<std::int32_t>(from.shape[a]);
      to.stride[a] = from.stride[a];
    }
    if (packed(from)) {
      std::int64_t bytes = row_bytes(from.format, to.width);
      for (std::int32_t a = from.rank - 2; a >= 0; --a) {
        to.stride[a] = bytes;
        bytes *= from.shape[a];
      }
    }
    join_axes(to);
    return to;
  }
  throw Unsupported("tensor '" + std::string(name) + "' is missing");
}

DeviceOperand Session::operand(std::string_view name, const Format& format) const {
  const std::string base(name);
  const auto companion = [&](const char* suffix) {
    const std::string plane = base + suffix;
    const bool there =
        std::any_of(placed_.begin(), placed_.end(), [&](const Placed& p) { return plane == p.tensor->name; });
    return there ? tensor(plane) : DeviceTensor{};
  };
  DeviceOperand operand;
  operand.payload = tensor(name);
  operand.payload.width *= format.word_elements;
  operand.scale = companion(".scale");
  operand.block_scale = companion(".block_scale");
  operand.global_scale = companion(format.two_scales() ? ".scale_2" : ".global_scale");
  const assay_tensor* from = call_.find_input(name);
  if (from == nullptr) from = &call_.output(name);
  const auto before_last = [&](std::int32_t rank) {
    return from->rank >= rank ? static_cast<std::int32_t>(from->shape[from->rank - 2]) : 1;
  };
  operand.middle = before_last(3);
  operand.matrix_rows = before_last(2);
  return operand;
}

DeviceOperand Session::scratch_rows(std::int64_t rows, std::int64_t length, Element element,
                                    std::int64_t middle) {
  const std::int64_t bytes = element == kF32 ? 4 : element == kInt8 || element == kE4m3fn ? 1 : 2;
  DeviceOperand operand;
  DeviceTensor& t = operand.payload;
  t.data = scratch(rows * length * bytes);
  t.rank = 2;
  t.width = static_cast<std::int32_t>(length);
  t.rows = static_cast<std::int32_t>(rows);
  t.shape[0] = t.rows;
  t.shape[1] = t.width;
  t.stride[0] = length * bytes;
  t.stride[1] = bytes;
  operand.middle = static_cast<std::int32_t>(middle);
  operand.matrix_rows = t.rows;
  return operand;
}

void Session::check_loops(const Device& device, std::int64_t iterations) {
  if (iterations <= device.can().loop_limit) return;
  throw Unsupported(device.can().name + " ends a shader's loops after 65535 iterations, " +
                    std::to_string(iterations) + " are needed");
}

std::uint32_t Session::groups(std::int64_t units) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(units, 1, 65535));
}
std::uint32_t Session::groups_of_lanes(std::int64_t units) const {
  const std::int64_t lanes = device_.subgroup();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((units + lanes - 1) / lanes, 1, 65535));
}

void Session::add(std::string name, std::string_view shader, std::vector<std::uint32_t> constants,
                  std::uint32_t groups, const Params& params) {
  dispatches_.push_back({std::move(name), shader, std::move(constants), groups, params});
}

void Session::run(const Trace& trace) {
  const std::uint64_t params_at = place(dispatches_.size() * sizeof(Params));
  std::byte* const memory = device_.reserve(aligned(end_ + kMargin));
  std::uint64_t before = 0;
  for (const auto& [offset, bytes] : regions_) {
    std::memset(memory + before, kMarginByte, offset - before);
    before = offset + bytes;
  }
  std::memset(memory + before, kMarginByte, aligned(end_ + kMargin) - before);
  for (const Placed& placed : placed_) copy(*placed.tensor, memory + placed.offset, true);
  for (Dispatch& dispatch : dispatches_) relocate(dispatch.params, device_.address());
  for (const Dispatch& dispatch : dispatches_) trace.kernel(dispatch.name);
  trace.note("temporary_bytes", std::to_string(scratch_bytes_));
  device_.run(dispatches_, params_at);
  before = 0;
  const auto untouched = [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      if (memory[i] != std::byte{kMarginByte})
        throw Failed("a kernel wrote outside its tensors, in device memory");
    }
  };
  for (const auto& [offset, bytes] : regions_) {
    untouched(before, offset);
    before = offset + bytes;
  }
  for (const Placed& placed : placed_) {
    if (placed.output) copy(*placed.tensor, memory + placed.offset, false);
  }
}

}  // namespace assay_vulkan
