// What can be changed where: first-order mutants of one source.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cases/studies/mutants/generator/source.hpp"

namespace assay::mutants {

struct Mutant {
  int id = 0;
  int line = 0;
  std::string kind;           // the class of the table
  std::string before, after;  // of the region, in one line
};

// A piece of the source that is emitted once per mutant and once as it stands; a value is emitted once,
// inside a call that narrows it.
enum class RegionForm { expression, condition, discarded, statement, value };
struct Region {
  int begin, end;  // tokens
  RegionForm form;
  std::vector<Mutant> mutants;
  int narrowing = 0;  // of a value: what its first mutant does, of narrowings()
};

// What a floating-point value may be narrowed to, in the order of state.hpp's narrow(). Those of the table of
// kills come first, then widths that no other list has.
struct Narrowing {
  std::string text;  // "in 11 bits"
  std::string kind;  // class of the mutant
};
const std::vector<Narrowing>& narrowings();

// Names that stand for floating-point numbers somewhere in the mutated sources.
struct FloatNames {
  std::set<std::string> scalars, arrays, functions;
  void collect(const Source& source);
  void add(const FloatNames& other);
};

struct Rules {
  std::vector<std::string> skipped_functions;  // names, or endings that begin with "*"
  bool tables = true;                          // constexpr tables become const ones whose entries are mutated
  bool values = true;                          // values narrowed and rounded in a direction
  bool other_widths = false;                   // narrowed to the widths that the table of kills does not have
  FloatNames floats;
};

// Regions nest or are disjoint, and are sorted by begin, the larger first.
std::vector<Region> find_regions(const Source& source, const Rules& rules);

// Whether the `constexpr` at token i begins an object with an initialiser in braces: what follows may depend
// on the mutant once it is only const.
bool is_table(const Source& source, int i);

// Of each generic class (arithmetic, constants, conditions, ...) the `most` mutants with the smallest hash of
// what they are; regions that lose all of theirs go too.
void thin(std::vector<std::vector<Region>>& files, std::size_t most);

// Numbers the mutants from `next_id` on and writes the source with all of them in it, each behind a test of
// its number.
std::string schemata(const Source& source, std::vector<Region>& regions, int& next_id);

}  // namespace assay::mutants
