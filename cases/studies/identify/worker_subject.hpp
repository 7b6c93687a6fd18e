// The kernel of a case line, in its worker: what `assay identify` asks.
#pragma once

#include <memory>
#include <string>

#include "cases/studies/identify/kernel_call.hpp"
#include "cases/studies/identify/subject.hpp"

namespace assay {

// `c` is a case of matmul with a backend; its m, n, k and seed are replaced by those that are asked for.
// Throws InputError where its path multiplies what a schedule does not describe (integers, operands that the
// contract leaves open).
std::unique_ptr<GemmSubject> worker_subject(const Case& c, const Kernels& source);

}  // namespace assay
