// GGUF's 32-element blocks, scale inline. d, m: f16. Nibble j of 16 bytes: element j low, element j + 16
// high.
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
//
// A block with NaN or Inf has no scale: it is stored as d = NaN with codes 0 (mxfp4_ggml, which has no NaN:
// e = 255 and codes 7), so that whoever reads it sees that something was wrong.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/blocks.hpp"
#include "backends/cpu/codecs.hpp"

namespace assay_cpu {
namespace {

constexpr int kBlock = 32;
using Codes = std::array<std::uint8_t, kBlock>;

float load_f16(const std::byte* at) {
  std::uint16_t code;
  std::memcpy(&code, at, sizeof code);
  return f16_value(code);
}

void store_f16(std::byte* at, float x) {
  const std::uint16_t code = f16_code(x);
  std::memcpy(at, &code, sizeof code);
}

void unpack_nibbles(const std::byte* bytes, Codes& codes) {
  for (int j = 0; j < 16; ++j) {
    const std::uint8_t pair = std::to_integer<std::uint8_t>(bytes[j]);
    codes[j] = pair & 0xF;
    codes[j + 16] = pair >> 4;
  }
}

void pack_nibbles(const Codes& codes, std::byte* bytes) {
  for (int j = 0; j < 16; ++j) bytes[j] = std::byte((codes[j] & 0xF) | (codes[j + 16] & 0xF) << 4);
}

void add_fifth_bits(const std::byte* bytes, Codes& codes) {
  std::uint32_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  for (int e = 0; e < kBlock; ++e) codes[e] = static_cast<std::uint8_t>(codes[e] | (bits >> e & 1U) << 4);
}

void pack_fifth_bits(const Codes& codes, std::byte* bytes) {
  std::uint32_t bits = 0;
  for (int e = 0; e < kBlock; ++e) bits |= static_cast<std::uint32_t>(codes[e] >> 4 & 1) << e;
  std::memcpy(bytes, &bits, sizeof bits);
}

bool finite(const float* x) {
  bool all = true;
  for (int e = 0; e < kBlock; ++e) all = all && std::isfinite(x[e]);
  return all;
}

// With its sign; the first of equals.
float largest_magnitude(const float* x) {
  float largest = 0;
  for (int e = 0; e < kBlock; ++e) {
    if (std::fabs(x[e]) > std::fabs(largest)) largest = x[e];
  }
  return largest;
}

float inverse(float d) {
  const float i = d == 0 ? 0.0F : 1.0F / d;
  return std::isinf(i) ? 0.0F : i;
}

// trunc(x + half-step offset) held to [0, top].
std::uint8_t truncated(float x, float offset, int top) {
  const float shifted = x + offset;
  if (!(shifted >= 0)) return 0;
  return static_cast<std::uint8_t>(shifted >= static_cast<float>(top) ? top : static_cast<int>(shifted));
}

struct Range {
  float minimum, maximum;
};
Range range_of(const float* x) {
  Range r{x[0], x[0]};
  for (int e = 1; e < kBlock; ++e) {
    if (x[e] < r.minimum) r.minimum = x[e];
    if (x[e] > r.maximum) r.maximum = x[e];
  }
  return r;
}

// Runs `block(bytes, elements)` over the blocks of a row.
template <int kBytes, class Values, class Block>
void for_blocks(const Planes& planes, std::int64_t row, Values* values, const Block& block) {
  std::byte* at = mutable_row(*planes.payload, row);
  for (std::int64_t i = 0; i < planes.length; i += kBlock, at += kBytes) block(at, values + i);
}

// q4_0 and q5_0: symmetric about kZero; q4_1 and q5_1: affine. kFifth: a fifth bit per code.
template <bool kFifth>
void read_symmetric(const Planes& planes, std::int64_t row, float* out) {
  for_blocks<kFifth ? 22 : 18>(planes, row, out, [](const std::byte* in, float* x) {
    Codes codes;
    unpack_nibbles(in + (kFifth ? 6 : 2), codes);
    if (kFifth) add_fifth_bits(in + 2, codes);
    const float d = load_f16(in);
    for (int e = 0; e < kBlock; ++e) x[e] = d * static_cast<float>(codes[e] - (kFifth ? 16 : 8));
  });
}

template <bool kFifth>
void write_symmetric(const Planes& planes, std::int64_t row, const float* values) {
  for_blocks<kFifth ? 22 : 18>(planes, row, values, [](std::byte* out, const float* x) {
    constexpr int kZero = kFifth ? 16 : 8;
    const bool good = finite(x);
    const float d = good ? largest_magnitude(x) / -static_cast<float>(kZero) : 0.0F;
    const float id = inverse(d);
    Codes codes{};
    for (int e = 0; good && e < kBlock; ++e) codes[e] = truncated(x[e] * id, kZero + 0.5F, 2 * kZero - 1);
    store_f16(out, good ? d : std::numeric_limits<float>::quiet_NaN());
    if (kFifth) pack_fifth_bits(codes, out + 2);
    pack_nibbles(codes, out + (kFifth ? 6 : 2));
  });
}

template <bool kFifth>
void read_affine(const Planes& planes, std::int64_t row, float* out) {
  for_blocks<kFifth ? 24 : 20>(planes, row, out, [](const std::byte* in, float* x) {
    Codes codes;
    unpack_nibbles(in + (kFifth ? 8 : 4), codes);
    if (kFifth) add_fifth_bits(in + 4, codes);
    const float d = load_f16(in);
    const float m = load_f16(in + 2);
    for (int e = 0; e < kBlock; ++e) x[e] = d * static_cast<float>(codes[e]) + m;
  });
}

template <bool kFifth>
void write_affine(const Planes& planes, std::int64_t row, const float* values) {
  for_blocks<kFifth ? 24 : 20>(planes, row, values, [](std::byte* out, const float* x) {
    constexpr int kTop = kFifth ? 31 : 15;
    const bool good = finite(x);
    const Range r = good ? range_of(x) : Range{0, 0};
    const float d = (r.maximum - r.minimum) / static_cast<float>(kTop);
    const float id = inverse(d);
    Codes codes{};
    for (int e = 0; good && e < kBlock; ++e) codes[e] = truncated((x[e] - r.minimum) * id, 0.5F, kTop);
    store_f16(out, good ? d : std::numeric_limits<float>::quiet_NaN());
    store_f16(out + 2, r.minimum);
    if (kFifth) pack_fifth_bits(codes, out + 4);
    pack_nibbles(codes, out + (kFifth ? 8 : 4));
  });
}

constexpr std::array<float, 16> kIq4Nl = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// The nearest entry, the larger one of two at the same distance.
std::uint8_t iq4_nl_code(float x) {
  std::uint8_t best = 0;
  for (std::uint8_t code = 1; code < 16; ++code) {
    if (std::fabs(kIq4Nl[code] - x) <= std::fabs(x - kIq4Nl[best])) best = code;
  }
  return best;
}

std::array<float, 16> e2m1_values() {
  std::array<float, 16> values{};
  for (std::uint32_t code = 0; code < 16; ++code) values[code] = small_value(kE2m1, code);
  return values;
}

}  // namespace

void read_q8_0(const Planes& planes, const Engine& engine, std::int64_t row, float* out) {
  for_blocks<34>(planes, row, out, [&](const std::byte* in, float* x) {
    engine.from_int8(in + 2, x, kBlock);
    engine.scale(load_f16(in), x, kBlock);
  });
}

void write_q8_0(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  for_blocks<34>(planes, row, values, [](std::byte* out, const float* x) {
    const bool good = finite(x);
    const float d = good ? std::fabs(largest_magnitude(x)) / 127.0F : std::numeric_limits<float>::quiet_NaN();
    const float id = good ? inverse(d) : 0.0F;
    store_f16(out, d);
    for (int e = 0; e < kBlock; ++e) {
      const float q = good ? std::round(x[e] * id) : 0.0F;  // ties away from zero
      out[2 + e] = static_cast<std::byte>(static_cast<std::int8_t>(std::fmin(std::fmax(q, -128.0F), 127.0F)));
    }
  });
}

#define ASSAY_BLOCK(name, kind, fifth)                                                            \
  void read_##name(const Planes& planes, const Engine&, std::int64_t row, float* out) {           \
    read_##kind<fifth>(planes, row, out);                                                         \
  }                                                                                               \
  void write_##name(const Planes& planes, const Engine&, std::int64_t row, const float* values) { \
    write_##kind<fifth>(planes, row, values);                                                     \
  }
ASSAY_BLOCK(q4_0, symmetric, false)
ASSAY_BLOCK(q5_0, symmetric, true)
ASSAY_BLOCK(q4_1, affine, false)
ASSAY_BLOCK(q5_1, affine, true)
#undef ASSAY_BLOCK

void read_iq4_nl(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  for_blocks<18>(planes, row, out, [](const std::byte* in, float* x) {
    Codes codes;
    unpack_nibbles(in + 2, codes);
    const float d = load_f16(in);
    for (int e = 0; e < kBlock; ++e) x[e] = d * kIq4Nl[codes[e]];
  });
}

void write_iq4_nl(const Planes& planes, const Engine&, std::int64_t row, const float* values) {
  for_blocks<18>(planes, row, values, [](std::byte* out, const float* x) {
    std::memset(out, 0, 18);
    if (!finite(x)) return store_f16(out, std::numeric_limits<float>::quiet_NaN());
    const float extreme = largest_magnitude(x);
    if (std::fabs(extreme) < 1e-15F) return;
    const float id = 1.0F / (extreme / kIq4Nl[0]);
    Codes codes;
    float numerator = 0;
    float denominator = 0;
    for (int e = 0; e < kBlock; ++e) {
      codes[e] = iq4_nl_code(id * x[e]);
      const float entry = kIq4Nl[codes[e]];
      const float weight = x[e] * x[e];
      numerator += weight * entry * x[e];
      denominator += weight * entry * entry;
    }
    store_f16(out, denominator > 0 ? numerator / denominator : 0.0F);
    pack_nibbles(codes, out + 2);
  });
}

void read_mxfp4_ggml(const Planes& planes, const Engine&, std::int64_t row, float* out) {
  static const std::array<float, 16> values = e2m1_values();
  for_blocks<17>(planes, row, out, [](const std::byte* in, float* x) {
    Codes codes;
    unpack_nibbles(in + 1, codes);
    // The exponent 128 is not NaN here. Doubled values times half the scale: 2^127 is the largest f32 power.
    const float half_scale = std::ldexp(1.0F, std::to_integer<int>(in[0]) - 128);
    for (int e = 0; e < kBlock; ++e) x[e] = 2 * values[codes[e]] * half_scale;
  });
}

void write_mxfp4_ggml(const Planes& planes, const Engine&, std::int64_t row, const float* values_in) {
  static const std::array<float, 16> values = e2m1_values();
  for_blocks<17>(planes, row, values_in, [](std::byte* out, const float* x) {
    Codes codes{};
    if (!finite(x)) {
      codes.fill(7);
      out[0] = std::byte{0xFF};
      return pack_nibbles(codes, out + 1);
    }
    const float absmax = std::fabs(largest_magnitude(x));
    int exponent = 0;
    if (absmax > 0) {
      const float logarithm = static_cast<float>(std::log2(double{absmax}));
      exponent = std::max(0, static_cast<int>(std::floor(logarithm)) - 2 + 127);
    }
    const float scale = std::ldexp(1.0F, exponent - 127);
    for (int e = 0; e < kBlock; ++e) {
      float best_error = std::fabs(x[e]);
      for (std::uint8_t code = 1; code < 16; ++code) {
        const float error = std::fabs(values[code] * scale - x[e]);
        if (error < best_error) {
          best_error = error;
          codes[e] = code;
        }
      }
    }
    out[0] = static_cast<std::byte>(exponent);
    pack_nibbles(codes, out + 1);
  });
}

}  // namespace assay_cpu
