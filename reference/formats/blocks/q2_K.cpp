// q2_K (ggml).
// Quantiser: super_block.hpp.
#include "reference/formats/blocks/super_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q2_K (ggml): 256 elements in 84 bytes, 16 groups of 16.
  0..15   byte g: scale of group g in bits 0..3, its minimum in bits 4..7
  16..79  byte 32 n + j: elements 128 n + j, + 32, + 64, + 96 in bits 0..1, 2..3, 4..5, 6..7
  80..81  f16 d
  82..83  f16 dmin
value = d scale code - dmin minimum.)";

struct Q2K {
  static constexpr std::string_view kName = "q2_K";
  static constexpr int kBytes = 84, kGroup = 16, kScaleAt = 80, kMinimumAt = 82, kTopScale = 15,
                       kTopMinimum = 15, kFarCode = 3;
  static int code(const std::byte* in, int e) {
    return blocks::bits(in, 16 + e / 128 * 32 + e % 32, e % 128 / 32 * 2, 3);
  }
  static int scale(const std::byte* in, int g) { return blocks::bits(in, g, 0, 15); }
  static int minimum(const std::byte* in, int g) { return blocks::bits(in, g, 4, 15); }
  static void put_code(std::byte* out, int e, int code) {
    blocks::put_bits(out, 16 + e / 128 * 32 + e % 32, e % 128 / 32 * 2, code);
  }
  static void put_scale(std::byte* out, int g, int scale) { blocks::put_bits(out, g, 0, scale); }
  static void put_minimum(std::byte* out, int g, int minimum) { blocks::put_bits(out, g, 4, minimum); }
  static int nearest(double x) { return blocks::nearest_integer(x, 0, 3); }
};

}  // namespace

constinit const BlockCodec q2_K_codec =
    blocks::described(kStored, blocks::searched(blocks::inline_codec<blocks::SuperBlock<Q2K>>()));

}  // namespace assay
