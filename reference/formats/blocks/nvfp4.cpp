// nvfp4.
// Quantiser: nvfp4_layout.hpp.
#include "reference/formats/blocks/nvfp4_layout.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
nvfp4: 16 elements of e2m1, an e4m3fn block scale, one f32 global scale for the tensor.
  plane ""               e2m1 codes, row-major, two to a byte, the earlier element in bits 0..3
  plane ".block_scale"   e4m3fn [.., inner / 16], row-major
  plane ".global_scale"  f32 [1]
value = e2m1 block_scale / global_scale: the global scale is the one that the quantiser multiplied by, so decoding divides)";

struct Linear {
  static Shape shape(const Shape& tensor) { return grouped(tensor, 16); }
  static std::int64_t index(const Shape& tensor, std::int64_t row, std::int64_t column) {
    return row * (tensor.back() / 16) + column;
  }
};

}  // namespace

constinit const BlockCodec nvfp4_codec =
    blocks::described(kStored, blocks::codec_of<blocks::Nvfp4<Linear>>());

}  // namespace assay
