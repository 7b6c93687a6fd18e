// The libraries that came into this process after the witness: the plug-in, and what it brought.
#pragma once

#include <link.h>

#include <string>
#include <vector>

namespace assay::cpu_witness {

struct Module {
  ElfW(Addr) base = 0;
  std::string file;
  std::vector<ElfW(Phdr)> segments;
};

// Of those that are loaded now, each that was not returned before.
std::vector<Module> new_modules();

// The libraries that a module names as needed, by the names of their files.
std::vector<std::string> needed_by(const Module& module);

}  // namespace assay::cpu_witness
