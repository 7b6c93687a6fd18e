// q5_K (ggml).
// Quantiser: super_block.hpp.
#include "reference/formats/blocks/super_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q5_K (ggml): 256 elements in 176 bytes, 8 groups of 32.
  0..1     f16 d
  2..3     f16 dmin
  4..7     byte 4 + j: scale j in bits 0..5, bits 4..5 of scale j + 4 in bits 6..7
  8..11    byte 8 + j: the same of the minima
  12..15   byte 12 + j: bits 0..3 of scale j + 4, and above them of minimum j + 4
  16..47   byte j, bit n: bit 4 of element 32 n + j
  48..175  byte 32 n + j: elements 64 n + j in bits 0..3, 64 n + 32 + j in bits 4..7
value = d scale code - dmin minimum.)";

struct Q5K {
  static constexpr std::string_view kName = "q5_K";
  static constexpr int kBytes = 176, kGroup = 32, kScaleAt = 0, kMinimumAt = 2, kTopScale = 63,
                       kTopMinimum = 63, kFarCode = 31;
  static int code(const std::byte* in, int e) {
    return blocks::bits(in, 48 + e / 64 * 32 + e % 32, e % 64 / 32 * 4, 15) |
           blocks::bits(in, 16 + e % 32, e / 32, 1) << 4;
  }
  static int scale(const std::byte* in, int g) { return blocks::six_bits(in, 4, g, false); }
  static int minimum(const std::byte* in, int g) { return blocks::six_bits(in, 4, g, true); }
  static void put_code(std::byte* out, int e, int code) {
    blocks::put_bits(out, 48 + e / 64 * 32 + e % 32, e % 64 / 32 * 4, code & 15);
    blocks::put_bits(out, 16 + e % 32, e / 32, code >> 4);
  }
  static void put_scale(std::byte* out, int g, int scale) { blocks::put_six_bits(out, 4, g, false, scale); }
  static void put_minimum(std::byte* out, int g, int minimum) {
    blocks::put_six_bits(out, 4, g, true, minimum);
  }
  static int nearest(double x) { return blocks::nearest_integer(x, 0, 31); }
};

}  // namespace

constinit const BlockCodec q5_K_codec =
    blocks::described(kStored, blocks::searched(blocks::inline_codec<blocks::SuperBlock<Q5K>>()));

}  // namespace assay
