// K and V as operands of m16n8k16 in split decode (mma_attention_split.cuh says how): codes to numbers, and
// which element of a row a lane has.
#pragma once

#include "backends/cuda/mma.cuh"
#include "backends/gpu/elements.cuh"

namespace assay_gpu {

inline constexpr int kSplitTileElements =
    2048;  // of K and of V in the registers of a warp: keys of a step times d

// Blocks that share a multiprocessor: what the registers of their operands leave room for.
GPU_BOTH constexpr int split_resident(int bytes, bool one_column) {
  return !one_column ? 2 : bytes == 1 ? 4 : 3;
}

struct CodesHalf {
  using Unit = HalfUnit;
  static constexpr int kBytes = 2;
  static constexpr bool kWide = true;
};
struct CodesBfloat {
  using Unit = BfloatUnit;
  static constexpr int kBytes = 2;
  static constexpr bool kWide = true;
};
struct CodesE4m3 {
  using Unit = HalfUnit;
  static constexpr int kBytes = 1;
  static constexpr bool kWide = false;
  // Two codes to two f16 numbers; exact.
  static __device__ std::uint32_t widen(std::uint32_t pair) {
    std::uint32_t r;
#if __CUDA_ARCH__ >= 890
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }"
        : "=r"(r)
        : "r"(pair));
#else
    r = 0;
    for (int i = 0; i < 2; ++i) {
      const float value = decode_element(Element::e4m3fn, pair >> (8 * i) & 0xFFU);
      r |= encode_element(Element::f16, value) << (16 * i);
    }
#endif
    return r;
  }
};
struct CodesE5m2 {
  using Unit = HalfUnit;
  static constexpr int kBytes = 1;
  static constexpr bool kWide = false;
  static __device__ std::uint32_t widen(std::uint32_t pair) {
    return __byte_perm(pair, 0, 0x1404);
  }  // the upper byte of f16
};

template <class Codes, int kD>
struct SplitShape {
  static constexpr int kRowBytes = kD * Codes::kBytes;
  static constexpr int kTile = kSplitTileElements / kD;  // keys of a step
  static constexpr int kBlocks = kTile / 16;
  static constexpr int kKeyLoads = kRowBytes / 64;   // 16-byte loads of a lane and key of K
  static constexpr int kValueBytes = kRowBytes / 8;  // of a lane and key of V
  static constexpr int kChunk = kValueBytes < 16 ? kValueBytes : 16;
  static constexpr int kValueLoads = kValueBytes / kChunk;
  static constexpr int kSteps = kD / 16;
  static constexpr int kElementsPerLoad = 16 / Codes::kBytes;
  // Column of q and K that element e of lane t is.
  static __device__ int key_column(int t, int e) {
    return (e / kElementsPerLoad * 4 + t) * kElementsPerLoad + e % kElementsPerLoad;
  }
  // Column of V that element e of lane g is.
  static __device__ int value_column(int g, int e) {
    constexpr int kPer = kChunk / Codes::kBytes;
    return (e / kPer * 8 + g) * kPer + e % kPer;
  }
};

// Word `w` (32 bits) of a lane's loads.
__device__ inline std::uint32_t word_of(const uint4& x, int w) {
  return w == 0 ? x.x : w == 1 ? x.y : w == 2 ? x.z : x.w;
}

__device__ inline uint4 load_streaming(const unsigned char* at) {
  return __ldcs(reinterpret_cast<const uint4*>(at));
}
__device__ inline uint4 load_chunk(const unsigned char* at, int bytes) {
  if (bytes == 16) return load_streaming(at);
  const uint2 half = __ldcs(reinterpret_cast<const uint2*>(at));
  return uint4{half.x, half.y, 0, 0};
}

}  // namespace assay_gpu
