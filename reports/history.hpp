// One case, or some, over several runs: verdict, how near to the limit, path and time of each, and where they
// changed.
#pragma once

#include <string>
#include <vector>

#include "reports/compare.hpp"

namespace assay {

struct HistoryStep {
  std::size_t run = 0;  // its place among the runs
  const ComparedRow* row = nullptr;
  std::vector<std::string> changed;  // of verdict, contract, path; against the step before
};

struct CaseHistory {
  std::string line;
  std::vector<HistoryStep> steps;  // of the runs that have the case, in their order
  bool changed() const;
};

// The cases whose lines have every word of `words`, in the order in which they first appear. The rows stay
// those of `runs`.
std::vector<CaseHistory> histories(const std::vector<ComparedRun>& runs, const std::string& words);

std::string history_text(const std::vector<ComparedRun>& runs, const std::vector<CaseHistory>& cases);
// One self-contained page: of each case a strip of its verdicts, and its worst ratios as a line.
std::string history_page(const std::vector<ComparedRun>& runs, const std::vector<CaseHistory>& cases);

}  // namespace assay
