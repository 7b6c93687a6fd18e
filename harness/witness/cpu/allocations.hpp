// How much memory a library takes during a run: calls of malloc and its kin go through counters that stand in
// the tables by which a library reaches them (its relocations). Blocks below a page are bookkeeping and not
// counted, nor is what is freed of an earlier run: the count errs to the small side.
#pragma once

#include <cstdint>

#include "harness/witness/cpu/modules.hpp"

namespace assay::cpu_witness {

struct Allocated {
  std::int64_t all = 0, peak = 0;  // bytes: of all blocks, and of those that were there at one time
};

void watch_allocations(const Module& module);
void forget_allocations();
Allocated allocations();

}  // namespace assay::cpu_witness
