// q4_1 (ggml): 32 elements in 20 bytes.
//   0..1   f16 d
//   2..3   f16 m
//   4..19  byte j: element j in bits 0..3, element j + 16 in bits 4..7
// value = d * code + m, exact in f64 (both are multiples of 2^-24 below 2^22).
// Quantiser, bit-compatible with quantize_row_q4_1_ref, all in f32: m = minimum, d = (maximum - m) / 15, id =
// 1 / d, code = trunc((x - m) * id + 0.5), at most 15; d and m are stored as f16 afterwards.
#include "reference/formats/blocks/inline_block.hpp"

namespace assay {
namespace {

struct Q4_1 {
  static constexpr std::string_view kName = "q4_1";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 20;

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
    const float d = (maximum - minimum) / 15.0F;
    const float id = blocks::inverse_or_zero(d);
    blocks::store_f16(out, d);
    blocks::store_f16(out + 2, minimum);
    std::array<unsigned, kElements> codes;
    for (int e = 0; e < kElements; ++e) {
      codes[e] = blocks::offset_code((v[e] - minimum) * id, 0, 15, policy, first_index + e);
    }
    blocks::pack_nibbles(codes, out + 4);
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const double d = blocks::load_f16(in);
    const double m = blocks::load_f16(in + 2);
    for (int e = 0; e < kElements; ++e) {
      const unsigned code = blocks::nibble(in + 4, e);
      out[e] = static_cast<Real>(d * code + m);
    }
  }
};

}  // namespace

constinit const BlockCodec q4_1_codec = blocks::inline_codec<Q4_1>();

}  // namespace assay
