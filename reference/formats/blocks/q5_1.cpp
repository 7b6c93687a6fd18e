// q5_1 (ggml): 32 elements in 24 bytes.
//   0..1   f16 d
//   2..3   f16 m
//   4..7   u32 h, little-endian: bit e is bit 4 of element e
//   8..23  byte j: bits 0..3 of element j low, of element j + 16 high
// value = d * code + m, exact in f64 (both are multiples of 2^-24 below 2^22).
// Quantiser, bit-compatible with quantize_row_q5_1_ref, all in f32: m = minimum, d = (maximum - m) / 31, id =
// 1 / d, code = trunc((x - m) * id + 0.5), at most 31; d and m are stored as f16 afterwards.
#include "reference/formats/blocks/inline_block.hpp"

namespace assay {
namespace {

struct Q5_1 {
  static constexpr std::string_view kName = "q5_1";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 24;

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    std::array<float, kElements> v;
    if (!blocks::load_finite<kElements>(x, v, policy)) return blocks::poison(out, kBytes, 0);
    // Among +0 and -0 the first counts, as in a loop of `if (x < minimum)`.
    float minimum = v[0];
    float maximum = v[0];
    for (const float e : v) {
      if (e < minimum) minimum = e;
      if (e > maximum) maximum = e;
    }
    const float d = (maximum - minimum) / 31.0F;
    const float id = blocks::inverse_or_zero(d);
    blocks::store_f16(out, d);
    blocks::store_f16(out + 2, minimum);
    std::array<unsigned, kElements> codes;
    for (int e = 0; e < kElements; ++e) {
      codes[e] = blocks::offset_code((v[e] - minimum) * id, 0, 31, policy, first_index + e);
    }
    blocks::pack_fifth_bits(codes, out + 4);
    blocks::pack_nibbles(codes, out + 8);
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const double d = blocks::load_f16(in);
    const double m = blocks::load_f16(in + 2);
    const std::uint32_t fifth = blocks::load_u32(in + 4);
    for (int e = 0; e < kElements; ++e) {
      const unsigned code = blocks::nibble(in + 8, e) | ((fifth >> e & 1U) << 4);
      out[e] = static_cast<Real>(d * code + m);
    }
  }
};

}  // namespace

constinit const BlockCodec q5_1_codec = blocks::inline_codec<Q5_1>();

}  // namespace assay
