// The matrix of a run: one row per op and formats, one column per backend, in a cell how many cases were
// green.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/result.hpp"

namespace assay {

struct Cell {
  std::size_t cases = 0, passed = 0, gaps = 0;  // gaps: unsupported, and expected to be
  std::map<Status, std::size_t> known;          // findings that are expected, by verdict
  std::map<Status, std::size_t> red;
  std::string reason;  // of the first case that is red or known
};

class Matrix {
 public:
  void add(const CaseResult& r);
  std::string text() const;  // a table; passes, then red verdicts "wrong:3", then known findings "(wrong:3)"; "-" is a gap

  using Row = std::pair<std::string, std::string>;  // op, formats
  const std::map<Row, std::map<std::string, Cell>>& rows() const { return rows_; }
  const std::vector<std::string>& backends() const { return backends_; }

 private:
  std::map<Row, std::map<std::string, Cell>> rows_;
  std::vector<std::string> backends_;  // in the order of appearance
};

}  // namespace assay
