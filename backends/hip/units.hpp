// Matrix units of AMD GPUs by their builtins, all of one shape (layouts.hpp), held by one wave.
#pragma once

#include "backends/gpu/elements.cuh"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/hip/architectures.hpp"
#include "backends/hip/layouts.hpp"

namespace assay_gpu {

template <class Layout>
struct Fragment {
  alignas(8) typename Layout::Code code[Layout::kPerLane];
};
template <class Layout, class Number>
struct Results {
  Number value[Layout::kResults];
};

// A value of another lane of the wave.
template <class Layout, class T>
__device__ inline T of_lane(T value, int lane) {
#if ASSAY_GPU_HIP
  return __shfl(value, lane, Layout::kWave);
#else
  static_assert(Layout::kWave == kWarp);
  return shuffle(value, lane);
#endif
}

// Any unit without one: numbers are decoded, products and sums are of type Number. What an engine's kernel
// falls back to; it also lets the kernels around the units run where there is no such unit. Every lane of the
// wave calls it. Not inlined: unrolled into the loops around it, it would be 10^5 instructions.
template <class Layout, class Number, class Decode>
__device__ __attribute__((noinline)) void decoded_mma(const Fragment<Layout>& a, const Fragment<Layout>& b,
                                                      Results<Layout, Number>& c, Decode decode) {
  const int lane = static_cast<int>(threadIdx.x) % Layout::kWave;
  for (int k = 0; k < Layout::kPerLane; ++k) {
    const Number x = decode(a.code[k]), y = decode(b.code[k]);
    for (int holder = 0; holder < Layout::kDepth / Layout::kPerLane; ++holder) {
      const Number right = of_lane<Layout>(y, holder * 16 + lane % 16);
      for (int i = 0; i < Layout::kResults; ++i)
        c.value[i] += of_lane<Layout>(x, holder * 16 + Layout::row_of(lane, i)) * right;
    }
  }
}

template <class Layout_, Element kElement>
struct DecodedUnit {
  using Layout = Layout_;
  using Acc = Results<Layout, float>;
  struct Decode {
    __device__ float operator()(std::uint32_t code) const { return decode_element(kElement, code); }
  };
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    decoded_mma(a, b, c, Decode{});
  }
  static __device__ std::uint32_t encode(float x) { return encode_element(kElement, x); }
};

template <class Layout_>
struct IntegerUnit {
  using Layout = Layout_;
  using Acc = Results<Layout, int>;
  struct Decode {
    __device__ int operator()(std::uint32_t code) const { return static_cast<std::int8_t>(code); }
  };
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    decoded_mma(a, b, c, Decode{});
  }
};

// ASSAY_FAST_PATH 0: the fast path is written down and never taken.
#ifndef ASSAY_FAST_PATH
#define ASSAY_FAST_PATH 1
#endif
template <bool kFast, class Unit, class Otherwise>
struct Taken {
  using type = Unit;
};
template <class Unit, class Otherwise>
struct Taken<false, Unit, Otherwise> {
  using type = Otherwise;
};
template <class Unit, class Otherwise>
using taken = typename Taken<ASSAY_FAST_PATH != 0, Unit, Otherwise>::type;

#if defined(__AMDGCN__)
template <class To, class From>
__device__ inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}
typedef float Float8 __attribute__((ext_vector_type(8)));
typedef float Float4 __attribute__((ext_vector_type(4)));
typedef int Int2 __attribute__((ext_vector_type(2)));
typedef int Int4 __attribute__((ext_vector_type(4)));
typedef _Float16 Half16 __attribute__((ext_vector_type(16)));
typedef short Short8 __attribute__((ext_vector_type(8)));
typedef short Short4 __attribute__((ext_vector_type(4)));
#endif

#if ASSAY_UNIT_WMMA_FP8
struct WmmaFp8 {
  using Layout = LayoutWmma8;
  using Acc = Results<Layout, float>;
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    c = bits_as<Acc>(__builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(bits_as<Int2>(a), bits_as<Int2>(b),
                                                                          bits_as<Float8>(c)));
  }
  // To nearest even, e4m3fn; callers stay at or below 448.
  static __device__ std::uint32_t encode(float x) {
    return __builtin_amdgcn_cvt_pk_fp8_f32(x, x, 0, false) & 0xFF;
  }
};
#endif

#if ASSAY_UNIT_MFMA_FP8
struct MfmaFp8 {
  using Layout = LayoutMfma8;
  using Acc = Results<Layout, float>;
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    c = bits_as<Acc>(__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(bits_as<long>(a), bits_as<long>(b),
                                                                bits_as<Float4>(c), 0, 0, 0));
  }
  // To nearest even, e4m3fnuz; callers stay at or below 240.
  static __device__ std::uint32_t encode(float x) {
    return __builtin_amdgcn_cvt_pk_fp8_f32(x, x, 0, false) & 0xFF;
  }
};
#endif

#if ASSAY_UNIT_WMMA_F16
struct WmmaF16 {
  using Layout = LayoutWmma16;
  using Acc = Results<Layout, float>;
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    c = bits_as<Acc>(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bits_as<Half16>(a), bits_as<Half16>(b),
                                                                bits_as<Float8>(c)));
  }
  static __device__ std::uint32_t encode(float x) { return encode_element(Element::f16, x); }
};
#endif

#if ASSAY_UNIT_WMMA_BF16
struct WmmaBf16 {
  using Layout = LayoutWmma16Half;
  using Acc = Results<Layout, float>;
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    c = bits_as<Acc>(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(bits_as<Short8>(a), bits_as<Short8>(b),
                                                                       bits_as<Float8>(c)));
  }
};
#endif

#if ASSAY_UNIT_MFMA_BF16
struct MfmaBf16 {
  using Layout = LayoutMfma16;
  using Acc = Results<Layout, float>;
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    c = bits_as<Acc>(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bits_as<Short4>(a), bits_as<Short4>(b),
                                                               bits_as<Float4>(c), 0, 0, 0));
  }
};
#endif

#if ASSAY_UNIT_MFMA_I8_DEEP
struct MfmaI8 {
  using Layout = LayoutMfma8;
  using Acc = Results<Layout, int>;
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    c = bits_as<Acc>(
        __builtin_amdgcn_mfma_i32_16x16x32_i8(bits_as<long>(a), bits_as<long>(b), bits_as<Int4>(c), 0, 0, 0));
  }
};
#elif ASSAY_UNIT_MFMA_I8
struct MfmaI8 {
  using Layout = LayoutMfma8Short;
  using Acc = Results<Layout, int>;
  static __device__ int word(const Fragment<Layout>& f) {
    int w;
    __builtin_memcpy(&w, f.code, sizeof w);
    return w;
  }
  static __device__ void mma(const Fragment<Layout>& a, const Fragment<Layout>& b, Acc& c) {
    c = bits_as<Acc>(__builtin_amdgcn_mfma_i32_16x16x16i8(word(a), word(b), bits_as<Int4>(c), 0, 0, 0));
  }
};
#endif

}  // namespace assay_gpu
