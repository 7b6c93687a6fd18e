// Device side of attention.hpp: which keys a row sees, where they lie, and their logits.
#pragma once

#include "backends/gpu/attention.hpp"
#include "backends/gpu/elements.cuh"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/planes.cuh"

namespace assay_gpu {

#if defined(__CUDACC__) || ASSAY_GPU_HIP

inline constexpr float kLog2E = 1.4426950408889634F;

__device__ inline float minus_infinity() { return float_of(0xFF800000U); }

__device__ inline float read_f32(const View& view, std::int64_t index) {
  return *reinterpret_cast<const float*>(view.data + index * view.stride[0]);
}
__device__ inline int read_int32(const View& view, std::int64_t row, std::int64_t column) {
  return *reinterpret_cast<const int*>(view.data + row * view.stride[0] + column * 4);
}

// Element of a tensor of one axis: no division, as load_f32 has for any rank.
__device__ inline float vector_f32(const View& view, std::int64_t index) {
  return *reinterpret_cast<const float*>(view.data + index * view.stride[0]);
}

__device__ inline int length_of(const AttentionArgs& a, int b) {
  if (a.lengths.data == nullptr) return a.len;
  return *reinterpret_cast<const std::int32_t*>(a.lengths.data + b * a.lengths.stride[0]);
}

struct KeyInterval {
  int begin, end;
};
// The keys that query i of request b may see, before a random mask.
__device__ inline KeyInterval visible_keys(const AttentionArgs& a, int length, int i) {
  KeyInterval keys{0, length};
  const int position = length - a.q + i;
  if (a.causal) keys.end = position + 1 < 0 ? 0 : position + 1;
  if (a.window > 0) {
    keys.begin = position - a.window + 1;
    if (keys.begin < 0) keys.begin = 0;
    if (keys.begin > keys.end) keys.begin = keys.end;
  }
  return keys;
}
__device__ inline bool masked_out(const AttentionArgs& a, int i, int j) {
  return a.mask.data != nullptr && a.mask.data[i * a.mask.stride[0] + j] == 0;
}

// Index on the outer axis of K and V, and on the next one, of key j.
struct KeyPlace {
  int outer, inner;
};
__device__ inline KeyPlace place_of(const AttentionArgs& a, int b, int j) {
  if (a.page == 0) return {b, j};
  const unsigned char* row = a.page_table.data + b * a.page_table.stride[0];
  return {reinterpret_cast<const std::int32_t*>(row)[j / a.page], j % a.page};
}
// Byte offset of key j of a kv head in a payload of four axes.
__device__ inline std::int64_t key_offset(const View& view, KeyPlace place, int g) {
  return place.outer * view.stride[0] + place.inner * view.stride[1] + g * view.stride[2];
}
// Row of K and V (counted over outer, inner and head) that holds key j of head g.
__device__ inline std::int64_t key_row(const AttentionArgs& a, int b, int j, int g) {
  const KeyPlace place = place_of(a, b, j);
  const std::int64_t inner_size = a.page == 0 ? a.len : a.page;
  return (place.outer * inner_size + place.inner) * a.kv_heads + g;
}
__device__ inline std::int64_t query_offset(const View& view, int b, int i, int h) {
  return b * view.stride[0] + i * view.stride[1] + h * view.stride[2];
}

// The logit times log2 e, of S = q.k: scaled, capped, minus the slope's share of the distance.
struct LogitScale {
  float factor;  // scale log2 e where nothing lies between, else scale
  float cap;     // 0: none
  bool bias;
  __device__ LogitScale(const AttentionArgs& a, float more)
      : factor(a.scale * more * (a.softcap > 0 || a.slopes.data != nullptr ? 1.0F : kLog2E)),
        cap(a.softcap),
        bias(a.slopes.data != nullptr) {}
  __device__ float operator()(float s, float slope, int position, int j) const {
    return rest(s * factor, slope, position, j);
  }
  // What comes after s * factor.
  __device__ float rest(float x, float slope, int position, int j) const {
    if (cap > 0) x = cap * tanhf(x / cap);
    if (bias) {
      const int distance = position > j ? position - j : j - position;
      x -= slope * static_cast<float>(distance);
    }
    return cap > 0 || bias ? x * kLog2E : x;
  }
};

// Stores a number of the result in f32, f16 or bf16.
__device__ inline void store_element(unsigned char* at, Element dtype, float x) {
  if (dtype == Element::f32) {
    *reinterpret_cast<float*>(at) = x;
  } else {
    *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(encode_element(dtype, x));
  }
}
__device__ inline float load_element(const unsigned char* at, Element dtype) {
  if (dtype == Element::f32) return *reinterpret_cast<const float*>(at);
  return decode_element(dtype, *reinterpret_cast<const std::uint16_t*>(at));
}
__device__ inline int dtype_bytes(Element dtype) { return dtype == Element::f32 ? 4 : 2; }

#endif

}  // namespace assay_gpu
