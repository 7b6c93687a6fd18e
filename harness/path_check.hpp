// Whether the kernels that ran are those that the backend declared. What a witness saw outranks what the
// backend says of itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/promises.hpp"
#include "harness/worker/kernel_name.hpp"
#include "harness/worker/protocol.hpp"

namespace assay {

struct PathFinding {
  enum class Kind : std::uint8_t { none, unwitnessed, fallback, failed } kind = Kind::none;
  std::string summary;
};

// fallback: the declared path is not among the kernels seen; or, with a witness, a kernel that the backend
// announced was never seen, or more device memory was in use at one time than `tensor_bytes` (what inputs and
// outputs take; a witness of the host counts none of them) and the promise temporary_bytes=N allow. failed:
// the witness did not see everything. unwitnessed: only the backend's own word stands for the declared path:
// nobody watched, or no routine or kernel of that name is known to the witness (`unwatched`). path "": none
// is claimed.
PathFinding check_path(std::string_view path, const Promises& promises, const Trace& trace,
                       std::int64_t tensor_bytes);

// Of a host's witness, which sees every helper that a kernel calls: those alone that the path or an
// announcement names.
void keep_named_kernels(std::string_view path, const std::vector<std::string>& announced, Witness& witness);

}  // namespace assay
