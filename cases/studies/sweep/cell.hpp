// A cell of the kernel sweep: one line of text, as a case is, that says what is planted into one attention
// op.
//
//   line  = probe { " " key "=" value { "," value } }        a comma means a set, and sets multiply
//   probe = qk: whether the right key wins among near-duplicates; pv: whether its value survives the
//   accumulator
//
// Parse and print are a fixed point, and equal cells print equal lines: the line is the cell's name in the
// store, and repeats it bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.hpp"

namespace assay::sweep {

enum class Probe : std::uint8_t { qk, pv };

struct Cell {
  Probe probe = Probe::qk;
  Attributes attributes;
  std::uint64_t seed = 1;
  std::string backend, variant;  // as a case has them

  std::string inputs() const;  // the part of the line that decides the inputs
  std::string line() const;
  Case attention() const;  // the op that is run; one KV head, needles / heads query rows
  std::int64_t integer(std::string_view key) const { return attributes.integer(key); }
  double real(std::string_view key) const { return attributes.real(key); }
  // Multiply-adds of q.k and p.v, which the time of a kernel and of the reference goes with.
  double work() const;
};

std::span<const KeySpec> keys_of(Probe probe);

// All cells that a line stands for; those without backend= get each of `backends`. Throws InputError: an
// unknown probe or key (with the near ones), a value that is not allowed, more needles than keys, more than
// 65,536 cells.
std::vector<Cell> parse_cells(std::string_view line, const std::vector<std::string>& backends,
                              std::string_view where = "cell");

}  // namespace assay::sweep
