// The museum: defects that shipped in real engines, each an executable one with the case that shows it. The
// list is exhibits.cpp; the kernels stand in backends/museum; README.md shows the list as a table.
#pragma once

#include <span>
#include <string_view>

#include "harness/verdict.hpp"

namespace assay::museum {

// What a check of the harness itself found: a rule that other harnesses break must not be broken here.
struct Noticed {
  bool fault;        // the faulty run is refused
  bool counterpart;  // the good one is accepted
};

struct Exhibit {
  std::string_view number;  // "18b"
  std::string_view name;    // the plug-in's variant; NAME.correct is the counterpart
  std::string_view title;
  std::string_view citation;
  std::string_view line;  // the case, without backend and variant
  Status expected = Status::wrong;
  std::string_view correct_behaviour;  // what the counterpart does instead
  Noticed (*check)() = nullptr;        // instead of a case
  bool scenario = false;  // of an engine's state: shown by a scenario, not by one call of a kernel
};

std::span<const Exhibit> exhibits();

// checks.cpp
Noticed matching_infinity();
Noticed nothing_tested();
Noticed unread_ratio();

}  // namespace assay::museum
