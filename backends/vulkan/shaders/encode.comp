#version 460
// Codes of operand 1 from the values of operand 0. f32 scales are there already; scales of blocks are found
// here. A lane takes a block of 32 (nvfp4: 16), so that no two lanes write one byte.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "encode.glsl"
layout(constant_id = 1) const int kElement = 0;
layout(constant_id = 2) const int kScaling = 0;
layout(constant_id = 3) const int kToElement = 0;
layout(constant_id = 4) const int kToScaling = 0;

const bool kWords = kToElement == kInt4Words;
const bool kFour = kToElement == kE2m1 || kToElement == kInt4 || kWords;

void put_codes(uint64_t to, int first, int count, float x[32], double factor, bool quotients, float scale,
               uint64_t channel_scales) {
  [[dont_unroll]] for (int e = 0; e < count; e += kFour ? 2 : 1) {
    uint packed = 0u;
    for (int half_ = 0; half_ < (kFour ? 2 : 1); ++half_) {
      uint code;
      const float v = x[kWords ? element_in_word(e + half_) : e + half_];
      if (kToScaling == kMx) {
        code = small_code(kToElement, widen(v) * factor);
      } else {
        float s = scale;
        if (kToScaling == kPerChannel) s = load_f32(channel_scales + uint64_t(4 * (first + e + half_)));
        code = scalar_code(kWords ? kInt4 : kToElement, quotients ? div_exact(v, s) : v);
      }
      packed |= code << (4 * half_);
    }
    if (kFour) store_u8(to + uint64_t((first + e) / 2), packed);
    else store_scalar(to, first + e, kToElement, packed);
  }
}

void main() {
  const int length = P.operand[0].payload.width;
  const bool nv = kToScaling == kNv || kToScaling == kNvSwizzled;
  const int size = nv ? 16 : 32;
  const int blocks = (length + size - 1) / size;
  const uint units = uint(P.operand[0].payload.rows) * uint(blocks);
  for (uint u = work_item() * lanes() + lane(); u < units; u += work_items() * lanes()) {
    const int row = int(u / uint(blocks));
    const int block = int(u % uint(blocks));
    const int first = block * size;
    const int count = min(size, length - first);
    const Row from = open_row(0, row, kElement, kScaling);
    float x[32];
    const Block source = open_block(0, from, first / 32, kElement, kScaling);
    [[dont_unroll]] for (int e = 0; e < 32; ++e) {
      x[e] = e < count ? block_value(source, (first & 31) + e, kElement, kScaling, true) : 0.0;
    }
    const uint64_t to = payload_row(1, row);

    if (kToElement >= kQ8_0 && kToElement <= kIq4Nl) {
      const int bytes = kToElement == kQ8_0 ? 34 : kToElement == kQ4_1 ? 20 : kToElement == kQ5_0 ? 22 : kToElement == kQ5_1 ? 24 : 18;
      encode_ggml(to + uint64_t(block * bytes), x, kToElement);
    } else if (kToElement == kMxfp4Ggml) {
      encode_mxfp4_ggml(to + uint64_t(block * 17), x);
    } else if (kToElement == kTq3C2s1 || kToElement == kTq3C2) {
      encode_tq3(to + uint64_t(block * 14), x, kToElement);
    } else if (kToScaling == kMx) {
      uint largest = 0u;
      bool nan = false;
      [[dont_unroll]] for (int e = 0; e < 32; ++e) {
        const uint m = floatBitsToUint(x[e]) & 0x7FFFFFFFu;
        if (m < 0x7F800000u) largest = max(largest, m);
        nan = nan || m > 0x7F800000u;
      }
      const bool poisoned = nan && kToElement == kE2m1;  // e2m1 has no NaN: the scale says it
      const int top = kToElement == kE2m1 ? 2 : kToElement == kE5m2 ? 15 : 8;
      int exponent = -127;
      if (largest != 0u) {
        const int floor_log2 = largest < 0x00800000u ? findMSB(largest) - 149 : int(largest >> 23) - 127;
        exponent = max(floor_log2 - top, -127);
      }
      uint64_t scales;
      ROW_ADDRESS(P.operand[1].scale, row, scales);
      store_u8(scales + uint64_t(block), poisoned ? 0xFFu : uint(exponent + 127));
      if (poisoned) {
        [[dont_unroll]] for (int e = 0; e < 16; ++e) store_u8(to + uint64_t(first / 2 + e), 0u);
      } else {
        put_codes(to, first, count, x, power_of_two(-exponent), false, 1.0, 0);
      }
    } else if (kToScaling == kPerGroup32Bf16) {
      float absmax = 0.0;
      [[dont_unroll]] for (int e = 0; e < 32; ++e) {
        if (is_finite(x[e]) && floatBitsToUint(magnitude(x[e])) > floatBitsToUint(absmax)) absmax = magnitude(x[e]);
      }
      uint code = bf16_code(div_exact(absmax, 7.0));
      if (code == 0u) code = 0x3F80u;
      uint64_t scales;
      ROW_ADDRESS(P.operand[1].scale, row, scales);
      store_u16(scales + uint64_t(2 * block), code);
      put_codes(to, first, count, x, 1.0lf, true, bf16_value(code), 0);
    } else if (nv) {
      uint64_t at;
      ELEMENT_ADDRESS(P.operand[1].global_scale, 0, at);
      const double global = widen(load_f32(at));
      uint largest = 0u;
      bool nan = false;
      [[dont_unroll]] for (int e = 0; e < 16; ++e) {
        const uint m = floatBitsToUint(x[e]) & 0x7FFFFFFFu;
        if (m < 0x7F800000u) largest = max(largest, m);
        nan = nan || m > 0x7F800000u;
      }
      const uint code = nan ? 0x7Fu : small_code(kE4m3fn, widen(uintBitsToFloat(largest)) * global / 6.0lf);
      store_u8(block_scale_address(1, row, block, kToScaling), code);
      const float scale = e4m3fn_value(code);
      [[dont_unroll]] for (int e = 0; e < 16; e += 2) {
        uint pair = 0u;
        if (scale > 0.0) {
          pair = small_code(kE2m1, widen(x[e]) * global / double(scale)) |
                 small_code(kE2m1, widen(x[e + 1]) * global / double(scale)) << 4;
        }
        store_u8(to + uint64_t(first / 2 + e / 2), pair);
      }
    } else {
      const bool scaled = kToScaling != kUnscaled;
      float scale = 1.0;
      uint64_t channel_scales = 0;
      if (kToScaling == kPerChannel) {
        ROW_ADDRESS(P.operand[1].scale, row % P.operand[1].middle, channel_scales);
      } else if (kToScaling == kPerGroup32) {
        uint64_t at;
        ELEMENT_ADDRESS(P.operand[1].scale, row * (length / 32) + block, at);
        scale = load_f32(at);
      } else if (scaled) {
        scale = open_row(1, row, kToElement, kToScaling).scale;
      }
      put_codes(to, first, count, x, 1.0lf, scaled, scale, channel_scales);
    }
  }
}
