// The search for what a limit needs, of all that is wanted at once: a point is drawn and run once and held
// against every rule, or every word of its op, that has no point yet. In turn the search climbs towards each
// that is still missing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cases/studies/adversary/needed.hpp"

namespace assay::adversary {

struct Wanted {
  std::string name;   // as rules.list and words.list print it
  std::string op;     // whose families have it; empty: any
  std::string group;  // of one group a point that does not show the first shows no other: a rule's factors
  std::function<double(const Point&, const Run&, const std::vector<Truth>&)> need;
};
// Those whose names begin with one of `of`; all of them without one.
std::vector<Wanted> wanted_rules(const std::vector<std::string>& of);
std::vector<Wanted> wanted_words(const std::vector<std::string>& of);

// The same with fewer edits and plainer choices, as long as it shows what is wanted.
Point reduced(Point point, const Wanted& wanted);

// options: seed, seconds of all together, climb (changes a turn), fixed. among: the families. found: each
// that has a point, reduced. Returns those without one.
std::vector<Wanted> find_all(std::vector<Wanted> wanted, const std::vector<const Family*>& among,
                             const SearchOptions& options,
                             const std::function<void(const Wanted&, const Point&)>& found);

}  // namespace assay::adversary
