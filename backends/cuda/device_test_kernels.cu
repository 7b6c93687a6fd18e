#include "backends/cuda/device_test_kernels.hpp"

#include "backends/cuda/toolkit.cuh"
#include "backends/gpu/gpu_runtime.hpp"

namespace assay_gpu {
namespace {

__global__ void fill(float* data, std::int64_t first, std::int64_t count) {
  const std::int64_t i = threadIdx.x;
  if (i < count) data[first + i] = 1.0F;
}

__global__ void encode_both(Element element, const float* numbers, std::uint32_t* bits,
                            std::uint32_t* toolkit, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  bits[i] = BitCodes::encode(element, numbers[i]);
  toolkit[i] = ToolkitCodes::encode(element, numbers[i]);
}

__global__ void decode_both(Element element, std::uint32_t* bits, std::uint32_t* toolkit, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  bits[i] = bits_of(BitCodes::decode(element, static_cast<std::uint32_t>(i)));
  toolkit[i] = bits_of(ToolkitCodes::decode(element, static_cast<std::uint32_t>(i)));
}

BothCodes fetch(const std::uint32_t* bits, const std::uint32_t* toolkit, std::size_t count) {
  BothCodes both{std::vector<std::uint32_t>(count), std::vector<std::uint32_t>(count)};
  gpuMemcpy(both.bits.data(), bits, count * sizeof(std::uint32_t), gpuMemcpyDeviceToHost);
  gpuMemcpy(both.toolkit.data(), toolkit, count * sizeof(std::uint32_t), gpuMemcpyDeviceToHost);
  return both;
}

unsigned blocks(std::size_t count) { return static_cast<unsigned>((count + 255) / 256); }

}  // namespace

void launch_fill(float* data, std::int64_t first, std::int64_t count) {
  fill<<<1, static_cast<unsigned>((count + 63) / 64 * 64)>>>(data, first, count);
}
void launch_fill(const View& view, std::int64_t first, std::int64_t count) {
  launch_fill(reinterpret_cast<float*>(view.data), first, count);
}
void launch_too_large() { fill<<<1, 4096>>>(nullptr, 0, 0); }
void launch_wild_store() { fill<<<1, 64>>>(reinterpret_cast<float*>(std::uintptr_t{64}), 0, 1); }

BothCodes encode_on_device(Memory& memory, Element element, const std::vector<float>& numbers) {
  const int count = static_cast<int>(numbers.size());
  std::uint32_t* bits = memory.temporary_array<std::uint32_t>(count);
  std::uint32_t* toolkit = memory.temporary_array<std::uint32_t>(count);
  encode_both<<<blocks(numbers.size()), 256>>>(element, memory.upload(numbers), bits, toolkit, count);
  return fetch(bits, toolkit, numbers.size());
}

BothCodes decode_on_device(Memory& memory, Element element, std::uint32_t codes) {
  std::uint32_t* bits = memory.temporary_array<std::uint32_t>(codes);
  std::uint32_t* toolkit = memory.temporary_array<std::uint32_t>(codes);
  decode_both<<<blocks(codes), 256>>>(element, bits, toolkit, static_cast<int>(codes));
  return fetch(bits, toolkit, codes);
}

}  // namespace assay_gpu
