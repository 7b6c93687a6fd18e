// q3_K (ggml).
// Quantiser: super_block.hpp.
#include "reference/formats/blocks/super_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q3_K (ggml): 256 elements in 110 bytes, 16 groups of 16.
  0..31     byte j, bit n: 1 where the code of element 32 n + j is 0 or more
  32..95    byte 32 n + j: two low bits of elements 128 n + j, + 32, + 64, + 96 in bits 0..1, 2..3, 4..5, 6..7
  96..103   byte j: bits 0..3 of the scales of groups j and, above them, j + 8
  104..107  byte j: bits 4..5 of the scales of groups j, j + 4, j + 8, j + 12
  108..109  f16 d
value = d (scale - 32) code, code = low bits - (bit is 0 ? 4 : 0), -4 to 3.)";

struct Q3K {
  static constexpr std::string_view kName = "q3_K";
  static constexpr int kBytes = 110, kGroup = 16, kScaleAt = 108, kMinimumAt = -1, kTopScale = 31,
                       kTopMinimum = 0, kFarCode = -4;
  static int low_at(int e) { return 32 + e / 128 * 32 + e % 32; }
  static int code(const std::byte* in, int e) {
    return blocks::bits(in, low_at(e), e % 128 / 32 * 2, 3) -
           (blocks::bits(in, e % 32, e / 32, 1) != 0 ? 0 : 4);
  }
  static int scale(const std::byte* in, int g) {
    return (blocks::bits(in, 96 + g % 8, g / 8 * 4, 15) | blocks::bits(in, 104 + g % 4, g / 4 * 2, 3) << 4) -
           32;
  }
  static int minimum(const std::byte*, int) { return 0; }
  static void put_code(std::byte* out, int e, int code) {
    blocks::put_bits(out, low_at(e), e % 128 / 32 * 2, code & 3);
    blocks::put_bits(out, e % 32, e / 32, code >= 0 ? 1 : 0);
  }
  static void put_scale(std::byte* out, int g, int scale) {
    blocks::put_bits(out, 96 + g % 8, g / 8 * 4, (scale + 32) & 15);
    blocks::put_bits(out, 104 + g % 4, g / 4 * 2, (scale + 32) >> 4);
  }
  static int nearest(double x) { return blocks::nearest_integer(x, -4, 3); }
};

constexpr ScaleSearch kSearch{Q3K::kGroup, Q3K::kTopScale, Q3K::kFarCode, 3};

}  // namespace

constinit const BlockCodec q3_K_codec =
    blocks::described(kStored, blocks::searched(blocks::inline_codec<blocks::SuperBlock<Q3K>>(), &kSearch));

}  // namespace assay
