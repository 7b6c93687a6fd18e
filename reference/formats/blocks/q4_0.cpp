// q4_0 (ggml).
// Quantiser: OffsetNibbles, bit-compatible with quantize_row_q4_0_ref.
#include "reference/formats/blocks/ggml_nibbles.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q4_0 (ggml): 32 elements in 18 bytes.
  0..1   f16 d
  2..17  byte j: element j in bits 0..3, element j + 16 in bits 4..7
value = d * (code - 8).)";

constexpr blocks::NibbleLayout kLayout = {
    .name = "q4_0", .bytes = 18, .codes_at = 2, .fifth_at = 0, .top = 15};

}  // namespace

constinit const BlockCodec q4_0_codec =
    blocks::described(kStored, blocks::inline_codec<blocks::OffsetNibbles<kLayout>>());

}  // namespace assay
