// Whether the kernels that ran are those that the backend declared. What a witness saw outranks what the
// backend says of itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/worker/kernel_name.hpp"
#include "harness/worker/protocol.hpp"

namespace assay {

struct PathFinding {
  enum class Kind : std::uint8_t { none, fallback, failed } kind = Kind::none;
  std::string summary;
};

// fallback: the declared path is not among the kernels seen; or, with a witness, a kernel that the backend
// announced was never seen, or more device memory was in use at one time than `tensor_bytes` (what inputs and
// outputs take; a witness of the host counts none of them) and the promise temporary_bytes=N allow. A name that the
// witness could not have seen (`unwatched`) is left to the backend's word. failed: the witness did not see everything. Without
// a witness the backend's own list of kernels is the evidence. path "": none is claimed.
PathFinding check_path(std::string_view path, std::string_view promises, const Trace& trace,
                       std::int64_t tensor_bytes);

}  // namespace assay
