// What the positional arguments of run and explain mean.
#pragma once

#include <string>
#include <vector>

#include "harness/case.hpp"
#include "harness/expectations.hpp"

namespace assay {

// Each word: a case line (it names an op, or has a blank), or a case file (*.cases), or the name of a suite
// under cases/suites. None: all suites that are part of the main job.
std::vector<SuiteLine> gather_lines(const std::vector<std::string>& words);
// The directory of the suites: $ASSAY_SUITES, or that of the source tree, or of the installation.
std::string suites_directory();
std::vector<std::string> suite_names();
// suites/expected.list: what runs are known to find.
std::vector<Expectation> expectations();

}  // namespace assay
