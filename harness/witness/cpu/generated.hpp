// Routines that a library generates while it runs have no symbol. Many libraries name them in the file that
// perf reads, /tmp/perf-PID.map, one line each: ADDRESS SIZE NAME, both numbers in hexadecimal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace assay::cpu_witness {

struct Generated {
  std::uintptr_t entry = 0;
  std::size_t bytes = 0;
  std::string name;
};

// Once, before the plug-in is there: a map that an earlier process of this number left is nobody's here.
void forget_older_map();
// What was added to the map since the last call. The file is removed when it is first met: it is read on by
// its descriptor.
std::vector<Generated> newly_generated();

// The readable and executable addresses of this process, in pairs of first and end.
class CodeRanges {
 public:
  CodeRanges();
  bool contain(std::uintptr_t first, std::size_t bytes) const;
  bool writable(std::uintptr_t at) const;

 private:
  struct Range {
    std::uintptr_t first, end;
    bool writable;
  };
  const Range* at(std::uintptr_t address) const;
  std::vector<Range> ranges_;
};

}  // namespace assay::cpu_witness
