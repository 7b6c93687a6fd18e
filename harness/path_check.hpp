// Whether the kernels that ran are those that the backend declared. What a witness saw outranks what the
// backend says of itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/worker/protocol.hpp"

namespace assay {

// Whether `declared` names the kernel `seen` (demangled): it occurs there as a whole, so that "softmax" is
// not "online_softmax" nor "softmax_split"; "ns::f" and "f<float>" name "void ns::f<float>(int)". A `*` at
// its end leaves the rest of the last word open: "nvjet_sm90_*".
bool names_kernel(std::string_view declared, std::string_view seen);

struct PathFinding {
  enum class Kind : std::uint8_t { none, fallback, failed } kind = Kind::none;
  std::string summary;
};

// fallback: the declared path is not among the kernels seen; or, with a witness, a kernel that the backend
// announced was never seen, or more device memory was in use at one time than `tensor_bytes` (what inputs and
// outputs take) and the promise temporary_bytes=N allow. failed: the witness did not see everything. Without
// a witness the backend's own list of kernels is the evidence. path "": none is claimed.
PathFinding check_path(std::string_view path, std::string_view promises, const Trace& trace,
                       std::int64_t tensor_bytes);

}  // namespace assay
