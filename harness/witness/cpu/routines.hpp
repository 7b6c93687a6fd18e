// Which routines of a library were entered. A breakpoint stands at the entry of every function that the
// library's symbol table names; the first call of a run meets it, is noted, and removes it: what is seen is
// what was executed, whoever called it and whatever was announced, at the price of one signal for each
// routine of a run.
//
// A function that the compiler put in line has no entry of its own there, and a name without a symbol none at
// all: of a name that no symbol has nothing is said (is_watched).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/witness/cpu/generated.hpp"
#include "harness/witness/cpu/modules.hpp"

namespace assay::cpu_witness {

const char* watch_traps();  // once; nullptr, or why it cannot
void watch_routines(const Module& module);
void watch_generated(const std::vector<Generated>& fresh);
std::size_t watched_routines();               // how many, of all modules
void forget_routines();                       // arms every breakpoint again
std::vector<std::string> entered_routines();  // since they were forgotten, in that order, demangled
// Whether a routine of this name would have been seen in the run that was collected last, which it was met
// before: one of the plug-in itself, which is the first module that came, one that was generated, or a symbol
// of a library that it brings which is the name whole. Less of a library's names, and those of the standard
// library's templates in the plug-in, happen to be the same (clear, run) and say nothing.
bool is_watched(std::string_view name);

}  // namespace assay::cpu_witness
