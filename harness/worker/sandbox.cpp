#include "harness/worker/sandbox.hpp"

namespace assay {

std::optional<std::string> enter_sandbox(const Sandbox&) { return "the sandbox is not built in"; }

}  // namespace assay
