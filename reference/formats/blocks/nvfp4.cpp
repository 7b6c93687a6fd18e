// nvfp4: 16 elements of e2m1, an e4m3fn block scale, one f32 global scale for the tensor, 4.5 bits per
// element.
//   plane ".block_scale"  e4m3fn [.., inner / 16], row-major
// The other planes, value and quantiser: nvfp4_layout.hpp.
#include "reference/formats/blocks/nvfp4_layout.hpp"

namespace assay {
namespace {

struct Linear {
  static Shape shape(const Shape& tensor) { return grouped(tensor, 16); }
  static std::int64_t index(const Shape& tensor, std::int64_t row, std::int64_t column) {
    return row * (tensor.back() / 16) + column;
  }
};

}  // namespace

constinit const BlockCodec nvfp4_codec = blocks::Nvfp4<Linear>::codec();

}  // namespace assay
