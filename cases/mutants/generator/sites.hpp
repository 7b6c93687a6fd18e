// What can be changed where: first-order mutants of one source.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cases/mutants/generator/source.hpp"

namespace assay::mutants {

struct Mutant {
  int id = 0;
  int line = 0;
  std::string kind;           // the class of the table
  std::string before, after;  // of the region, in one line
};

// A piece of the source that is emitted once per mutant and once as it stands.
enum class RegionForm { expression, condition, discarded, statement };
struct Region {
  int begin, end;  // tokens
  RegionForm form;
  std::vector<Mutant> mutants;
};

struct Rules {
  std::vector<std::string> skipped_functions;  // names, or endings that begin with "*"
  bool tables = true;                          // constexpr tables become const ones whose entries are mutated
};

// Regions nest or are disjoint, and are sorted by begin, the larger first.
std::vector<Region> find_regions(const Source& source, const Rules& rules);

// Numbers the mutants from `next_id` on and writes the source with all of them in it, each behind a test of
// its number.
std::string schemata(const Source& source, std::vector<Region>& regions, int& next_id);

}  // namespace assay::mutants
