// q5_0 (ggml).
// Quantiser: OffsetNibbles, bit-compatible with quantize_row_q5_0_ref.
#include "reference/formats/blocks/ggml_nibbles.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q5_0 (ggml): 32 elements in 22 bytes.
  0..1   f16 d
  2..5   u32 h, little-endian: bit e is bit 4 of element e
  6..21  byte j: bits 0..3 of element j low, of element j + 16 high
value = d * (code - 16).)";

constexpr blocks::NibbleLayout kLayout = {
    .name = "q5_0", .bytes = 22, .codes_at = 6, .fifth_at = 2, .top = 31};

}  // namespace

constinit const BlockCodec q5_0_codec =
    blocks::described(kStored, blocks::inline_codec<blocks::OffsetNibbles<kLayout>>());

}  // namespace assay
