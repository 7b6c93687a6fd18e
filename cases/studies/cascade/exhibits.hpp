// Defects of an engine's state that shipped, each as two runs of the same traffic: the defective engine,
// which the monitors must accuse of this and nothing else first, and its correct counterpart, which they must
// leave alone.
#pragma once

#include <span>
#include <string_view>

#include "cases/studies/cascade/chain.hpp"

namespace assay::scenarios {

struct Exhibit {
  std::string_view name;    // "commit_before_write"
  std::string_view source;  // the reports it was distilled from
  std::string_view cause;   // what first_cause() must say of the defective run
  std::string_view traffic;
  Settings defective, counterpart;
};
std::span<const Exhibit> exhibits();

}  // namespace assay::scenarios
