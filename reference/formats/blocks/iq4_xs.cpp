// iq4_xs (ggml).
// Quantiser: super_block.hpp.
#include "reference/formats/blocks/iq4_codebook.hpp"
#include "reference/formats/blocks/super_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
iq4_xs (ggml): 256 elements in 136 bytes, 8 groups of 32.
  0..1    f16 d
  2..3    u16, little-endian: bits 4..5 of the scale of group g in bits 2 g, 2 g + 1
  4..7    byte j: bits 0..3 of the scales of groups 2 j and, above them, 2 j + 1
  8..135  byte 16 g + j: codes of elements 32 g + j in bits 0..3, 32 g + 16 + j in bits 4..7
value = d (scale - 32) codebook[code], the codebook of iq4_nl.)";

struct Iq4Xs {
  static constexpr std::string_view kName = "iq4_xs";
  static constexpr int kBytes = 136, kGroup = 32, kScaleAt = 0, kMinimumAt = -1, kTopScale = 31,
                       kTopMinimum = 0, kFarCode = -127;
  static int code_at(int e) { return 8 + e / 32 * 16 + e % 16; }
  static int code(const std::byte* in, int e) {
    return static_cast<int>(blocks::kIq4Codebook[blocks::bits(in, code_at(e), e % 32 / 16 * 4, 15)]);
  }
  static int scale(const std::byte* in, int g) {
    return (blocks::bits(in, 4 + g / 2, g % 2 * 4, 15) | blocks::bits(in, 2 + g / 4, g % 4 * 2, 3) << 4) - 32;
  }
  static int minimum(const std::byte*, int) { return 0; }
  static void put_code(std::byte* out, int e, int entry) {
    const auto at = std::ranges::find(blocks::kIq4Codebook, static_cast<float>(entry));
    blocks::put_bits(out, code_at(e), e % 32 / 16 * 4, static_cast<int>(at - blocks::kIq4Codebook.begin()));
  }
  static void put_scale(std::byte* out, int g, int scale) {
    blocks::put_bits(out, 4 + g / 2, g % 2 * 4, (scale + 32) & 15);
    blocks::put_bits(out, 2 + g / 4, g % 4 * 2, (scale + 32) >> 4);
  }
  static int nearest(double x) {
    return static_cast<int>(*std::ranges::min_element(
        blocks::kIq4Codebook, {}, [&](float entry) { return std::fabs(x - static_cast<double>(entry)); }));
  }
};

constexpr ScaleSearch kSearch{Iq4Xs::kGroup, Iq4Xs::kTopScale, Iq4Xs::kFarCode, 113, blocks::kIq4Codebook};

}  // namespace

constinit const BlockCodec iq4_xs_codec =
    blocks::described(kStored, blocks::searched(blocks::inline_codec<blocks::SuperBlock<Iq4Xs>>(), &kSearch));

}  // namespace assay
