// mxfp4.
// Quantiser and special cases: microscaling.hpp.
#include "reference/formats/blocks/microscaling.hpp"

namespace assay {
namespace {

constexpr std::string_view kStored = R"(
mxfp4: OCP MX, 32 elements of e2m1 and one e8m0 scale, 4.25 bits per element.
  plane ""        e2m1 codes, row-major, two codes to a byte, the earlier element in the low nibble
  plane ".scale"  e8m0, one per 32 elements along the innermost axis
value = element 2^(scale - 127); scale code 255 makes its block NaN)";

struct E2m1 {
  static constexpr std::string_view kName = "e2m1";
};

}  // namespace

constinit const BlockCodec mxfp4_codec =
    blocks::described(kStored, blocks::codec_of<blocks::Microscaling<E2m1>>());

}  // namespace assay
