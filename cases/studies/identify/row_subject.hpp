// The kernel of case lines of an op on rows, asked through its worker.
#pragma once

#include <memory>

#include "cases/studies/identify/kernel_call.hpp"
#include "cases/studies/identify/rows.hpp"
#include "harness/case.hpp"

namespace assay {

// Rows and columns are free, the rest is the case's. Throws InputError bad_value for a case whose steps no
// schedule names.
std::unique_ptr<RowSubject> row_subject(const Case& c, const Kernels& source);

}  // namespace assay
