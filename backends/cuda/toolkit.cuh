// Codes by the CUDA toolkit's own conversions (cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, cuda_fp4.h): hardware
// cvt instructions where the architecture has them, the toolkit's software elsewhere and on the host. The
// other elements are BitCodes'.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // in cuda_fp4.hpp
#include <cuda_fp4.h>
#pragma GCC diagnostic pop
#include <cuda_fp8.h>

#include "backends/gpu/formats.cuh"

namespace assay_gpu {

struct ToolkitCodes {
  GPU_BOTH static float half_value(std::uint16_t code) { return __half2float(__half(__half_raw{code})); }

  GPU_BOTH static float decode(Element element, std::uint32_t code) {
    const std::uint8_t byte = static_cast<std::uint8_t>(code);
    switch (element) {
      case Element::f16:
        return half_value(static_cast<std::uint16_t>(code));
      case Element::bf16: {
        __nv_bfloat16_raw raw;
        raw.x = static_cast<std::uint16_t>(code);
        return __bfloat162float(__nv_bfloat16(raw));
      }
      case Element::e4m3fn:
        return half_value(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3).x);
      case Element::e5m2:
        return half_value(__nv_cvt_fp8_to_halfraw(byte, __NV_E5M2).x);
      case Element::e2m1:
        return half_value(__nv_cvt_fp4_to_halfraw(byte, __NV_E2M1).x);
      default:
        return decode_element(element, code);
    }
  }

  GPU_BOTH static std::uint32_t encode(Element element, float x) {
    switch (element) {
      case Element::f16:
        return static_cast<__half_raw>(__float2half_rn(x)).x;
      case Element::bf16:
        return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x;
      case Element::e4m3fn:
        return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
      case Element::e5m2:
        return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
      case Element::e2m1:
        return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest) & 0xFU;
      default:
        return encode_element(element, x);
    }
  }

  static bool knows(Element element) {
    return element == Element::f16 || element == Element::bf16 || element == Element::e4m3fn ||
           element == Element::e5m2 || element == Element::e2m1;
  }
};

}  // namespace assay_gpu
