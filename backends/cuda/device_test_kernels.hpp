// Kernels of device_test.cpp, launched from device_test_kernels.cu.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/gpu/device.hpp"

namespace assay_gpu {

// Stores 1 to first, first + 1, ... (count of them) of a view's f32.
void launch_fill(const View& view, std::int64_t first, std::int64_t count);
void launch_fill(float* data, std::int64_t first, std::int64_t count);
// A block of more threads than any device has.
void launch_too_large();
// Stores through an address that is nobody's.
void launch_wild_store();
// Codes of the numbers by both conversions, and values of all codes by both, computed on the device.
struct BothCodes {
  std::vector<std::uint32_t> bits, toolkit;
};
BothCodes encode_on_device(Memory& memory, Element element, const std::vector<float>& numbers);
BothCodes decode_on_device(Memory& memory, Element element, std::uint32_t codes);  // bits of the f32 values

}  // namespace assay_gpu
