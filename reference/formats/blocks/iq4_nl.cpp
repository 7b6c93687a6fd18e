// iq4_nl (ggml).
// Quantiser, bit-compatible with quantize_row_iq4_nl_ref, all in f32:
//   m    = the signed element of largest magnitude
//   d0   = m / -127
//   code = the codebook entry c nearest to x / d0 (x times the f32 inverse; ties to the larger entry)
//   d    = sum x^2 c x / sum x^2 c^2 over the chosen entries, the least-squares scale under weights x^2, in
//        order
// A block whose absmax is below 1e-15 has d = 0; ggml leaves stale codes there, here they are 0.
#include "reference/formats/blocks/inline_block.hpp"
#include "reference/formats/blocks/iq4_codebook.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
iq4_nl (ggml): 32 elements in 18 bytes.
  0..1   f16 d
  2..17  byte j: code of element j in bits 0..3, of element j + 16 in bits 4..7
value = d * codebook[code], exact in f64 (11 + 7 bits).)";

struct Iq4Nl {
  static constexpr std::string_view kName = "iq4_nl";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;
  static constexpr const std::array<float, 16>& kCodebook = blocks::kIq4Codebook;
  static constexpr float kSmallestAbsmax = 1e-15F;  // ggml's GROUP_MAX_EPS_IQ4_NL

  static unsigned code_of(float x, const EncodePolicy& policy, std::uint64_t index) {
    if (policy.rounding != Rounding::stochastic || !(x > kCodebook.front()) || x >= kCodebook.back())
      return blocks::iq4_code(x, policy.rounding);
    const unsigned below = blocks::iq4_code(x, Rounding::toward_negative);
    const double part = static_cast<double>(x - kCodebook[below]) / (kCodebook[below + 1] - kCodebook[below]);
    return below + (stochastic_draw(policy.seed, index) < static_cast<std::uint64_t>(part * 0x1p64) ? 1 : 0);
  }

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    std::array<float, kElements> v;
    if (!blocks::load_finite<kElements>(x, v, policy)) return blocks::poison(out, kBytes, 0);
    std::memset(out, 0, kBytes);
    const float extreme = blocks::signed_absmax(v);
    if (std::fabs(extreme) < kSmallestAbsmax) return;
    const float inverse = 1.0F / (extreme / kCodebook.front());
    std::array<unsigned, kElements> codes;
    float product_sum = 0;
    float square_sum = 0;
    for (int e = 0; e < kElements; ++e) {
      codes[e] = code_of(inverse * v[e], policy, first_index + e);
      const float entry = kCodebook[codes[e]];
      const float weight = v[e] * v[e];
      product_sum += weight * entry * v[e];
      square_sum += weight * entry * entry;
    }
    blocks::store_f16(out, square_sum > 0 ? product_sum / square_sum : 0.0F);
    blocks::pack_nibbles(codes, out + 2);
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const auto d = static_cast<Real>(blocks::load_f16(in));
    for (int e = 0; e < kElements; ++e) out[e] = d * static_cast<Real>(kCodebook[blocks::nibble(in + 2, e)]);
  }
};

}  // namespace

constinit const BlockCodec iq4_nl_codec = blocks::described(kStored, blocks::inline_codec<Iq4Nl>());

}  // namespace assay
