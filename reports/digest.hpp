// What the red cases of a run have in common that the others have not: "all 40 share v=q5_1, which 3 of 812
// passes have".
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/result.hpp"

namespace assay {

struct DigestLine {
  std::string op, backend;
  std::size_t red = 0, passes = 0;  // of the op and backend
  std::vector<std::string> shared;  // "v=q5_1", "cols % 8 == 5", "len >= 4096": true of every red case
  std::size_t passes_too = 0;       // passes of which all of them are true
  std::string text() const;
};

class Digest {
 public:
  void add(const CaseResult& r);
  // For each op and backend with several red cases: what tells them apart, if anything does.
  std::vector<DigestLine> lines() const;

 private:
  using Values = std::map<std::string, std::string>;  // key -> value of one case
  struct Side {
    std::vector<Values> red, passes;
  };
  std::map<std::pair<std::string, std::string>, Side> sides_;
};

}  // namespace assay
