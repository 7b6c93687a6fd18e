// Values to codes: scalars, and the blocks whose scales are found here. Include after formats.glsl.

struct SmallFormat {
  int fraction_bits, bias, sign_shift;
  uint largest;    // code of the largest finite number
  float value;     // that number
  uint nan;        // code that a NaN becomes
  bool minus_zero; // there is none: its code is NaN
};
SmallFormat small_format(int element) {
  if (element == kE4m3fnuz) return SmallFormat(3, 8, 7, 0x7Fu, 240.0, 0x80u, true);
  if (element == kE5m2) return SmallFormat(2, 15, 7, 0x7Bu, 57344.0, 0x7Eu, false);
  if (element == kE5m2fnuz) return SmallFormat(2, 16, 7, 0x7Fu, 57344.0, 0x80u, true);
  if (element == kE3m2) return SmallFormat(2, 3, 5, 0x1Fu, 28.0, 0x1Fu, false);
  if (element == kE2m3) return SmallFormat(3, 1, 5, 0x1Fu, 7.5, 0x1Fu, false);
  if (element == kE2m1) return SmallFormat(1, 1, 3, 0x7u, 6.0, 0x7u, false);
  return SmallFormat(3, 7, 7, 0x7Eu, 448.0, 0x7Fu, false);  // kE4m3fn
}
bool small(int element) { return element >= kE4m3fn && element <= kE2m1; }

// Nearest, ties to even; beyond the largest number, Inf included: the largest.
uint small_code(int element, double x) {
  const SmallFormat f = small_format(element);
  const uvec2 w = unpackDouble2x32(x);
  const uint field = w.y >> 20 & 0x7FFu;
  if (field == 0x7FFu && ((w.y & 0xFFFFFu) | w.x) != 0u) return f.nan;
  const uint sign = w.y >> 31 << f.sign_shift;
  const int lowest = 1 - f.bias;
  const int exponent = max(int(field) - 1023, lowest);
  uint code = f.largest;
  const double m = packDouble2x32(uvec2(w.x, w.y & 0x7FFFFFFFu));
  if (m <= 2.0lf * double(f.value)) {
    // In units of the last place: an integer and a rest, both exact.
    const double steps = m * power_of_two(f.fraction_bits - exponent);
    const double below = floor(steps);
    const double rest = steps - below;
    uint n = uint(below);
    if (rest > 0.5lf || (rest == 0.5lf && (n & 1u) != 0u)) ++n;
    // A carry out of the fraction runs into the exponent by itself.
    code = min(uint((exponent + f.bias - 1) << f.fraction_bits) + n, f.largest);
  }
  if (code == 0u && f.minus_zero) return 0u;
  return sign | code;
}

// The nearest power of two; of two at the same distance the one with the even code.
uint e8m0_code(float x) {
  if (is_nan(x)) return 0xFFu;
  if (!(floatBitsToInt(x) > 0)) return 0u;
  const uint bits = floatBitsToUint(x);
  if (bits == 0x7F800000u) return 0xFEu;
  if (bits < 0x00800000u) {  // below 2^-126: 2^-127 is code 0, and 1.5 2^-127 a tie that goes there
    return bits > 0x00600000u ? 1u : 0u;
  }
  const uint code = bits >> 23;
  const uint fraction = bits & 0x7FFFFFu;
  const bool up = fraction > 0x400000u || (fraction == 0x400000u && (code & 1u) != 0u);
  return min(code + (up ? 1u : 0u), 0xFEu);
}

uint tf32_code(float x) {
  const uint bits = floatBitsToUint(x);
  const uint m = bits & 0x7FFFFFFFu;
  if (m > 0x7F800000u) return (bits | 0x400000u) & ~0x1FFFu;
  const uint rounded = (m + 0xFFFu + (m >> 13 & 1u)) & ~0x1FFFu;
  return (bits & 0x80000000u) | min(rounded, 0x7F7FE000u);  // saturates
}

uint int32_code(float x) {
  if (is_nan(x) || x >= 2147483648.0) return 0x7FFFFFFFu;
  if (x <= -2147483648.0) return 0x80000000u;
  const float below = floor(x);
  const float rest = x - below;
  int n = int(below);
  if (rest > 0.5 || (rest == 0.5 && (n & 1) != 0)) ++n;
  return uint(n);
}

// Code of a whole-byte or wider scalar.
uint scalar_code(int element, float x) {
  if (element == kF32) return floatBitsToUint(x);
  if (element == kTf32) return tf32_code(x);
  if (element == kInt32) return int32_code(x);
  if (element == kF16) return f16_code(x);
  if (element == kBf16) return bf16_code(x);
  if (element == kE8m0) return e8m0_code(x);
  if (element == kUe4m3) return x < 0.0 ? 0u : small_code(kE4m3fn, widen(x)) & 0x7Fu;
  if (element == kUint8) return uint(round_to_integer(x, 0, 255));
  if (element == kInt8) return uint(round_to_integer(x, -128, 127)) & 0xFFu;
  if (element == kInt4) return uint(round_to_integer(x, -7, 7)) & 0xFu;
  return small_code(element, widen(x));
}
void store_scalar(uint64_t row, int column, int element, uint code) {
  if (element == kF32 || element == kTf32 || element == kInt32) store_u32(row + uint64_t(4 * column), code);
  else if (element == kF16 || element == kBf16) store_u16(row + uint64_t(2 * column), code);
  else store_u8(row + uint64_t(column), code);
}

// ---- blocks: 32 values in `x`, written to `at`

// With its sign; the first of equals.
float largest_magnitude(float x[32]) {
  float largest = 0.0;
  [[dont_unroll]] for (int e = 0; e < 32; ++e) {
    if ((floatBitsToUint(x[e]) & 0x7FFFFFFFu) > (floatBitsToUint(largest) & 0x7FFFFFFFu)) largest = x[e];
  }
  return largest;
}
float inverse(float d) {
  const float i = (floatBitsToUint(d) & 0x7FFFFFFFu) == 0u ? 0.0 : div_exact(1.0, d);
  return is_finite(i) ? i : 0.0;
}
uint truncated(float x, float offset, int top) {
  const float shifted = x + offset;
  if (!(shifted >= 0.0)) return 0u;
  return uint(shifted >= float(top) ? top : int(shifted));
}
uint iq4_nl_code(float x) {  // the nearest entry, the larger one of two at the same distance
  uint best = 0u;
  float distance_ = magnitude(x - kIq4NlValues[0]);
  [[dont_unroll]] for (uint code = 1u; code < 16u; ++code) {
    const float d = magnitude(kIq4NlValues[code] - x);
    if (d <= distance_) {
      best = code;
      distance_ = d;
    }
  }
  return best;
}

// A block with NaN or Inf has no scale: d = NaN with codes 0.
void encode_ggml(uint64_t at, float x[32], int element) {
  bool good = true;
  [[dont_unroll]] for (int e = 0; e < 32; ++e) good = good && is_finite(x[e]);
  const bool affine = element == kQ4_1 || element == kQ5_1;
  const bool fifth = element == kQ5_0 || element == kQ5_1;
  float d = 0.0;
  float m = 0.0;
  float id = 0.0;
  const float extreme = good ? largest_magnitude(x) : 0.0;
  if (element == kQ8_0) {
    d = div_exact(magnitude(extreme), 127.0);
    id = inverse(d);
  } else if (affine) {
    float top = x[0];
    m = x[0];
    [[dont_unroll]] for (int e = 1; e < 32; ++e) {
      m = x[e] < m ? x[e] : m;
      top = x[e] > top ? x[e] : top;
    }
    d = good ? div_exact(sub_exact(top, m), fifth ? 31.0 : 15.0) : 0.0;
    m = good ? m : 0.0;
    id = inverse(d);
  } else if (element == kIq4Nl) {
    if (magnitude(extreme) >= 1e-15) id = div_exact(1.0, div_exact(extreme, -127.0));
  } else {
    d = div_exact(extreme, fifth ? -16.0 : -8.0);
    id = inverse(d);
  }
  uint codes[32];
  float numerator = 0.0;
  float denominator = 0.0;
  [[dont_unroll]] for (int e = 0; e < 32; ++e) {
    uint code = 0u;
    if (element == kQ8_0) {
      const float q = mul_exact(x[e], id);
      const float whole = floor(magnitude(q) + 0.5);  // ties away from zero; |q| < 2^8: the sum is exact enough
      code = uint(int(clamp(q < 0.0 ? -whole : whole, -128.0, 127.0))) & 0xFFu;
    } else if (element == kIq4Nl) {
      code = iq4_nl_code(id * x[e]);
      const float entry = kIq4NlValues[code];
      const float weight = x[e] * x[e];
      numerator += weight * entry * x[e];
      denominator += weight * entry * entry;
      if (magnitude(extreme) < 1e-15) code = 0u;
    } else if (affine) {
      code = truncated(mul_exact(sub_exact(x[e], m), id), 0.5, fifth ? 31 : 15);
    } else {
      code = truncated(mul_exact(x[e], id), fifth ? 16.5 : 8.5, fifth ? 31 : 15);
    }
    codes[e] = good ? code : 0u;
  }
  if (element == kIq4Nl) d = denominator > 0.0 ? quotient_f32(numerator, denominator) : 0.0;
  store_u16_bytes(at, good ? f16_code(d) : 0x7E00u);
  int offset = 2;
  if (affine) {
    store_u16_bytes(at + 2, f16_code(m));
    offset = 4;
  }
  if (fifth) {
    uint bits = 0u;
    [[dont_unroll]] for (int e = 0; e < 32; ++e) bits |= (codes[e] >> 4 & 1u) << e;
    store_u32_bytes(at + uint64_t(offset), bits);
    offset += 4;
  }
  if (element == kQ8_0) {
    [[dont_unroll]] for (int e = 0; e < 32; ++e) store_u8(at + uint64_t(2 + e), codes[e]);
  } else {
    [[dont_unroll]] for (int e = 0; e < 16; ++e) {
      store_u8(at + uint64_t(offset + e), (codes[e] & 0xFu) | (codes[e + 16] & 0xFu) << 4);
    }
  }
}

void encode_mxfp4_ggml(uint64_t at, float x[32]) {
  bool good = true;
  [[dont_unroll]] for (int e = 0; e < 32; ++e) good = good && is_finite(x[e]);
  const uint absmax = floatBitsToUint(largest_magnitude(x)) & 0x7FFFFFFFu;
  // floor(log2 absmax) - 2 + 127; an f32 subnormal gives less than 0.
  const int exponent = good ? max(int(absmax >> 23) - 2, 0) : 0xFF;
  store_u8(at, uint(exponent));
  uint codes[32];
  [[dont_unroll]] for (int e = 0; e < 32; ++e) {
    uint best = 0u;
    const double wanted = widen(x[e]);
    double error = abs(wanted);
    [[dont_unroll]] for (uint code = 1u; code < 16u; ++code) {
      const double d = abs(double(e2m1_value(code)) * power_of_two(exponent - 127) - wanted);
      if (d < error) {
        error = d;
        best = code;
      }
    }
    codes[e] = good ? best : 7u;
  }
  [[dont_unroll]] for (int e = 0; e < 16; ++e) store_u8(at + uint64_t(1 + e), codes[e] | codes[e + 16] << 4);
}

void encode_tq3(uint64_t at, float x[32], int element) {
  double y[32];
  bool good = true;
  [[dont_unroll]] for (int j = 0; j < 32; ++j) {
    good = good && is_finite(x[j]);
    const double wide = widen(x[j]);
    y[j] = (kTq3Signs >> j & 1u) != 0u ? -wide : wide;
  }
  [[dont_unroll]] for (int step = 1; step < 32; step *= 2) {
    [[dont_unroll]] for (int i = 0; i < 16; ++i) {
      const int j = (i / step) * 2 * step + i % step;
      const double a = y[j];
      const double b = y[j + step];
      y[j] = a + b;
      y[j + step] = a - b;
    }
  }
  double norm = 0.0lf;
  [[dont_unroll]] for (int j = 0; j < 32; ++j) {
    y[j] *= 0.17677669529663688110lf;
    norm += y[j] * y[j];
  }
  uint low[2] = uint[](0u, 0u);
  uint signs = 0u;
  double level_norm = 0.0lf;
  // magnitude / sigma compared without a root: (m)^2 32 > t^2 norm.
  [[dont_unroll]] for (int j = 0; j < 32; ++j) {
    const double m = abs(y[j]);
    const int cell = 32.0lf * m * m > kTq3Threshold * kTq3Threshold * norm ? 1 : 0;
    const bool positive = !(y[j] < 0.0lf);
    const double centre = kTq3Centroid[cell];
    const bool beyond = 32.0lf * m * m > centre * centre * norm;
    const uint index = positive ? 2u + uint(cell) : uint(1 - cell);
    const bool sign = positive ? beyond : !beyond && 32.0lf * m * m < centre * centre * norm;
    low[j >> 4] |= index << (2 * (j & 15));
    signs |= (sign ? 1u : 0u) << j;
    double level = positive ? centre : -centre;
    if (element == kTq3C2s1) level += sign ? kTq3Spread[cell] : -kTq3Spread[cell];
    level_norm += level * level;
  }
  uint scale = 0x7E00u;
  if (good && norm == 0.0lf) {
    scale = 0u;
    low[0] = low[1] = signs = 0u;
  } else if (good) {
    // A power of 4 out of the ratio, so that its root is one of normal f32 numbers whatever the block's size.
    const int half_exponent = (int(unpackDouble2x32(norm / level_norm).y >> 20) - 1023) / 2;
    const double ratio = norm / level_norm * power_of_two(-2 * half_exponent);
    scale = f16_code(min(narrow(sqrt_wide(ratio) * power_of_two(half_exponent)), 65504.0));
  } else {
    low[0] = low[1] = signs = 0u;
  }
  store_u32_bytes(at, low[0]);
  store_u32_bytes(at + 4, low[1]);
  store_u32_bytes(at + 8, signs);
  store_u16_bytes(at + 12, scale);
}
