// q6_K (ggml).
// Quantiser: super_block.hpp.
#include "reference/formats/blocks/super_block.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
q6_K (ggml): 256 elements in 210 bytes, 16 groups of 16.
  0..127    byte 64 n + j: bits 0..3 of elements 128 n + j and, above them, 128 n + 64 + j
  128..191  byte 32 n + j: bits 4..5 of elements 128 n + j, + 32, + 64, + 96
  192..207  int8 scale of each group
  208..209  f16 d
value = d scale (code - 32).)";

struct Q6K {
  static constexpr std::string_view kName = "q6_K";
  static constexpr int kBytes = 210, kGroup = 16, kScaleAt = 208, kMinimumAt = -1, kTopScale = 127,
                       kTopMinimum = 0, kFarCode = -32;
  static int low_at(int e) { return e / 128 * 64 + e % 64; }
  static int high_at(int e) { return 128 + e / 128 * 32 + e % 32; }
  static int code(const std::byte* in, int e) {
    return (blocks::bits(in, low_at(e), e % 128 / 64 * 4, 15) |
            blocks::bits(in, high_at(e), e % 128 / 32 * 2, 3) << 4) -
           32;
  }
  static int scale(const std::byte* in, int g) { return static_cast<std::int8_t>(in[192 + g]); }
  static int minimum(const std::byte*, int) { return 0; }
  static void put_code(std::byte* out, int e, int code) {
    blocks::put_bits(out, low_at(e), e % 128 / 64 * 4, (code + 32) & 15);
    blocks::put_bits(out, high_at(e), e % 128 / 32 * 2, (code + 32) >> 4);
  }
  static void put_scale(std::byte* out, int g, int scale) { out[192 + g] = static_cast<std::byte>(scale); }
  static int nearest(double x) { return blocks::nearest_integer(x, -32, 31); }
};

constexpr ScaleSearch kSearch{Q6K::kGroup, Q6K::kTopScale, Q6K::kFarCode, 31};

}  // namespace

constinit const BlockCodec q6_K_codec =
    blocks::described(kStored, blocks::searched(blocks::inline_codec<blocks::SuperBlock<Q6K>>(), &kSearch));

}  // namespace assay
