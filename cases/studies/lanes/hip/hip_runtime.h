// What the kernels of backends/hip use of HIP, on a CPU: a block is one wave, and each of its lanes a thread
// that runs the kernel's own source. Blocks run one after the other, so that shared memory can be static.
#pragma once

#include <array>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace lanes {

inline constexpr int kMostLanes = 64;
inline thread_local dim3 thread_index;
inline dim3 block_index;
inline std::barrier<>* barrier = nullptr;
inline std::array<std::uint64_t, kMostLanes> exchange;

// Runs kernel() on every lane of every block.
inline void launch(dim3 grid, int wave, const std::function<void()>& kernel) {
  std::barrier<> meeting(wave);
  barrier = &meeting;
  const auto lane = [&](unsigned index) {
    thread_index = {index, 0, 0};
    for (unsigned z = 0; z < grid.z; ++z)
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
          meeting.arrive_and_wait();
          if (index == 0) block_index = {x, y, z};
          meeting.arrive_and_wait();
          kernel();
        }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < wave; ++i) threads.emplace_back(lane, static_cast<unsigned>(i));
}

}  // namespace lanes

#define threadIdx (lanes::thread_index)
#define blockIdx (lanes::block_index)
inline const dim3 blockDim{};
inline void __syncthreads() { lanes::barrier->arrive_and_wait(); }

// Every lane calls it.
template <class T>
T __shfl(T value, int lane, int /*width*/) {
  const auto own = static_cast<std::size_t>(threadIdx.x);
  lanes::exchange[own] = 0;
  std::memcpy(&lanes::exchange[own], &value, sizeof value);
  __syncthreads();
  T other;
  std::memcpy(&other, &lanes::exchange[static_cast<std::size_t>(lane)], sizeof other);
  __syncthreads();
  return other;
}
template <class T>
T __shfl_xor(T value, int mask, int width) {
  return __shfl(value, static_cast<int>(threadIdx.x) ^ mask, width);
}

// Names that gpu_runtime.hpp speaks of and no lane calls.
enum hipError_t { hipSuccess };
struct hipDeviceProp_t {};
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize };
inline hipError_t hipGetDeviceProperties(hipDeviceProp_t*, int) { return hipSuccess; }
inline hipError_t hipFuncSetAttribute(const void*, hipFuncAttribute, int) { return hipSuccess; }
