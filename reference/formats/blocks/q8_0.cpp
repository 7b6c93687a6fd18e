// q8_0 (ggml).
// Quantiser, bit-compatible with quantize_row_q8_0_ref, all in f32: d = absmax / 127, id = 1 / d,
// q = round(x * id) with ties away from zero; d is stored as f16 after id has been taken from the f32.
#include "reference/formats/blocks/inline_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q8_0 (ggml): 32 elements in 34 bytes.
  0..1   f16 d
  2..33  int8 q[32], in order
value = d * q, exact in f64 (11 + 7 bits).)";

struct Q8_0 {
  static constexpr std::string_view kName = "q8_0";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 34;

  static void encode(const float* x, std::byte* out, EncodePolicy policy, std::uint64_t first_index) {
    std::array<float, kElements> v;
    if (!blocks::load_finite<kElements>(x, v, policy)) return blocks::poison(out, kBytes, 0);
    const float absmax = std::fabs(blocks::signed_absmax(v));
    const float d = absmax / 127.0F;
    const float id = blocks::inverse_or_zero(d);
    blocks::store_f16(out, d);
    if (policy.rounding == Rounding::nearest_even || policy.rounding == Rounding::nearest_away) {
      for (int i = 0; i < kElements; ++i) {  // |x * id| is below 127.001, and the sum is exact in f64
        const auto t = static_cast<double>(v[static_cast<std::size_t>(i)] * id);
        out[2 + i] = static_cast<std::byte>(static_cast<int>(t + std::copysign(0.5, t)));
      }
      return;
    }
    static const ScalarFormat& int8 = scalar_format("int8");
    for (int i = 0; i < kElements; ++i) {
      out[2 + i] = static_cast<std::byte>(assay::encode(int8, v[i] * id, policy, first_index + i));
    }
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const auto d = static_cast<Real>(blocks::load_f16(in));
    for (int i = 0; i < kElements; ++i) out[i] = d * static_cast<Real>(static_cast<std::int8_t>(in[2 + i]));
  }
};

}  // namespace

constinit const BlockCodec q8_0_codec = blocks::described(kStored, blocks::inline_codec<Q8_0>());

}  // namespace assay
