// What will run: cases multiplied by backends and variants, filtered, sharded, and grouped so that inputs and
// truth are made once for all backends that share them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/backends.hpp"
#include "harness/case.hpp"
#include "harness/suite_text.hpp"
#include "reference/inputs/lists.hpp"

namespace assay {

struct PlanOptions {
  // Those that may run, in the order of the plan: a case that names a backend requires it, and is left out
  // when it is not among them. Empty: the default ones that were built, and whatever a case names.
  std::vector<std::string> backends;
  std::string filter;         // a regular expression (ECMAScript) searched in the whole line; empty: all
  int shard = 0, shards = 1;  // this part of so many
  bool seed_given = false;
  std::uint64_t seed = 1;  // for cases that name none
};

// Cases with the same inputs.
struct Group {
  std::vector<Case> cases;  // differing in backend and variant only
};

struct Plan {
  InputLists lists;  // of fills and faults, as make_plan was given them
  std::vector<Group> groups;
  std::size_t cases = 0;
  // Cases that were left out because they require a backend that PlanOptions::backends lacks: how many, by
  // its name.
  std::map<std::string, std::size_t> elsewhere;
};

// The variant that a name of a backend's list stands for in a case of this op: of OP:NAME, which is of one op
// alone, NAME; another colon is part of the name. Nothing where it is another op's.
std::optional<std::string> variant_for(const Op& op, const std::string& name);

// variants(backend): the names that variant=all stands for.
using VariantsOf = std::function<std::vector<std::string>(const std::string& backend)>;

// Throws InputError for a line that does not parse, an impossible case, an unknown fill or backend, a bad
// filter.
Plan make_plan(const std::vector<SuiteLine>& lines, const PlanOptions& options,
               const std::vector<BackendInfo>& known, const InputLists& lists, const VariantsOf& variants);

}  // namespace assay
