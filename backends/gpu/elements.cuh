// Scalar codes on the device (and on the host, where tests run them): the value of a code, and the code
// nearest to a value, ties to even, by integer operations on the bits alone.
#pragma once

#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/view.hpp"

namespace assay_gpu {

GPU_BOTH std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
GPU_BOTH float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
GPU_BOTH float quiet_nan() { return float_of(0x7FC00000U); }
GPU_BOTH bool is_nan(float x) { return (bits_of(x) & 0x7FFFFFFFU) > 0x7F800000U; }
GPU_BOTH bool is_finite(float x) { return (bits_of(x) & 0x7F800000U) != 0x7F800000U; }
GPU_BOTH float magnitude(float x) { return float_of(bits_of(x) & 0x7FFFFFFFU); }

enum class Top : std::uint8_t {
  ieee_saturate,  // highest exponent: Inf and NaN; encoding stops at the largest finite number
  ieee_inf,       // the same; encoding overflows to Inf
  nan_only,       // S.11..1 is NaN, no Inf
  minus_zero,     // the code of -0 is the only NaN
  finite,         // every code is a number
};

// A float of `exponent_bits` and `fraction_bits` below its sign. largest: the code of the largest finite
// number.
struct SmallFloat {
  int exponent_bits, fraction_bits, bias;
  Top top;
  std::uint32_t largest, nan;
};

GPU_BOTH SmallFloat small_float(Element element) {
  switch (element) {
    case Element::f16:
      return {5, 10, 15, Top::ieee_inf, 0x7BFF, 0x7E00};
    case Element::bf16:
      return {8, 7, 127, Top::ieee_inf, 0x7F7F, 0x7FC0};
    case Element::e4m3fnuz:
      return {4, 3, 8, Top::minus_zero, 0x7F, 0x80};
    case Element::e5m2:
      return {5, 2, 15, Top::ieee_saturate, 0x7B, 0x7E};
    case Element::e5m2fnuz:
      return {5, 2, 16, Top::minus_zero, 0x7F, 0x80};
    case Element::e3m2:
      return {3, 2, 3, Top::finite, 0x1F, 0x1F};
    case Element::e2m3:
      return {2, 3, 1, Top::finite, 0x1F, 0x1F};
    case Element::e2m1:
      return {2, 1, 1, Top::finite, 0x7, 0x7};
    default:
      return {4, 3, 7, Top::nan_only, 0x7E, 0x7F};  // e4m3fn
  }
}

GPU_BOTH float decode_small(const SmallFloat& f, std::uint32_t code) {
  const std::uint32_t sign_bit = 1U << (f.exponent_bits + f.fraction_bits);
  const std::uint32_t m = code & (sign_bit - 1);
  const std::uint32_t sign = (code & sign_bit) != 0 ? 0x80000000U : 0U;
  if (f.top == Top::minus_zero && sign != 0 && m == 0) return quiet_nan();
  if (f.top == Top::nan_only && m == f.nan) return quiet_nan();
  if ((f.top == Top::ieee_saturate || f.top == Top::ieee_inf) && m > f.largest) {
    return m == f.largest + 1 ? float_of(sign | 0x7F800000U) : quiet_nan();
  }
  const std::uint32_t shifted = m << (23 - f.fraction_bits);
  if (m >> f.fraction_bits != 0)
    return float_of(sign | (shifted + (static_cast<std::uint32_t>(127 - f.bias) << 23)));
  if (f.bias == 127) return float_of(sign | shifted);  // bf16: subnormals are f32's own
  // A subnormal is fraction * 2^(1 - bias - fraction_bits): a normal f32.
  const float step = float_of(static_cast<std::uint32_t>(128 - f.bias - f.fraction_bits) << 23);
  return float_of(sign | bits_of(static_cast<float>(m) * step));
}

GPU_BOTH std::uint32_t encode_small(const SmallFloat& f, float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t m = bits & 0x7FFFFFFFU;
  const int drop = 23 - f.fraction_bits;
  const std::uint32_t sign = bits >> 31 << (f.exponent_bits + f.fraction_bits);
  if (m > 0x7F800000U) return f.nan;
  std::uint32_t code;
  const std::uint32_t smallest_normal = static_cast<std::uint32_t>(128 - f.bias) << 23;
  if (m >= smallest_normal || f.bias == 127) {
    // In units of the last place the code is an integer; a carry out of the fraction runs into the exponent
    // by itself.
    const std::uint32_t rounded = (m + (1U << (drop - 1)) - 1 + (m >> drop & 1U)) >> drop;
    code = rounded - (static_cast<std::uint32_t>(127 - f.bias) << f.fraction_bits);
  } else {
    // A number whose last place is the subnormals' step: its sum with x rounds as they do.
    const std::uint32_t magic = static_cast<std::uint32_t>(128 - f.bias + drop) << 23;
    code = bits_of(float_of(m) + float_of(magic)) - magic;
  }
  if (code > f.largest) code = f.top == Top::ieee_inf ? f.largest + 1 : f.largest;
  if (code == 0 && f.top == Top::minus_zero) return 0;  // there is no -0
  return sign | code;
}

// x to f32 with the last bit set when anything was lost: rounding that to 21 bits or fewer is rounding x to
// them.
GPU_BOTH float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  const bool away =
      (nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest)) > (x < 0 ? -x : x);
  return float_of((bits_of(nearest) - (away ? 1U : 0U)) | 1U);
}

// x rounded to the nearest integer, ties to even, held to [low, high]; NaN gives high.
GPU_BOTH int round_to_integer(float x, int low, int high) {
  if (is_nan(x)) return high;
  const float held = x < static_cast<float>(low)    ? static_cast<float>(low)
                     : x > static_cast<float>(high) ? static_cast<float>(high)
                                                    : x;
  const float shift = 12582912.0F;  // 1.5 * 2^23: its last place is 1
  return static_cast<int>((held + shift) - shift);
}

GPU_BOTH float decode_e8m0(std::uint32_t code) {
  if (code == 0xFF) return quiet_nan();
  return code == 0 ? float_of(0x00400000U) : float_of(code << 23);  // 2^-127 is a subnormal f32
}

// The nearest power of two, of two at the same distance the one with the even code; nothing lies below
// 2^-127.
GPU_BOTH std::uint32_t encode_e8m0(float x) {
  const std::uint32_t bits = bits_of(x);
  if (is_nan(x)) return 0xFF;
  if ((bits & 0x80000000U) != 0 || bits == 0) return 0;
  if (bits >= 0x7F800000U) return 0xFE;
  if (bits < 0x00800000U)
    return bits > 0x00600000U ? 1 : 0;  // below 2^-126: 1.5 * 2^-127 goes to the even code 0
  const std::uint32_t code = bits >> 23;
  const std::uint32_t fraction = bits & 0x7FFFFFU;
  const bool up = fraction > 0x400000U || (fraction == 0x400000U && code % 2 != 0);
  return up && code < 0xFE ? code + 1 : code;
}

GPU_BOTH std::uint32_t encode_tf32(float x) {  // saturates
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t sign = bits & 0x80000000U;
  if (is_nan(x)) return (bits | 0x400000U) & ~0x1FFFU;
  const std::uint32_t rounded = (bits + 0xFFFU + (bits >> 13 & 1U)) & ~0x1FFFU;
  return (rounded & 0x7FFFFFFFU) >= 0x7F800000U ? sign | 0x7F7FE000U : rounded;
}

// Value of the code in the low bits of `code`; exact.
GPU_BOTH float decode_element(Element element, std::uint32_t code) {
  switch (element) {
    case Element::f32:
      return float_of(code);
    case Element::tf32:
      return float_of(code & ~0x1FFFU);
    case Element::bf16:
      return float_of(code << 16);
    case Element::int8:
      return static_cast<float>(static_cast<std::int8_t>(code));
    case Element::uint8:
      return static_cast<float>(code);
    case Element::int4:
      return static_cast<float>(static_cast<int>(code ^ 8U) - 8);
    case Element::e8m0:
      return decode_e8m0(code);
    case Element::ue4m3:
      return decode_small(small_float(Element::e4m3fn), code & 0x7FU);
    default:
      return decode_small(small_float(element), code);
  }
}

GPU_BOTH std::uint32_t encode_element(Element element, float x) {
  switch (element) {
    case Element::f32:
      return bits_of(x);
    case Element::tf32:
      return encode_tf32(x);
    case Element::int8:
      return static_cast<std::uint32_t>(round_to_integer(x, -128, 127)) & 0xFFU;
    case Element::uint8:
      return static_cast<std::uint32_t>(round_to_integer(x, 0, 255));
    case Element::int4:
      return static_cast<std::uint32_t>(round_to_integer(x, -7, 7)) & 0xFU;
    case Element::e8m0:
      return encode_e8m0(x);
    case Element::ue4m3:
      return x < 0 ? 0U : encode_small(small_float(Element::e4m3fn), x) & 0x7FU;
    default:
      return encode_small(small_float(element), x);
  }
}

GPU_BOTH int element_bits(Element element) {
  switch (element) {
    case Element::f32:
    case Element::tf32:
      return 32;
    case Element::f16:
    case Element::bf16:
      return 16;
    case Element::int4:
    case Element::e2m1:
      return 4;
    default:
      return 8;
  }
}

}  // namespace assay_gpu
