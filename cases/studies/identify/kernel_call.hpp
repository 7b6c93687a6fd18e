// One call of a kernel through its worker: what was declared, what was left, and which kernels were seen.
#pragma once

#include <optional>

#include "cases/studies/identify/answers.hpp"
#include "harness/judge.hpp"

namespace assay {

// Where kernels are asked: their workers, and a file that keeps their answers or stands in for them.
struct Kernels {
  Workers& workers;
  AnswerFile* answers = nullptr;
};

// nullopt where the backend does not take the call; throws std::runtime_error where it fails.
std::optional<KernelAnswer> call_kernel(const Case& c, const Inputs& inputs, const Kernels& kernels);

}  // namespace assay
