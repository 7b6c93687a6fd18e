// A case with its data in hand: what shrinking changes and judges again, and what a case file is made of.
#pragma once

#include <optional>
#include <string>

#include "harness/case_file.hpp"
#include "harness/judge.hpp"

namespace assay::culprit {

struct Specimen {
  Case c;
  Inputs inputs;
};

// What two findings must share to be one: the verdict, the output, and what stands at its worst element.
enum class ElementKind : std::uint8_t { none, nan, infinity, number };
std::string_view to_string(ElementKind kind);
struct Symptom {
  Status status = Status::failed;
  std::string output;  // "" where no number was judged
  ElementKind kind = ElementKind::none;
  bool operator==(const Symptom&) const = default;
};

struct Finding {
  CaseResult result;
  Symptom symptom;
  std::vector<Truth> truths;  // {} where the run ended early
  TensorSet got;
  bool shows = false;  // an all-zero output would have failed
};

// Judges the case on these very bytes, behind its history; `fresh`: in a new process.
Finding judge_specimen(const Specimen& specimen, const InputLists& lists, Workers& workers,
                       const JudgeOptions& options, bool fresh = false);

// The file of a specimen as it was found. `commit` and `version`: of assay.
struct Provenance {
  std::string version, commit;
};
CaseFile case_file_of(const Specimen& specimen, const Finding& finding, const Provenance& provenance);

// One case from the words of a command line: a line, or a case file. `backend`: "" or the one to ask in place
// of the case's. Throws InputError when the words are not one case, or it names no backend.
Case one_case(const std::string& word, const std::string& backend);

}  // namespace assay::culprit
