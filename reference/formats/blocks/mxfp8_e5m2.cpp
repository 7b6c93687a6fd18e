// mxfp8_e5m2: OCP MX, 32 elements of e5m2 and one e8m0 scale, 8.25 bits per element.
//   plane ""        e5m2 codes, row-major, one code to a byte
//   plane ".scale"  e8m0, one per 32 elements along the innermost axis
// Value, quantiser and special cases: microscaling.hpp.
#include "reference/formats/blocks/microscaling.hpp"

namespace assay {
namespace {

struct E5m2 {
  static constexpr std::string_view kName = "e5m2";
};

}  // namespace

constinit const BlockCodec mxfp8_e5m2_codec = blocks::Microscaling<E5m2>::codec();

}  // namespace assay
