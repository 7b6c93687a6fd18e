#include "backends/cpu/rows.hpp"

#include <cstring>

#include "backends/cpu/layouts.hpp"

namespace assay_cpu {
namespace {

Planes find_planes(const Call& call, std::string_view name, const Layout& layout, bool output) {
  const auto find = [&](const std::string& plane) {
    return output ? call.find_output(plane) : call.find_input(plane);
  };
  const std::string base(name);
  Planes planes;
  planes.payload = find(base);
  planes.scale = find(base + ".scale");
  planes.scale_2 = find(base + ".scale_2");
  planes.block_scale = find(base + ".block_scale");
  planes.global_scale = find(base + ".global_scale");
  const auto need = [&](bool wanted, const assay_tensor* plane, const char* suffix) {
    if (wanted && plane == nullptr) {
      throw Unsupported("tensor '" + base + suffix + "' of format " + std::string(layout.name) +
                        " is missing");
    }
  };
  need(true, planes.payload, "");
  need(layout.has_scale, planes.scale, ".scale");
  need(layout.scaling == Scaling::second, planes.scale_2, ".scale_2");
  need(layout.has_block_scale, planes.block_scale, ".block_scale");
  need(layout.scaling == Scaling::global, planes.global_scale, ".global_scale");
  planes.length = row_length(*planes.payload) * layout.packed;
  planes.middle = planes.payload->rank >= 3 ? planes.payload->shape[planes.payload->rank - 2] : 1;
  if (planes.length % layout.block_elements != 0) {
    throw Unsupported("rows of " + std::to_string(planes.length) + " elements are not whole blocks of " +
                      std::string(layout.name) + " (" + std::to_string(layout.block_elements) + ")");
  }
  return planes;
}

}  // namespace

RowReader::RowReader(const Call& call, std::string_view tensor, std::string_view format)
    : layout_(&layout(format)), rows_(0) {
  planes_ = find_planes(call, tensor, *layout_, false);
  rows_ = row_count(*planes_.payload);
}

RowReader RowReader::rotated() const {
  RowReader reader = *this;
  reader.layout_ = &rotated_layout(*layout_);
  return reader;
}

void RowReader::read(const Engine& engine, std::int64_t row, float* out) const {
  layout_->read(planes_, engine, row, out);
}

void check_readable(const Call& call, std::string_view tensor, std::string_view format) {
  find_planes(call, tensor, layout(format), false);
}

Planes output_planes(const Call& call, std::string_view tensor, const Layout& format) {
  return find_planes(call, tensor, format, true);
}

void check_dtype(std::string_view format) {
  if (format != "f32" && format != "f16" && format != "bf16") {
    throw Unsupported("dtype " + std::string(format) + ": this kernel writes f32, f16 and bf16");
  }
}

void write_row(const Engine& engine, std::string_view dtype, const float* values, std::int64_t count,
               std::byte* bytes) {
  const std::size_t n = static_cast<std::size_t>(count);
  if (dtype == "f16") {
    engine.to_f16(values, bytes, n);
  } else if (dtype == "bf16") {
    engine.to_bf16(values, bytes, n);
  } else {
    std::memcpy(bytes, values, n * sizeof(float));
  }
}

}  // namespace assay_cpu
