// q4_1 (ggml).
// Quantiser: MinimumNibbles, bit-compatible with quantize_row_q4_1_ref.
#include "reference/formats/blocks/ggml_nibbles.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q4_1 (ggml): 32 elements in 20 bytes.
  0..1   f16 d
  2..3   f16 m
  4..19  byte j: element j in bits 0..3, element j + 16 in bits 4..7
value = d * code + m.)";

constexpr blocks::NibbleLayout kLayout = {
    .name = "q4_1", .bytes = 20, .codes_at = 4, .fifth_at = 0, .top = 15};

}  // namespace

constinit const BlockCodec q4_1_codec =
    blocks::described(kStored, blocks::inline_codec<blocks::MinimumNibbles<kLayout>>());

}  // namespace assay
