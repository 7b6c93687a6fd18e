// What the kernels of backends/hip use of HIP, on a CPU: a block is one wave, and each of its lanes a context
// that runs the kernel's own source. Blocks run one after the other, so that shared memory can be static.
#pragma once

#include <ucontext.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
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
inline constexpr std::size_t kStackBytes = std::size_t{1} << 18;
inline dim3 thread_index, block_index;
inline std::array<std::uint64_t, kMostLanes> exchange;

// Each lane runs until it meets the barrier or ends, then the next one does: in one thread, so that no
// scheduler has to bring 64 threads together at each barrier, and the order is the same in every run.
class Wave {
 public:
  Wave(int lanes, const std::function<void()>& kernel)
      : kernel_(kernel), lanes_(static_cast<std::size_t>(lanes)) {
    running = this;
  }

  void run_block() {
    for (Lane& lane : lanes_) {
      getcontext(&lane.context);
      lane.context.uc_stack.ss_sp = lane.stack.data();
      lane.context.uc_stack.ss_size = lane.stack.size();
      lane.context.uc_link = &home_;
      lane.ended = false;
      makecontext(&lane.context, run_lane, 0);
    }
    for (std::size_t left = lanes_.size(); left > 0;)
      for (at_ = 0; at_ < lanes_.size(); ++at_) {
        if (lanes_[at_].ended) continue;
        thread_index = {static_cast<unsigned>(at_), 0, 0};
        swapcontext(&home_, &lanes_[at_].context);
        if (lanes_[at_].ended) --left;
      }
  }
  void meet() { swapcontext(&lanes_[at_].context, &home_); }

  inline static Wave* running = nullptr;

 private:
  struct Lane {
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(kStackBytes);
    bool ended = false;
  };
  static void run_lane() {
    running->kernel_();
    running->lanes_[running->at_].ended = true;
  }

  const std::function<void()>& kernel_;
  std::vector<Lane> lanes_;
  std::size_t at_ = 0;
  ucontext_t home_{};
};

// Runs kernel() on every lane of every block.
inline void launch(dim3 grid, int lanes, const std::function<void()>& kernel) {
  Wave wave(lanes, kernel);
  for (block_index.z = 0; block_index.z < grid.z; ++block_index.z)
    for (block_index.y = 0; block_index.y < grid.y; ++block_index.y)
      for (block_index.x = 0; block_index.x < grid.x; ++block_index.x) wave.run_block();
}

}  // namespace lanes

#define threadIdx (lanes::thread_index)
#define blockIdx (lanes::block_index)
inline const dim3 blockDim{};
inline void __syncthreads() { lanes::Wave::running->meet(); }

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
