// The one list of ops. Adding an op: one file beside this one, one row here, one line in CMakeLists.txt.
#include <array>

#include "reference/near_names.hpp"
#include "reference/ops/attention/attention.hpp"
#include "reference/ops/op.hpp"

namespace assay {

extern const Op kArgmax, kDequantize, kKvWrite, kLayernorm, kLogsumexp, kMatmul, kMoe, kQuantize, kRequantize,
    kRmsnorm, kSoftmax, kWht;

std::span<const Op> ops() {
  static const std::array kOps = {
      kArgmax, kAttention, kDequantize, kKvWrite, kLayernorm, kLogsumexp, kMatmul,
      kMoe,    kQuantize,  kRequantize, kRmsnorm, kSoftmax,   kWht,
  };
  return kOps;
}

const Op* find_op(std::string_view name) {
  for (const Op& each : ops())
    if (each.name == name) return &each;
  return nullptr;
}

const Op& op(std::string_view name) {
  if (const Op* found = find_op(name)) return *found;
  throw unknown_name("op", name, names_of(ops()));
}

}  // namespace assay
