// The matrix of a run: one row per op and formats, one column per backend, in a cell how many cases were
// green. Folded, the formats of a row are families: float, fp8, fp6, fp4, int, and ggml's blocks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/result.hpp"

namespace assay {

struct Cell {
  std::size_t cases = 0, passed = 0, gaps = 0;  // gaps: unsupported, and expected to be
  std::size_t blind = 0;                        // of those that passed
  std::map<Status, std::size_t> known;          // findings that are expected, by verdict
  std::map<Status, std::size_t> red;
  std::string reason;  // of the first case that is red or known

  void add(const Cell& other);
};

// "e4m3fn_tok" is fp8, "nvfp4" fp4, "int4_g32" int, "q4_0" ggml, "bf16" float: the family of its codes, from
// the row of the format.
std::string format_family(std::string_view format);
// "f16 q8_0 q4_0" -> "ggml", "bf16" -> "float": the families of the formats in a label, each once; float is
// named only where there is no other.
std::string family_label(const std::string& formats);

class Matrix {
 public:
  void add(const CaseResult& r);
  // A table; passes, how many of them are blind "[3 blind]", then red verdicts "wrong:3", then known findings
  // "(wrong:3)"; "-" is a gap.
  std::string text() const;
  Matrix folded() const;  // by families of formats

  using Row = std::pair<std::string, std::string>;  // op, formats
  const std::map<Row, std::map<std::string, Cell>>& rows() const { return rows_; }
  const std::vector<std::string>& backends() const { return backends_; }

 private:
  std::map<Row, std::map<std::string, Cell>> rows_;
  std::vector<std::string> backends_;  // in the order of appearance
};

}  // namespace assay
