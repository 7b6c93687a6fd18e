// The fills and faults that a program knows. The harness is handed them by the program that links everything,
// so that it knows none by name and depends on no list.
#pragma once

#include <span>

#include "reference/inputs/fault.hpp"
#include "reference/inputs/fill.hpp"

namespace assay {

struct InputLists {
  std::span<const Fill> fills;
  std::span<const Fault> faults;
};

}  // namespace assay
