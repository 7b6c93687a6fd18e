// From a failing case to the smallest that still fails alike: first its line (formats, words, shapes), then
// its data (delta debugging over every axis; values to 0, 1, powers of two, few bits), and what was called
// before it.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "harness/culprit/specimen.hpp"

namespace assay::culprit {

struct ShrinkOptions {
  std::chrono::milliseconds budget{30'000};
  JudgeOptions judge = {};
  // Who must pass each smaller case: the backend and the variant of a correct counterpart (another build of
  // the library, the release before). Without one, shrinking may slip to another defect that looks the same.
  // "": nobody.
  std::string counterpart = {}, counterpart_variant = {};
  std::function<bool()> stopped = [] { return false; };
};

struct Shrunk {
  Specimen specimen;
  Finding finding;       // of the specimen, in a new process
  Finding first;         // of the case that was given
  int judged = 0;        // cases, those of the counterpart left out
  bool done = false;     // nothing smaller was left to try: the budget was enough
  bool repeats = false;  // the finding is there again in a new process
};

// Throws InputError for a case that cannot be judged. A case that is green is given back as it is: `first`
// says so.
Shrunk shrink(const Case& c, const InputLists& lists, Workers& workers, const ShrinkOptions& options);

// The specimen's elements: of its largest data tensor, and of all of them.
std::size_t data_elements(const Specimen& specimen);

// Ready to be pasted into an issue: what, contract, expected, got, versions, how to run. `file`: the case
// file.
std::string issue_text(const Shrunk& shrunk, const std::string& file, const Provenance& provenance,
                       const std::string& backend_description);

}  // namespace assay::culprit
