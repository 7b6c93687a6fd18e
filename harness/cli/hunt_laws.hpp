// Laws that a kernel breaks, for `assay hunt`: found on cases, and each on the smallest case where it still
// is.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "harness/laws.hpp"

namespace assay {

struct LawHunt {
  const InputLists& lists;
  Workers& workers;
  JudgeOptions judge;
  std::function<bool()> stopped;
};

// The first of each law, op, backend and variant that is red.
std::vector<LawResult> broken_laws(const std::vector<Case>& cases, std::span<const Law> laws,
                                   const LawHunt& hunt);
// The same law on a case whose integers are as small as they can be, one at a time, until nothing smaller is
// red or time is over.
LawResult smallest_case(const LawResult& found, std::chrono::milliseconds budget, const LawHunt& hunt);

}  // namespace assay
