// Runs mutants over a corpus of cases: of each, what assay says and what the usual rules say of the same
// outputs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cases/studies/mutants/mutant_list.hpp"
#include "cases/studies/mutants/report.hpp"
#include "harness/backends.hpp"
#include "harness/case.hpp"
#include "harness/suite_text.hpp"

namespace assay::mutants {

struct KillOptions {
  std::string plugin;           // path of the plug-in of mutants
  std::string correct = "cpu";  // the backend whose every variant must not be accused; "" for none
  int jobs = 2;
  int every = 1;  // of the mutants only every so many-th, from `offset` on
  int offset = 0;
  std::vector<int> only;  // these ids alone; empty: all
  bool generated = true;  // false: none of the generated mutants
  bool first = false;     // of each mutant the first case that kills it, and nothing of the usual rules
  double timeout_seconds = 2;
  std::function<void(std::size_t done, std::size_t of)> progress;
};

// Those of the mutants that the options choose. Throws InputError for an id of `only` that is none.
std::vector<const Manifest*> chosen_mutants(const std::vector<Manifest>& mutants, const KillOptions& options);

// What is wrong with the list of excuses, mutants that it excuses and a case kills among them, is left in
// KillTable::list_faults.
KillTable kill_table(const std::vector<SuiteLine>& corpus, const std::vector<Manifest>& mutants,
                     std::span<const Excuse> list, const std::vector<BackendInfo>& known,
                     const KillOptions& options);

}  // namespace assay::mutants
