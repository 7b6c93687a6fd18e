// Runs mutants over a corpus of cases: of each, what assay says and what the usual rules say of the same
// outputs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cases/mutants/mutant_list.hpp"
#include "harness/backends.hpp"
#include "harness/case.hpp"
#include "reports/kill_table.hpp"

namespace assay::mutants {

struct KillOptions {
  std::string plugin;           // path of the plug-in of mutants
  std::string correct = "cpu";  // the backend whose every variant must not be accused; "" for none
  int jobs = 2;
  int every = 1;  // of the mutants only every so many-th, from `offset` on
  int offset = 0;
  std::vector<int> only;  // these ids alone; empty: all
  double timeout_seconds = 2;
  std::function<void(std::size_t done, std::size_t of)> progress;
};

KillTable kill_table(const std::vector<SuiteLine>& corpus, const std::vector<Manifest>& mutants,
                     std::vector<Equivalent>& equivalents, const std::vector<BackendInfo>& known,
                     const KillOptions& options);

}  // namespace assay::mutants
