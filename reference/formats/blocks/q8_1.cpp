// q8_1 (ggml).
// Quantiser: codes and d as in q8_0; s = f16(f32(d) sum q), bit-compatible with quantize_row_q8_1_ref.
#include "reference/formats/blocks/inline_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q8_1 (ggml): 32 elements in 36 bytes: what activations become in front of weights with a minimum.
  0..1   f16 d
  2..3   f16 s: d times the sum of the codes, d before its rounding to f16
  4..35  int8 q[32], in order
value = d * q, exact in f64 (11 + 7 bits); s takes no part in it.)";

struct Q8_1 {
  static constexpr std::string_view kName = "q8_1";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 36;

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    Encoded q8_0{"q8_0", {kElements}, {{{"", "q8_0", {kElements}, 34}, std::vector<std::byte>(34)}}};
    q8_0_codec.encode({x, kElements}, policy, q8_0);
    (void)first_index;
    const std::byte* const made = q8_0.planes[0].bytes.data();
    std::memcpy(out, made, 2);
    std::memcpy(out + 4, made + 2, kElements);
    float absmax = 0;
    int sum = 0;
    for (int i = 0; i < kElements; ++i) {
      absmax = std::fmax(absmax, std::fabs(x[i]));
      sum += static_cast<std::int8_t>(made[2 + i]);
    }
    blocks::store_f16(out + 2, static_cast<float>(sum) * (absmax / 127.0F));
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const auto d = static_cast<Real>(blocks::load_f16(in));
    for (int i = 0; i < kElements; ++i) out[i] = d * static_cast<Real>(static_cast<std::int8_t>(in[4 + i]));
  }
};

}  // namespace

constinit const BlockCodec q8_1_codec = blocks::described(kStored, blocks::inline_codec<Q8_1>());

}  // namespace assay
