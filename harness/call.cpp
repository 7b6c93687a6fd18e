#include "harness/call.hpp"

#include <algorithm>

namespace assay {
namespace {

// Space behind each row under layout=gaps (one unit under unaligned). A multiple of every element's
// alignment, and no multiple of a page.
constexpr std::int64_t kGapBytes = 64;

// Rows dense; on the outermost axis of more than one entry, n entries lie so far apart that the last begins
// just beyond 2^32 units (elements, blocks) and a middle one beyond 2^31. Memory is needed for the rows
// alone.
void set_far_strides(BufferPlane& plane) {
  const std::size_t rank = plane.shape.size();
  const std::int64_t elements = element_count(plane.shape);
  const auto outermost = std::ranges::find_if(plane.shape, [](std::int64_t n) { return n > 1; });
  const auto far = static_cast<std::size_t>(outermost - plane.shape.begin());
  if (elements == 0 || far + 1 >= rank) return;  // a single row
  plane.stride.assign(rank, 0);
  std::int64_t inside = static_cast<std::int64_t>(plane.bytes) / (elements / plane.shape.back());
  for (std::size_t a = rank - 1; a-- > 0;) {
    plane.stride[a] = inside;
    if (a == far) {
      const std::int64_t apart = (std::int64_t{1} << 32) / (plane.shape[a] - 1) + 1;  // in units
      plane.stride[a] =
          (apart * static_cast<std::int64_t>(plane.unit_bytes) + inside) / kGapBytes * kGapBytes + kGapBytes;
    }
    inside = plane.stride[a] * plane.shape[a];
  }
}

BufferPlane make_plane(const std::string& tensor, const PlaneSpec& spec, const Case& c) {
  BufferPlane plane;
  plane.name = tensor + spec.suffix;
  plane.format = spec.format;
  plane.shape = spec.shape;
  plane.bytes = spec.bytes;
  if (const ScalarFormat* scalar = find_scalar_format(spec.format)) {
    plane.unit_bytes = static_cast<std::size_t>(std::max(1, scalar->storage_bytes));
    if (scalar->specials == Specials::nan_minus_zero)  // the one NaN of the FNUZ formats
      plane.poison = {std::vector{std::byte{0x80}}, std::vector{std::byte{0x5A}}};
  } else {  // a block is written as a whole
    const auto blocks = static_cast<std::size_t>(element_count(spec.shape)) /
                        static_cast<std::size_t>(format(spec.format).block_elements);
    plane.unit_bytes = spec.bytes / std::max<std::size_t>(1, blocks);
  }
  const std::int64_t behind_entry = c.layout == "unaligned" ? static_cast<std::int64_t>(plane.unit_bytes) : 0,
                     behind_row = c.layout == "gaps" ? kGapBytes : behind_entry;
  if (behind_row > 0 && spec.shape.size() >= 2) {
    plane.stride.assign(spec.shape.size(), 0);
    const std::int64_t rows = element_count(spec.shape) / spec.shape.back();
    plane.stride[spec.shape.size() - 2] = static_cast<std::int64_t>(spec.bytes) / rows + behind_row;
    for (std::size_t a = spec.shape.size() - 2; a-- > 0;)
      plane.stride[a] = plane.stride[a + 1] * spec.shape[a + 1] + behind_entry;
  }
  if (c.layout == "far" && spec.shape.size() >= 2) set_far_strides(plane);
  return plane;
}

WorkerCall named_call(const Case& c) {
  WorkerCall call;
  call.op = c.op->name;
  call.variant = c.variant;
  for (const auto& [name, value] : c.attributes.all()) call.attributes.emplace_back(name, value);
  return call;
}

}  // namespace

WorkerCall make_empty_call(const Case& c) {
  WorkerCall call = named_call(c);
  for (const auto& t : c.op->tensors(c.attributes)) {
    auto& list = t.role == TensorRole::output ? call.outputs : call.inputs;
    for (const auto& spec : planes(format(t.format), t.shape)) list.push_back(make_plane(t.name, spec, c));
  }
  return call;
}

WorkerCall make_call(const Case& c, const Inputs& inputs) {
  WorkerCall call = named_call(c);
  for (const auto& t : inputs.tensors) {
    if (t.role == TensorRole::output) {
      for (const auto& spec : planes(format(t.format), t.shape))
        call.outputs.push_back(make_plane(t.name, spec, c));
      continue;
    }
    const Encoded& tensor = inputs.given().at(t.name);
    for (const auto& plane : tensor.planes) {
      BufferPlane p = make_plane(t.name, plane.spec, c);
      p.data = plane.bytes;
      if (plane.spec.suffix.empty())
        for (const auto& u : inputs.unused)
          if (u.tensor == t.name) {
            const auto elements = static_cast<std::size_t>(element_count(t.shape));
            p.unused.push_back({static_cast<std::size_t>(u.first) * p.bytes / elements,
                                static_cast<std::size_t>(u.count) * p.bytes / elements});
          }
      call.inputs.push_back(std::move(p));
    }
  }
  return call;
}

TensorSet output_tensors(const Inputs& inputs, const Outputs& planes_of_all) {
  TensorSet outputs;
  std::size_t next = 0;
  for (const auto& t : inputs.tensors) {
    if (t.role != TensorRole::output) continue;
    Encoded e{t.format, t.shape, {}};
    for (const auto& spec : planes(format(t.format), t.shape))
      e.planes.push_back({spec, planes_of_all.at(next++)});
    outputs.emplace(t.name, std::move(e));
  }
  return outputs;
}

std::vector<std::vector<double>> decode_outputs(const Inputs& inputs, const Outputs& planes_of_all) {
  std::vector<std::vector<double>> decoded;
  if (planes_of_all.empty()) return decoded;
  try {
    const TensorSet outputs = output_tensors(inputs, planes_of_all);
    for (const auto& t : inputs.tensors)
      if (t.role == TensorRole::output) decoded.push_back(decode_tensor(outputs.at(t.name)));
  } catch (const InputError&) {
    decoded.clear();
  }
  return decoded;
}

}  // namespace assay
