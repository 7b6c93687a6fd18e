// q5_0 (ggml): 32 elements in 22 bytes.
//   0..1   f16 d
//   2..5   u32 h, little-endian: bit e is bit 4 of element e
//   6..21  byte j: bits 0..3 of element j low, of element j + 16 high
// value = d * (code - 16), exact in f64.
// Quantiser, bit-compatible with quantize_row_q5_0_ref, all in f32: m = the signed element of largest
// magnitude, d = m / -16, so m itself gets code 0 and d may be negative; id = 1 / d; code = trunc(x * id
// + 16.5), at most 31.
#include "reference/formats/blocks/inline_block.hpp"

namespace assay {
namespace {

struct Q5_0 {
  static constexpr std::string_view kName = "q5_0";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 22;

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    std::array<float, kElements> v;
    if (!blocks::load_finite<kElements>(x, v, policy)) return blocks::poison(out, kBytes, 0);
    const float d = blocks::signed_absmax(v) / -16.0F;
    const float id = blocks::inverse_or_zero(d);
    blocks::store_f16(out, d);
    std::array<unsigned, kElements> codes;
    for (int e = 0; e < kElements; ++e)
      codes[e] = blocks::offset_code(v[e] * id, 16, 31, policy, first_index + e);
    blocks::pack_fifth_bits(codes, out + 2);
    blocks::pack_nibbles(codes, out + 6);
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const auto d = static_cast<Real>(blocks::load_f16(in));
    const std::uint32_t fifth = blocks::load_u32(in + 2);
    for (int e = 0; e < kElements; ++e) {
      const unsigned code = blocks::nibble(in + 6, e) | ((fifth >> e & 1U) << 4);
      out[e] = d * static_cast<Real>(static_cast<int>(code) - 16);
    }
  }
};

}  // namespace

constinit const BlockCodec q5_0_codec = blocks::inline_codec<Q5_0>();

}  // namespace assay
