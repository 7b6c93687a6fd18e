// Points that once exceeded a limit, each with a name: what was repaired stays repaired.
#pragma once

#include <string>
#include <vector>

namespace assay::adversary {

struct KnownPoint {
  std::string name, point;
};
// "name: point" on each line; # starts a comment. Throws InputError for a line without a name.
std::vector<KnownPoint> read_corpus(const std::string& file);

}  // namespace assay::adversary
