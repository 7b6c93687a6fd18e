// Runs mutants over a corpus of cases: of each, what assay says and what the usual rules say of the same
// outputs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/backends.hpp"
#include "harness/case.hpp"
#include "reports/kill_table.hpp"

namespace assay::mutants {

// A row of mutants.json, as the generator wrote it.
struct Manifest {
  int id;
  std::string file;
  int line;
  std::string kind, before, after, text;
};
std::vector<Manifest> read_manifest(const std::string& path);

// Lines "FILE @ SOURCE LINE @ BEFORE -> AFTER @ REASON" of equivalent.list: independent of numbers, so that
// an edit elsewhere keeps them; * stands for any text. Throws InputError for a line that is none of these.
struct Equivalent {
  std::string file, text, change, reason;
  bool used = false;
};
std::vector<Equivalent> read_equivalents(const std::string& path);
bool stands_for(const Equivalent& e, const Manifest& m);

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
