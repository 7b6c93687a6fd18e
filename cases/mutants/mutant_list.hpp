// The mutants that the generator wrote, and those of them that are known to change nothing.
#pragma once

#include <string>
#include <vector>

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

}  // namespace assay::mutants
