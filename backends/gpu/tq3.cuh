// tq3_0: 32 elements in 14 bytes, stored in the basis of the 32-point randomised Walsh-Hadamard transform.
//   0..7    2-bit index of element j in bits 2 (j % 4) of byte j / 4: -c1, -c0, +c0, +c1
//   8..11   residual sign of element j in bit j % 8 of byte 8 + j / 8, set when positive (c2: stored, not
//           used)
//   12..13  f16 d
//   x = D H r / sqrt(32),  r = d (centroid +- spread)
// Centroids: the 2-bit Lloyd-Max quantiser of a unit normal; spread: the mean distance from the centroid
// within its cell. In double: sums of codes are exact there, the result is rounded to f32 once.
#pragma once

#include <math.h>

#include "backends/gpu/elements.cuh"

namespace assay_gpu {

// Signs of the diagonal D: bit j set means -1.
inline constexpr std::uint32_t kTq3Signs = 0xB1A6D4B2U;
inline constexpr double kTq3Threshold = 0x1.f6941ee8da046p-1;
inline constexpr double kTq3Centroid0 = 0x1.cfa591c42e92bp-2, kTq3Centroid1 = 0x1.82aaba77ce5fbp+0;
inline constexpr double kTq3Spread0 = 0x1.e8ed80fea41f7p-3, kTq3Spread1 = 0x1.673d0099175b8p-2;

GPU_BOTH float load_f16(const unsigned char* at) {
  return decode_element(Element::f16, static_cast<std::uint32_t>(at[0]) | static_cast<std::uint32_t>(at[1])
                                                                              << 8);
}
GPU_BOTH void store_f16(unsigned char* at, float x) {
  const std::uint32_t code = encode_element(Element::f16, x);
  at[0] = static_cast<unsigned char>(code);
  at[1] = static_cast<unsigned char>(code >> 8);
}

// floor(log2 x) of a positive finite x, subnormals included.
GPU_BOTH int exponent_of(float x) {
  const int field = static_cast<int>(bits_of(x) >> 23 & 0xFFU);
  if (field != 0) return field - 127;
  const float scaled = x * 0x1p24F;
  return static_cast<int>(bits_of(scaled) >> 23 & 0xFFU) - 127 - 24;
}

// 2^exponent, |exponent| < 1000.
GPU_BOTH double power_of_two(int exponent) {
  return __builtin_bit_cast(double, static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// In units of d; centroid and spread are f32 numbers.
GPU_BOTH double tq3_level(bool signs, std::uint32_t index, bool positive_residue) {
  const bool positive = (index & 2U) != 0;
  const bool outer = positive ? (index & 1U) != 0 : (index & 1U) == 0;
  const double centroid = static_cast<float>(outer ? kTq3Centroid1 : kTq3Centroid0);
  const double spread =
      signs ? static_cast<double>(static_cast<float>(outer ? kTq3Spread1 : kTq3Spread0)) : 0.0;
  return (positive ? centroid : -centroid) + (positive_residue ? spread : -spread);
}

GPU_BOTH bool odd_parity(std::uint32_t bits) {
  bits ^= bits >> 16;
  bits ^= bits >> 8;
  bits ^= bits >> 4;
  return (0x6996U >> (bits & 0xFU) & 1U) != 0;
}

// scale * level of element e: exact in double, rounded to f32 once.
GPU_BOTH double rotated_tq3(bool signs, const unsigned char* at, double d, int e) {
  const std::uint32_t index = static_cast<std::uint32_t>(at[e / 4]) >> (2 * (e % 4)) & 3U;
  const bool positive = (static_cast<std::uint32_t>(at[8 + e / 8]) >> (e % 8) & 1U) != 0;
  return d * tq3_level(signs, index, positive);
}
GPU_BOTH float look_up_tq3(bool signs, const unsigned char* at, int e) {
  return static_cast<float>(rotated_tq3(signs, at, load_f16(at + 12), e));
}

GPU_BOTH float decode_tq3(bool signs, const unsigned char* at, int e) {
  const double d = load_f16(at + 12);
  double sum = 0;
  for (int j = 0; j < 32; ++j) {
    const double r = rotated_tq3(signs, at, d, j);
    sum += odd_parity(static_cast<std::uint32_t>(e & j)) ? -r : r;
  }
  constexpr double kFactor = 0.17677669529663688110;  // 1 / sqrt(32)
  return static_cast<float>(((kTq3Signs >> e & 1U) != 0 ? -sum : sum) * kFactor);
}

GPU_BOTH void encode_tq3(bool signs, unsigned char* out, const float* x) {
  for (int i = 0; i < 14; ++i) out[i] = 0;
  double y[32];
  bool good = true;
  for (int j = 0; j < 32; ++j) {
    good = good && is_finite(x[j]);
    y[j] = (kTq3Signs >> j & 1U) != 0 ? -static_cast<double>(x[j]) : static_cast<double>(x[j]);
  }
  if (!good) return store_f16(out + 12, quiet_nan());
  for (int half = 1; half < 32; half *= 2) {
    for (int j = 0; j < 32; ++j) {
      if ((j & half) != 0) continue;
      const double a = y[j];
      y[j] = a + y[j + half];
      y[j + half] = a - y[j + half];
    }
  }
  double norm = 0;
  for (int j = 0; j < 32; ++j) {
    y[j] /= sqrt(32.0);
    norm += y[j] * y[j];
  }
  if (norm == 0) return;
  const double sigma = sqrt(norm / 32);
  double level_norm = 0;
  for (int j = 0; j < 32; ++j) {
    const bool positive = (__builtin_bit_cast(std::uint64_t, y[j]) >> 63) == 0;
    const double m = (positive ? y[j] : -y[j]) / sigma;
    const bool outer = m > kTq3Threshold;
    const std::uint32_t index = positive ? (outer ? 3U : 2U) : (outer ? 0U : 1U);
    const double beyond = m - (outer ? kTq3Centroid1 : kTq3Centroid0);
    const bool residue = (positive ? beyond : -beyond) > 0;
    out[j / 4] = static_cast<unsigned char>(out[j / 4] | index << (2 * (j % 4)));
    out[8 + j / 8] = static_cast<unsigned char>(out[8 + j / 8] | (residue ? 1U : 0U) << (j % 8));
    const double level = tq3_level(signs, index, residue);
    level_norm += level * level;
  }
  const double d = sqrt(norm / level_norm);  // keeps the block's norm
  store_f16(out + 12, static_cast<float>(d < 65504.0 ? d : 65504.0));
}

}  // namespace assay_gpu
