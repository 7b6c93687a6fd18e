// Inline blocks of 32 elements, byte by byte (a block is no more aligned than its bytes). d, m: f16.
//
//   format      bytes of a block, in order        decoded value       scale and minimum
//   q8_0        d | int8 q[32]                    x = d q             d = absmax / 127
//   q4_0        d | nibbles                       x = d (q - 8)       d = (signed element of largest
//                                                 magnitude) / -8
//   q4_1        d | m | nibbles                   x = d q + m         m = min, d = (max - min) / 15
//   q5_0        d | u32 fifth bits | nibbles      x = d (q - 16)      d = (signed element of largest
//                                                 magnitude) / -16
//   q5_1        d | m | u32 fifth bits | nibbles  x = d q + m         m = min, d = (max - min) / 31
//   iq4_nl      d | nibbles                       x = d codebook[q]   d = least squares over the chosen
//                                                 entries
//   mxfp4_ggml  e8m0 e | nibbles of e2m1          x = e2m1 2^(e-127)  e from floor(log2 absmax)
//   tq3_0_*     tq3.cuh
//
// Nibble j of 16 bytes: element j low, element j + 16 high. A block with NaN or Inf is stored as d = NaN with
// codes 0 (mxfp4_ggml, which has no NaN: e = 255 and codes 7).
#pragma once

#include "backends/gpu/elements.cuh"
#include "backends/gpu/tq3.cuh"

namespace assay_gpu {

GPU_BOTH bool is_inline(Block block) { return block >= Block::q8_0 && block <= Block::tq3_0_c2_rotated; }

GPU_BOTH int inline_bytes(Block block) {
  switch (block) {
    case Block::q8_0:
      return 34;
    case Block::q4_1:
      return 20;
    case Block::q5_0:
      return 22;
    case Block::q5_1:
      return 24;
    case Block::mxfp4_ggml:
      return 17;
    case Block::tq3_0_c2s1:
    case Block::tq3_0_c2:
    case Block::tq3_0_c2s1_rotated:
    case Block::tq3_0_c2_rotated:
      return 14;
    default:
      return 18;  // q4_0, iq4_nl
  }
}

GPU_BOTH float iq4_nl_entry(std::uint32_t code) {
  // -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, a byte each
  constexpr std::uint64_t kLow = 0xF6EADDCFBFAD9881ULL;
  constexpr std::uint64_t kHigh = 0x7159453526190D01ULL;
  return static_cast<float>(static_cast<std::int8_t>((code < 8 ? kLow : kHigh) >> (code % 8 * 8)));
}

GPU_BOTH std::uint32_t nibble(const unsigned char* bytes, int e) {
  return e < 16 ? bytes[e] & 0xFU : static_cast<std::uint32_t>(bytes[e - 16]) >> 4;
}
GPU_BOTH std::uint32_t fifth_bit(const unsigned char* bytes, int e) {
  return (static_cast<std::uint32_t>(bytes[e / 8]) >> (e % 8) & 1U) << 4;
}

GPU_BOTH float decode_inline(Block block, const unsigned char* at, int e) {
  switch (block) {
    case Block::q8_0:
      return static_cast<float>(static_cast<std::int8_t>(at[2 + e])) * load_f16(at);
    case Block::q4_0:
      return load_f16(at) * static_cast<float>(static_cast<int>(nibble(at + 2, e)) - 8);
    case Block::q4_1:
      return load_f16(at) * static_cast<float>(nibble(at + 4, e)) + load_f16(at + 2);
    case Block::q5_0:
      return load_f16(at) *
             static_cast<float>(static_cast<int>(nibble(at + 6, e) | fifth_bit(at + 2, e)) - 16);
    case Block::q5_1:
      return load_f16(at) * static_cast<float>(nibble(at + 8, e) | fifth_bit(at + 4, e)) + load_f16(at + 2);
    case Block::iq4_nl:
      return load_f16(at) * iq4_nl_entry(nibble(at + 2, e));
    case Block::mxfp4_ggml:
      // The exponent 128 is not NaN here. Doubled values times half the scale: 2^127 is the largest f32
      // power.
      return 2 * decode_element(Element::e2m1, nibble(at + 1, e)) *
             static_cast<float>(power_of_two(static_cast<int>(at[0]) - 128));
    case Block::tq3_0_c2s1_rotated:
    case Block::tq3_0_c2_rotated:
      return look_up_tq3(block == Block::tq3_0_c2s1_rotated, at, e);
    default:
      return decode_tq3(block == Block::tq3_0_c2s1, at, e);
  }
}

struct BlockRange {
  bool finite = true;
  float extreme = 0;  // the element of largest magnitude, with its sign; the first of equals
  float minimum = 0, maximum = 0;
};
GPU_BOTH BlockRange block_range(const float* x) {
  BlockRange r;
  r.minimum = r.maximum = x[0];
  for (int e = 0; e < 32; ++e) {
    r.finite = r.finite && is_finite(x[e]);
    if (magnitude(x[e]) > magnitude(r.extreme)) r.extreme = x[e];
    if (x[e] < r.minimum) r.minimum = x[e];
    if (x[e] > r.maximum) r.maximum = x[e];
  }
  return r;
}

GPU_BOTH float inverse(float d) {
  const float i = d == 0 ? 0.0F : 1.0F / d;
  return is_finite(i) || is_nan(i) ? i : 0.0F;
}

// trunc(x + offset) held to [0, top].
GPU_BOTH std::uint32_t truncated(float x, float offset, int top) {
  const float shifted = x + offset;
  if (!(shifted >= 0)) return 0;
  return static_cast<std::uint32_t>(shifted >= static_cast<float>(top) ? top : static_cast<int>(shifted));
}

GPU_BOTH void put_nibble(unsigned char* bytes, int e, std::uint32_t code) {
  bytes[e % 16] = static_cast<unsigned char>(e < 16 ? code & 0xFU : bytes[e % 16] | (code & 0xFU) << 4);
}
GPU_BOTH void put_fifth_bit(unsigned char* bytes, int e, std::uint32_t code) {
  bytes[e / 8] = static_cast<unsigned char>((e % 8 == 0 ? 0U : bytes[e / 8]) | (code >> 4 & 1U) << (e % 8));
}

GPU_BOTH void encode_q8_0(unsigned char* out, const float* x) {
  const BlockRange r = block_range(x);
  const float d = r.finite ? magnitude(r.extreme) / 127.0F : quiet_nan();
  const float id = r.finite ? inverse(d) : 0.0F;
  store_f16(out, d);
  for (int e = 0; e < 32; ++e) {
    const float m = r.finite ? magnitude(x[e] * id) : 0.0F;
    const int whole = static_cast<int>(m < 128.0F ? m : 128.0F);
    const int rounded = m - static_cast<float>(whole) >= 0.5F ? whole + 1 : whole;  // ties away from zero
    const int signed_code = x[e] < 0 ? -rounded : rounded;
    out[2 + e] = static_cast<unsigned char>(static_cast<std::int8_t>(signed_code > 127    ? 127
                                                                     : signed_code < -128 ? -128
                                                                                          : signed_code));
  }
}

// q4_0 and q5_0: symmetric about zero_code = 8 or 16.
GPU_BOTH void encode_symmetric(unsigned char* out, const float* x, bool fifth) {
  const int zero_code = fifth ? 16 : 8;
  const BlockRange r = block_range(x);
  const float d = r.finite ? r.extreme / -static_cast<float>(zero_code) : 0.0F;
  const float id = inverse(d);
  store_f16(out, r.finite ? d : quiet_nan());
  for (int e = 0; e < 32; ++e) {
    const std::uint32_t code =
        r.finite ? truncated(x[e] * id, static_cast<float>(zero_code) + 0.5F, 2 * zero_code - 1) : 0;
    if (fifth) put_fifth_bit(out + 2, e, code);
    put_nibble(out + (fifth ? 6 : 2), e, code);
  }
}

// q4_1 and q5_1.
GPU_BOTH void encode_affine(unsigned char* out, const float* x, bool fifth) {
  const int top = fifth ? 31 : 15;
  const BlockRange r = block_range(x);
  const float minimum = r.finite ? r.minimum : 0.0F;
  const float d = r.finite ? (r.maximum - r.minimum) / static_cast<float>(top) : 0.0F;
  const float id = inverse(d);
  store_f16(out, r.finite ? d : quiet_nan());
  store_f16(out + 2, minimum);
  for (int e = 0; e < 32; ++e) {
    const std::uint32_t code = r.finite ? truncated((x[e] - minimum) * id, 0.5F, top) : 0;
    if (fifth) put_fifth_bit(out + 4, e, code);
    put_nibble(out + (fifth ? 8 : 4), e, code);
  }
}

GPU_BOTH void encode_iq4_nl(unsigned char* out, const float* x) {
  const BlockRange r = block_range(x);
  for (int i = 0; i < 18; ++i) out[i] = 0;
  if (!r.finite) return store_f16(out, quiet_nan());
  if (magnitude(r.extreme) < 1e-15F) return;
  const float id = 1.0F / (r.extreme / iq4_nl_entry(0));
  float numerator = 0;
  float denominator = 0;
  for (int e = 0; e < 32; ++e) {
    std::uint32_t best = 0;  // the nearest entry, the larger one of two at the same distance
    for (std::uint32_t code = 1; code < 16; ++code) {
      if (magnitude(iq4_nl_entry(code) - id * x[e]) <= magnitude(id * x[e] - iq4_nl_entry(best))) best = code;
    }
    put_nibble(out + 2, e, best);
    const float entry = iq4_nl_entry(best);
    const float weight = x[e] * x[e];
    numerator += weight * entry * x[e];
    denominator += weight * entry * entry;
  }
  store_f16(out, denominator > 0 ? numerator / denominator : 0.0F);
}

GPU_BOTH void encode_mxfp4_ggml(unsigned char* out, const float* x) {
  const BlockRange r = block_range(x);
  int exponent = 0;
  const float absmax = magnitude(r.extreme);
  if (r.finite && absmax > 0) {
    // floor of log2 rounded to f32, as ggml has it: just below a power of two the rounding reaches the power.
    const float logarithm = (bits_of(absmax) & 0x7FFFFFU) == 0
                                ? static_cast<float>(exponent_of(absmax))
                                : static_cast<float>(log2(static_cast<double>(absmax)));
    exponent = static_cast<int>(floorf(logarithm)) - 2 + 127;
    if (exponent < 0) exponent = 0;
  }
  const float scale = static_cast<float>(power_of_two(exponent - 127));
  out[0] = static_cast<unsigned char>(r.finite ? exponent : 0xFF);
  for (int e = 0; e < 32; ++e) {
    std::uint32_t best = r.finite ? 0 : 7;
    float best_error = magnitude(x[e]);
    for (std::uint32_t code = 1; r.finite && code < 16; ++code) {
      const float error = magnitude(decode_element(Element::e2m1, code) * scale - x[e]);
      if (error < best_error) {
        best_error = error;
        best = code;
      }
    }
    put_nibble(out + 1, e, best);
  }
}

GPU_BOTH void encode_inline(Block block, unsigned char* out, const float* x) {
  switch (block) {
    case Block::q8_0:
      return encode_q8_0(out, x);
    case Block::q4_0:
      return encode_symmetric(out, x, false);
    case Block::q5_0:
      return encode_symmetric(out, x, true);
    case Block::q4_1:
      return encode_affine(out, x, false);
    case Block::q5_1:
      return encode_affine(out, x, true);
    case Block::iq4_nl:
      return encode_iq4_nl(out, x);
    case Block::mxfp4_ggml:
      return encode_mxfp4_ggml(out, x);
    default:
      return encode_tq3(block == Block::tq3_0_c2s1, out, x);
  }
}

}  // namespace assay_gpu
