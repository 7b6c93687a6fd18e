// What q4_0, q5_0 (one scale) and q4_1, q5_1 (scale and minimum) share; each file has its byte layout as a
// row.
#pragma once

#include <array>
#include <cstring>
#include <string_view>

#include "reference/formats/blocks/inline_block.hpp"

namespace assay::blocks {

struct NibbleLayout {
  std::string_view name;
  int bytes;
  int codes_at;  // 16 bytes: bits 0..3 of element j in the low half of byte j, of element j + 16 in its high half
  int fifth_at;  // u32, little-endian: bit e is bit 4 of element e; 0 when codes have four bits
  int top;       // largest code
};

template <const NibbleLayout& kLayout>
struct Nibbles {
  static constexpr std::string_view kName = kLayout.name;
  static constexpr int kElements = 32;
  static constexpr int kBytes = kLayout.bytes;
  using Codes = std::array<unsigned, kElements>;

  static void store_codes(const Codes& codes, std::byte* out) {
    pack_nibbles(codes, out + kLayout.codes_at);
    if constexpr (kLayout.fifth_at != 0) {
      std::uint32_t bits = 0;
      for (int e = 0; e < kElements; ++e) bits |= (codes[e] >> 4 & 1U) << e;
      std::memcpy(out + kLayout.fifth_at, &bits, sizeof bits);
    }
  }

  static Codes load_codes(const std::byte* in) {
    std::uint32_t fifth = 0;
    if constexpr (kLayout.fifth_at != 0) std::memcpy(&fifth, in + kLayout.fifth_at, sizeof fifth);
    Codes codes;
    for (int e = 0; e < kElements; ++e)
      codes[e] = nibble(in + kLayout.codes_at, e) | ((fifth >> e & 1U) << 4);
    return codes;
  }
};

// value = d * (code - offset), offset = (top + 1) / 2; f16 d in bytes 0..1. Exact in f64.
// Quantiser, all in f32:
//   m    = the signed element of largest magnitude
//   d    = m / -offset, so m itself gets code 0 and d may be negative;  id = 1 / d
//   code = trunc(x * id + offset + 1/2), at most top
template <const NibbleLayout& kLayout>
struct OffsetNibbles : Nibbles<kLayout> {
  using Base = Nibbles<kLayout>;
  static constexpr int kOffset = (kLayout.top + 1) / 2;

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    std::array<float, Base::kElements> v;
    if (!load_finite<Base::kElements>(x, v, policy)) return poison(out, Base::kBytes, 0);
    const float d = signed_absmax(v) / static_cast<float>(-kOffset);
    const float id = inverse_or_zero(d);
    store_f16(out, d);
    typename Base::Codes codes;
    for (int e = 0; e < Base::kElements; ++e) {
      codes[e] = offset_code(v[e] * id, kOffset, kLayout.top, policy, first_index + e);
    }
    Base::store_codes(codes, out);
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const auto d = static_cast<Real>(load_f16(in));
    const typename Base::Codes codes = Base::load_codes(in);
    for (int e = 0; e < Base::kElements; ++e)
      out[e] = d * static_cast<Real>(static_cast<int>(codes[e]) - kOffset);
  }
};

// value = d * code + m; f16 d in bytes 0..1, f16 m in bytes 2..3. Exact in f64: multiples of 2^-24 below
// 2^22. Quantiser, all in f32:
//   m    = minimum
//   d    = (maximum - m) / top;  id = 1 / d
//   code = trunc((x - m) * id + 1/2), at most top
// d and m are stored as f16 afterwards.
template <const NibbleLayout& kLayout>
struct MinimumNibbles : Nibbles<kLayout> {
  using Base = Nibbles<kLayout>;

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    std::array<float, Base::kElements> v;
    if (!load_finite<Base::kElements>(x, v, policy)) return poison(out, Base::kBytes, 0);
    float minimum = v[0];  // of +0 and -0 the first stays
    float maximum = v[0];
    for (const float e : v) {
      if (e < minimum) minimum = e;
      if (e > maximum) maximum = e;
    }
    const float d = (maximum - minimum) / static_cast<float>(kLayout.top);
    const float id = inverse_or_zero(d);
    store_f16(out, d);
    store_f16(out + 2, minimum);
    typename Base::Codes codes;
    for (int e = 0; e < Base::kElements; ++e) {
      codes[e] = offset_code((v[e] - minimum) * id, 0, kLayout.top, policy, first_index + e);
    }
    Base::store_codes(codes, out);
  }

  static void factors(const std::byte* in, std::span<Factors> out) {
    const typename Base::Codes codes = Base::load_codes(in);
    for (int e = 0; e < Base::kElements; ++e)
      out[e] = {.code = static_cast<double>(codes[e]),
                .scale = load_f16(in),
                .minimum = -1,
                .minimum_scale = load_f16(in + 2)};
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const double d = load_f16(in);
    const double m = load_f16(in + 2);
    const typename Base::Codes codes = Base::load_codes(in);
    for (int e = 0; e < Base::kElements; ++e) out[e] = static_cast<Real>(d * codes[e] + m);
  }
};

}  // namespace assay::blocks
