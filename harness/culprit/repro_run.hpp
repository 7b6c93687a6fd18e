// A finding that takes a run to see, as a script that needs nothing of assay.
#pragma once

#include <string>

#include "harness/backends.hpp"
#include "harness/culprit/specimen.hpp"

namespace assay::culprit {

// A program for Python 3.9 or later on Linux, at most 60 lines, of its standard library alone: the case's
// tensors in memory of their own, between pages that are not mapped, in poison, and the kernel in a process
// of its own, three times: under two poisons and at two places. It prints what it sees (a signal, no end,
// an exception, an element that was never written, bytes written outside of the outputs, bits that change
// from call to call, with the poison or with the place), and ends with 1 where it sees any. A plug-in is
// called through its C interface, one of PyTorch's own functions (`torch`: an expression over tensor("x");
// needs torch) as it is; of any other kernel the script has a place for the call. A path is shown as it was
// recorded. Throws InputError for a verdict that no run shows, and for tensors too large for a script.
std::string run_script(const Specimen& specimen, const Finding& finding, const Provenance& provenance,
                       const BackendChoice& backend, std::string_view torch);

}  // namespace assay::culprit
