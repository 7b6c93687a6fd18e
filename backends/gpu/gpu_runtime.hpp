// One spelling for both vendors: gpuX is cudaX under nvcc and hipX under clang's HIP. Every kernel that is
// not written for one vendor's matrix unit includes this and nothing of CUDA or HIP itself.
//
// Warps here are logical: kWarp = 32 lanes on every device. On a 64-lane wave two of them run side by side,
// and the shuffles below never cross the middle. Block sizes are multiples of 64, so that no wave is partly
// filled.
#pragma once

#if defined(__HIP__) || defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define ASSAY_GPU_HIP 1
#define ASSAY_GPU(name) hip##name
#define GPU_GRID_CONSTANT
#else
#include <cuda_runtime.h>
#define ASSAY_GPU_HIP 0
#define ASSAY_GPU(name) cuda##name
#define GPU_GRID_CONSTANT \
  __grid_constant__  // a kernel's parameter, read where it lies instead of copied to the stack
#endif

#include <cstdint>

#define GPU_BOTH __host__ __device__ inline

using gpuError_t = ASSAY_GPU(Error_t);

#define gpuSuccess ASSAY_GPU(Success)
#define gpuMalloc ASSAY_GPU(Malloc)
#define gpuFree ASSAY_GPU(Free)
#define gpuMemcpy ASSAY_GPU(Memcpy)
#define gpuMemset ASSAY_GPU(Memset)
#define gpuMemcpyHostToDevice ASSAY_GPU(MemcpyHostToDevice)
#define gpuMemcpyDeviceToHost ASSAY_GPU(MemcpyDeviceToHost)
#define gpuMemcpyDeviceToDevice ASSAY_GPU(MemcpyDeviceToDevice)
#define gpuGetLastError ASSAY_GPU(GetLastError)
#define gpuGetErrorName ASSAY_GPU(GetErrorName)
#define gpuGetErrorString ASSAY_GPU(GetErrorString)
#define gpuDeviceSynchronize ASSAY_GPU(DeviceSynchronize)
#define gpuDeviceReset ASSAY_GPU(DeviceReset)
#define gpuGetDeviceCount ASSAY_GPU(GetDeviceCount)
#define gpuSetDevice ASSAY_GPU(SetDevice)
#define gpuDriverGetVersion ASSAY_GPU(DriverGetVersion)
#define gpuRuntimeGetVersion ASSAY_GPU(RuntimeGetVersion)
#if ASSAY_GPU_HIP
using gpuDeviceProp = hipDeviceProp_t;
// hipGetDeviceProperties may be a macro for a versioned name, which pasting would miss.
inline gpuError_t gpuGetDeviceProperties(gpuDeviceProp* properties, int device) {
  return hipGetDeviceProperties(properties, device);
}
template <class Kernel>
gpuError_t gpuAllowSharedMemory(Kernel kernel, int bytes) {
  return hipFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
#else
using gpuDeviceProp = cudaDeviceProp;
inline gpuError_t gpuGetDeviceProperties(gpuDeviceProp* properties, int device) {
  return cudaGetDeviceProperties(properties, device);
}
template <class Kernel>
gpuError_t gpuAllowSharedMemory(Kernel kernel, int bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}
#endif

namespace assay_gpu {

inline constexpr int kWarp = 32;

// Largest errors of the math library's f32 functions (no fast math, no flush to zero), relative, in units of
// 2^-23: for CUDA exp and tanh over all inputs on an H200 (reports/results/h200/silicon.md), where the
// programming guide's 1 ulp of expf is too little, else that guide; OCML promises the same or better than
// OpenCL's full profile asks for.
#if ASSAY_GPU_HIP
inline constexpr const char* kExpUlp = "2";
inline constexpr const char* kTanhUlp = "4";
inline constexpr const char* kLogUlp = "2";
inline constexpr const char* kSiluUlp = "3";  // g / (1 + exp(-g))
inline constexpr const char* kExpWord = "";   // of a schedule: none says OCML's expf
#else
inline constexpr const char* kExpUlp = "1.28";
inline constexpr const char* kTanhUlp = "2";
inline constexpr const char* kLogUlp = "1";
inline constexpr const char* kExpWord = "cuda_expf";
inline constexpr const char* kSiluUlp = "2.3";  // exp's 1.28, half a unit each of the sum and the quotient
#endif

#if defined(__CUDACC__) || ASSAY_GPU_HIP  // what follows is device code
template <class T>
__device__ inline T shuffle_xor(T value, int lane_mask) {
#if ASSAY_GPU_HIP
  return __shfl_xor(value, lane_mask, kWarp);
#else
  return __shfl_xor_sync(0xFFFFFFFFU, value, lane_mask, kWarp);
#endif
}
template <class T>
__device__ inline T shuffle(T value, int lane) {
#if ASSAY_GPU_HIP
  return __shfl(value, lane, kWarp);
#else
  return __shfl_sync(0xFFFFFFFFU, value, lane, kWarp);
#endif
}

// c + the four products of signed bytes.
__device__ inline int dot4(int a, int b, int c) {
#if !ASSAY_GPU_HIP
  return __dp4a(a, b, c);
#else
  for (int i = 0; i < 4; ++i)
    c += static_cast<std::int8_t>(a >> (8 * i)) * static_cast<std::int8_t>(b >> (8 * i));
  return c;
#endif
}

struct Sum {
  __device__ static float identity() { return 0.0F; }
  __device__ float operator()(float a, float b) const { return a + b; }
};
// NaN counts as nothing: who needs it to show looks for it elsewhere (the sum of exponentials has it).
struct Max {
  __device__ static float identity() { return -__builtin_huge_valf(); }
  __device__ float operator()(float a, float b) const { return b > a ? b : a; }
};

// Over the 32 lanes of a logical warp, the same bits in each; a fixed tree.
template <class Combine>
__device__ inline float warp_reduce(float value, Combine combine) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  return value;
}

// Over all threads of a one-dimensional block of whole warps; every thread calls it and gets the result.
// `slots` is shared memory for one float per warp, free for reuse on return.
template <class Combine>
__device__ inline float block_reduce(float value, Combine combine, float* slots) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce(value, combine);
  if (static_cast<int>(threadIdx.x) % kWarp == 0) slots[warp] = value;
  __syncthreads();
  value = Combine::identity();
  for (int w = 0; w < warps; ++w) value = combine(value, slots[w]);
  __syncthreads();
  return value;
}
#endif

}  // namespace assay_gpu
