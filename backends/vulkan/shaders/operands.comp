#version 460
// Rows of operand 0 as what a product multiplies: rows of operand 1 (f32, or kStored), scales in scratch[0].
// kPath: 0 decoded values; 1 f16, 2 bf16: rounded to it; 3 codes without their scales, these apart; 4 e4m3fn with
// one scale absmax / 448 of the whole (absmax in scratch[1]); 5 blocks of 32 int8 with an f16 scale; 6 codes of
// this row found here: scale absmax / real[0] (what a hidden row of a mixture of experts becomes).
// One workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"
#include "formats.glsl"
#include "encode.glsl"
layout(constant_id = 1) const int kElement = 0;
layout(constant_id = 2) const int kScaling = 0;
layout(constant_id = 3) const int kPath = 0;
layout(constant_id = 4) const int kCodes = kE4m3fn;  // element of path 6; int8: operand 1 holds int8
layout(constant_id = 5) const int kStored = kF32;  // what operand 1 holds: f32, f16, e4m3fn, or int8 as kCodes says
const bool kInteger = (kPath == 3 || kPath == 6) && (kCodes == kInt8 || kCodes == kInt4);

float small_round(int element, float x) {
  const uint code = small_code(element, widen(x));
  return element == kE5m2 ? e5m2_value(code) : element == kE4m3fnuz ? e4m3fnuz_value(code) : e4m3fn_value(code);
}

void main() {
  const int length = P.operand[0].payload.width;
  for (int row = int(work_item()); row < P.operand[0].payload.rows; row += int(work_items())) {
    const Row from = open_row(0, row, kElement, kScaling);
    const uint64_t to = payload_row(1, row);
    float scale = 1.0;
    if (kPath == 3) scale = row_scale(from, kScaling);
    if (kPath == 4) {
      const float absmax = load_f32(P.scratch[1]);
      scale = floatBitsToUint(absmax) == 0u ? 1.0 : div_exact(absmax, 448.0);
    }
    if (kPath == 6) {
      float largest = 0.0;
      for (int c = int(lane()); c < length; c += int(lanes())) {
        const float m = magnitude(row_value(0, from, c, kElement, kScaling, false));
        if (m > largest) largest = m;
      }
      largest = subgroupMax(largest);
      scale = largest == 0.0 ? 1.0 : div_exact(largest, P.real[0]);
    }
    if (lane() == 0u) store_f32(P.scratch[0] + uint64_t(4 * row), scale);
    if (kPath == 5) {
      for (int n = int(lane()); n < length / 32; n += int(lanes())) {
        const Block block = open_block(0, from, n, kElement, kScaling);
        float absmax = 0.0;
        for (int e = 0; e < 32; ++e) {
          const float m = magnitude(block_value(block, e, kElement, kScaling, false));
          if (m > absmax) absmax = m;
        }
        const float step_ = div_exact(absmax, 127.0);
        const float inverse_ = floatBitsToUint(step_) == 0u ? 0.0 : div_exact(1.0, step_);
        const float stored = f16_value(f16_code(step_));
        for (int e = 0; e < 32; ++e) {
          const float x = block_value(block, e, kElement, kScaling, false);
          const float y = is_nan(x) ? x : float(round_to_integer(mul_exact(x, inverse_), -127, 127)) * stored;
          store_f32(to + uint64_t(4 * (32 * n + e)), y);
        }
      }
    } else {
      for (int c = int(lane()); c < length; c += int(lanes())) {
        // With kUnscaled the codes come out without the scale.
        const float x = row_value(0, from, c, kElement, kPath == 3 ? kUnscaled : kScaling, false);
        if (kInteger) {
          const int code = kPath == 6 ? round_to_integer(div_exact(x, scale), -127, 127) : int(x);
          store_u8(to + uint64_t(c), uint(code) & 0xFFu);
        } else {
          float y = x;
          if (kPath == 1) y = f16_value(f16_code(x));
          if (kPath == 2) y = bf16_value(bf16_code(x));
          if (kPath == 4) y = small_round(kE4m3fn, div_exact(x, scale));
          if (kPath == 6) y = small_round(kCodes, div_exact(x, scale));
          if (kStored == kF16) store_u16(to + uint64_t(2 * c), f16_code(y));
          else if (kStored == kE4m3fn) store_u8(to + uint64_t(c), small_code(kE4m3fn, widen(y)));
          else store_f32(to + uint64_t(4 * c), y);
        }
      }
    }
  }
}
