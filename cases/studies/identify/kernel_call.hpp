// One call of a kernel through its worker: what was declared, what was left, and which kernels were seen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/inputs.hpp"
#include "harness/judge.hpp"

namespace assay {

struct KernelAnswer {
  std::vector<double> got;  // the first output
  std::string contract, path;
  std::vector<std::string> kernels;  // what a witness saw outranks what the backend says
};
// nullopt where the backend does not take the call; throws std::runtime_error where it fails.
std::optional<KernelAnswer> call_kernel(const Case& c, const Inputs& inputs, Workers& workers);

}  // namespace assay
