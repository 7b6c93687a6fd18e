// Addresses inside a View: byte offsets of rows and elements, strides honoured.
#pragma once

#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/view.hpp"

namespace assay_gpu {

GPU_BOTH std::int64_t row_offset(const View& view, std::int64_t row) {
  if (view.rank <= 1) return 0;
  if (view.rank == 2) return row * view.stride[0];
  std::int64_t offset = 0;
  for (std::int32_t a = view.rank - 2; a > 0; --a) {
    offset += row % view.shape[a] * view.stride[a];
    row /= view.shape[a];
  }
  return offset + row * view.stride[0];
}

// Of element `index` in row-major order; elements are whole bytes.
GPU_BOTH std::int64_t element_offset(const View& view, std::int64_t index) {
  if (view.rank <= 0) return 0;
  const std::int64_t length = view.shape[view.rank - 1];
  const std::int64_t inner = view.stride[view.rank - 1];
  if (view.rank == 1) return index * inner;
  return row_offset(view, index / length) + index % length * inner;
}

GPU_BOTH float load_f32(const View& view, std::int64_t index) {
  return *reinterpret_cast<const float*>(view.data + element_offset(view, index));
}
GPU_BOTH std::int32_t load_int32(const View& view, std::int64_t index) {
  return *reinterpret_cast<const std::int32_t*>(view.data + element_offset(view, index));
}
GPU_BOTH std::int8_t load_int8(const View& view, std::int64_t index) {
  return static_cast<std::int8_t>(view.data[element_offset(view, index)]);
}
GPU_BOTH void store_f32(const View& view, std::int64_t index, float value) {
  *reinterpret_cast<float*>(view.data + element_offset(view, index)) = value;
}
GPU_BOTH void store_int32(const View& view, std::int64_t index, std::int32_t value) {
  *reinterpret_cast<std::int32_t*>(view.data + element_offset(view, index)) = value;
}

}  // namespace assay_gpu
