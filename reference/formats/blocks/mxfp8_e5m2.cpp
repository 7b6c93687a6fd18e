// mxfp8_e5m2.
// Quantiser and special cases: microscaling.hpp.
#include "reference/formats/blocks/microscaling.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
mxfp8_e5m2: OCP MX, 32 elements of e5m2 and one e8m0 scale, 8.25 bits per element.
  plane ""        e5m2 codes, row-major, one code to a byte
  plane ".scale"  e8m0, one per 32 elements along the innermost axis
value = element 2^(scale - 127); scale code 255 makes its block NaN)";

struct E5m2 {
  static constexpr std::string_view kName = "e5m2";
};

}  // namespace

constinit const BlockCodec mxfp8_e5m2_codec =
    blocks::described(kStored, blocks::codec_of<blocks::Microscaling<E5m2>>());

}  // namespace assay
