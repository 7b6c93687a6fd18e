// A finding as a script that needs nothing of assay: what one attaches to an issue of the library that has
// the defect.
#pragma once

#include <string>

#include "harness/backends.hpp"
#include "harness/culprit/specimen.hpp"

namespace assay::culprit {

// A program for Python 3.9 or later and its standard library, at most 60 lines: the inputs, the op's
// definition in 200 decimal digits for the worst element, what the kernel made of it, and the interval in
// which every kernel lies that keeps the contract. It prints all of them, and ends with 1 where the result
// is outside. For PyTorch's own functions it calls them again (torch is needed then). What takes a run to
// see (a crash, a path, unwritten memory) is run_script()'s (harness/culprit/repro_run.hpp). Throws
// InputError for an op or attribute without such a definition, and inputs too large for a script: those are
// to be shrunk first.
std::string repro_script(const Specimen& specimen, const Finding& finding, const Provenance& provenance,
                         const BackendChoice& backend);
// There is no script of this case: InputError with the reason.
[[noreturn]] void refuse_script(const Case& c, const std::string& why);

}  // namespace assay::culprit
