// Outputs that were recorded, in an engine or by another harness, judged without running anything.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "harness/case_file.hpp"
#include "harness/result.hpp"

namespace assay {

// Throws InputError for a case with a fault, whose requirement takes two runs of a kernel.
void refuse_fault(const Case& c);

// The verdict over the file's outputs, which is that of a run that left them: pass, wrong, distrust; with
// `strict` blind. Who wrote and read what, whether the bits repeat and which kernel ran cannot be told from a
// record. `contract`: in place of the one that the file names; without either, the op's defaults. Throws
// InputError for a file without outputs, of a case with a fault (whose requirement needs two runs), or with a
// contract that the op does not have.
CaseResult judge_recorded(const CaseFile& file, const std::optional<std::string>& contract, bool strict);

// The truths that the file's outputs are compared with.
std::vector<Truth> truths_of_recorded(const CaseFile& file, const std::optional<std::string>& contract);

// The verdict as text, of several lines: `where` is what the tensors are called in it.
std::string judged_text(const CaseResult& result, std::string_view where);

}  // namespace assay
