// mxfp4_ggml.
// Quantiser, bit-compatible with quantize_row_mxfp4_ref:
//   e    = floor(log2f(absmax)) - 2 + 127 with the logarithm rounded to f32 (so just below a large power of
//        two it
//          rounds up to it); EncodePolicy::mx_exact: the exact floor, which kernels that read the exponent's
//          bits have
//   code = the one that minimises |value - x| in f32; ties go to the smaller magnitude, and a zero is always
//   +0
// ggml's e is undefined below absmax 2^-125; here it stays at 0. A block with NaN or Inf has no NaN to
// become: e is 0xFF and every code 7, beyond the range of f32.
#include <cmath>

#include "reference/formats/blocks/inline_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
mxfp4_ggml: ggml's MXFP4, 32 elements in 17 bytes.
  0      e8m0 exponent e
  1..16  byte j: e2m1 code of element j in bits 0..3, of element j + 16 in bits 4..7
value = e2m1 * 2^(e - 127), exact in f64; code 8 is +0 (ggml's table is of integers). ggml has no NaN here: 0xFF in
e is the exponent 128, where OCP reads NaN.)";

struct Mxfp4Ggml {
  static constexpr std::string_view kName = "mxfp4_ggml";
  static constexpr int kElements = 32;
  static constexpr int kBytes = 17;

  static const double* values() {
    static const double* const table = decode_table(scalar_format("e2m1")).data();
    return table;
  }

  static unsigned nearest_code(float x, float scale) {
    unsigned best = 0;
    float best_error = std::fabs(x);
    for (unsigned code = 1; code < 16; ++code) {
      const float error = std::fabs(static_cast<float>(values()[code]) * scale - x);
      if (error < best_error) {
        best = code;
        best_error = error;
      }
    }
    return best;
  }

  static void encode(const float* x, std::byte* out, const EncodePolicy& policy, std::uint64_t first_index) {
    static const ScalarFormat& e2m1 = scalar_format("e2m1");
    std::array<float, kElements> v;
    std::array<unsigned, kElements> codes;
    int exponent = 0;
    if (blocks::load_finite<kElements>(x, v, policy)) {
      const float absmax = std::fabs(blocks::signed_absmax(v));
      if (absmax > 0) {
        const auto logarithm = static_cast<float>(std::log2(static_cast<double>(absmax)));
        const int floor = policy.mx_exact ? std::ilogb(absmax) : static_cast<int>(std::floor(logarithm));
        exponent = std::max(0, floor - 2 + 127);
      }
      const double scale = codec::pow2(exponent - 127);
      const bool nearest =
          policy.rounding == Rounding::nearest_even || policy.rounding == Rounding::nearest_away;
      for (int e = 0; e < kElements; ++e) {
        codes[e] = nearest ? nearest_code(v[e], static_cast<float>(scale))
                           : assay::encode(e2m1, v[e] / scale, policy, first_index + e);
      }
    } else {
      exponent = 0xFF;
      codes.fill(7);
    }
    out[0] = static_cast<std::byte>(exponent);
    blocks::pack_nibbles(codes, out + 1);
  }

  static void factors(const std::byte* in, std::span<Factors> out) {
    for (int e = 0; e < kElements; ++e)
      out[e] = {.code = values()[blocks::nibble(in + 1, e)],
                .scale = codec::pow2(static_cast<int>(in[0]) - 127)};
  }

  template <typename Real>
  static void decode(const std::byte* in, Real* out) {
    const double scale = codec::pow2(static_cast<int>(in[0]) - 127);
    for (int e = 0; e < kElements; ++e) {
      out[e] = static_cast<Real>(values()[blocks::nibble(in + 1, e)] * scale + 0.0);
    }
  }
};

}  // namespace

constinit const BlockCodec mxfp4_ggml_codec = blocks::described(kStored, blocks::inline_codec<Mxfp4Ggml>());

}  // namespace assay
