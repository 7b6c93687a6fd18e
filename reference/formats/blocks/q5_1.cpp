// q5_1 (ggml).
// Quantiser: MinimumNibbles, bit-compatible with quantize_row_q5_1_ref.
#include "reference/formats/blocks/ggml_nibbles.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q5_1 (ggml): 32 elements in 24 bytes.
  0..1   f16 d
  2..3   f16 m
  4..7   u32 h, little-endian: bit e is bit 4 of element e
  8..23  byte j: bits 0..3 of element j low, of element j + 16 high
value = d * code + m.)";

constexpr blocks::NibbleLayout kLayout = {
    .name = "q5_1", .bytes = 24, .codes_at = 8, .fifth_at = 4, .top = 31};

}  // namespace

constinit const BlockCodec q5_1_codec =
    blocks::described(kStored, blocks::inline_codec<blocks::MinimumNibbles<kLayout>>());

}  // namespace assay
