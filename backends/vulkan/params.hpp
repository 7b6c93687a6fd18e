// The parameter block of every shader: the C++ counterparts of the structs in shaders/common.glsl, scalar
// layout.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay_vulkan {

struct DeviceTensor {
  std::uint64_t data = 0;
  std::int32_t rank = 0;
  std::int32_t width = 0;  // of a row, in elements
  std::int32_t shape[5] = {};
  std::int32_t rows = 0;
  std::int64_t stride[5] = {};  // bytes
};

struct DeviceOperand {
  DeviceTensor payload, scale, block_scale, global_scale;
  std::int32_t middle = 1;
  std::int32_t matrix_rows = 1;
};

struct Params {
  DeviceOperand operand[3];
  DeviceTensor tensor[6];
  std::int64_t integer[24] = {};
  float real[8] = {};
  std::uint64_t scratch[8] = {};
};

static_assert(sizeof(DeviceTensor) == 80 && sizeof(DeviceOperand) == 328);
static_assert(offsetof(Params, tensor) == 984 && sizeof(Params) == 984 + 480 + 192 + 32 + 64);

}  // namespace assay_vulkan
