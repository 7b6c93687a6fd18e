// nvfp4_swizzled.
// Quantiser: nvfp4_layout.hpp.
#include "reference/formats/blocks/nvfp4_layout.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
nvfp4_swizzled: nvfp4 whose block scales lie in the 128x4 order that Blackwell's scaled matrix instructions read
(cuBLAS documentation, "1D block scaling factors layout"; CUTLASS calls the atom 32x4x4).
  plane ""               e2m1 codes, row-major, two to a byte, the earlier element in bits 0..3
  plane ".block_scale"   e4m3fn; per matrix [rows, inner / 16] of the last two axes (rows = 1 below rank 2), padded
                         with code 0 to multiples of 128 rows and 4 columns, in tiles of 128 x 4 = 512 bytes, tiles
                         row-major; within a tile the scale of (row, column) is byte
                         (row % 32) * 16 + (row / 32) * 4 + column
  plane ".global_scale"  f32 [1]
value = e2m1 block_scale / global_scale: the global scale is the one that the quantiser multiplied by, so decoding divides)";

constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTileColumns = 4;

constexpr std::int64_t padded(std::int64_t extent, std::int64_t multiple) {
  return (extent + multiple - 1) / multiple * multiple;
}

struct Swizzled {
  static std::int64_t rows(const Shape& tensor) { return tensor.size() > 1 ? tensor[tensor.size() - 2] : 1; }
  static std::int64_t columns(const Shape& tensor) { return padded(tensor.back() / 16, kTileColumns); }

  static Shape shape(const Shape& tensor) {
    Shape plane = tensor;
    plane.back() = columns(tensor);
    if (plane.size() > 1) {
      plane[plane.size() - 2] = padded(rows(tensor), kTileRows);
    } else {
      plane.insert(plane.begin(), kTileRows);
    }
    return plane;
  }

  static std::int64_t index(const Shape& tensor, std::int64_t row, std::int64_t column) {
    const std::int64_t matrix = row / rows(tensor);
    const std::int64_t r = row % rows(tensor);
    const std::int64_t padded_rows = padded(rows(tensor), kTileRows);
    const std::int64_t tile = r / kTileRows * (columns(tensor) / kTileColumns) + column / kTileColumns;
    const std::int64_t within = r % 32 * 16 + r % kTileRows / 32 * 4 + column % kTileColumns;
    return matrix * padded_rows * columns(tensor) + tile * kTileRows * kTileColumns + within;
  }
};

}  // namespace

constinit const BlockCodec nvfp4_swizzled_codec =
    blocks::described(kStored, blocks::codec_of<blocks::Nvfp4<Swizzled>>());

}  // namespace assay
