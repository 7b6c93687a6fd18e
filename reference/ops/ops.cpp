// The one list of ops. Adding an op: one file beside this one, one row here, one line in CMakeLists.txt.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "reference/error.hpp"
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
  std::vector<std::string_view> names;
  for (const Op& each : ops()) names.push_back(each.name);
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("no op is called '{}'; allowed: {}", name, fmt::join(names, ", ")));
}

}  // namespace assay
