// q4_0 (ggml): 32 elements in 18 bytes.
//   0..1   f16 d
//   2..17  byte j: element j in bits 0..3, element j + 16 in bits 4..7
// value = d * (code - 8), exact in f64.
// Quantiser, bit-compatible with quantize_row_q4_0_ref, all in f32: m = the signed element of largest
// magnitude, d = m / -8, so m itself gets code 0 and d may be negative; id = 1 / d; code = trunc(x * id
// + 8.5), at most 15.
#include "reference/formats/blocks/inline_block.hpp"

namespace assay {
namespace {

struct Q4_0 {
  static constexpr std::string_view kName = "q4_0";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    std::array<float, kElements> v;
    if (!blocks::load_finite<kElements>(x, v, policy)) return blocks::poison(out, kBytes, 0);
    const float d = blocks::signed_absmax(v) / -8.0F;
    const float id = blocks::inverse_or_zero(d);
    blocks::store_f16(out, d);
    std::array<unsigned, kElements> codes;
    for (int e = 0; e < kElements; ++e)
      codes[e] = blocks::offset_code(v[e] * id, 8, 15, policy, first_index + e);
    blocks::pack_nibbles(codes, out + 2);
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const auto d = static_cast<Real>(blocks::load_f16(in));
    for (int e = 0; e < kElements; ++e) {
      const unsigned code = blocks::nibble(in + 2, e);
      out[e] = d * static_cast<Real>(static_cast<int>(code) - 8);
    }
  }
};

}  // namespace

constinit const BlockCodec q4_0_codec = blocks::inline_codec<Q4_0>();

}  // namespace assay
