// A mixture of experts of a backend, behind its worker.
#pragma once

#include <memory>

#include "cases/studies/identify/kernel_call.hpp"
#include "cases/studies/identify/moe.hpp"
#include "harness/case.hpp"

namespace assay {

// Throws InputError bad_value where nothing could be learnt: sums of integers, fewer columns than what shows
// a product takes.
std::unique_ptr<MoeSubject> moe_subject(const Case& c, const Kernels& source);

}  // namespace assay
