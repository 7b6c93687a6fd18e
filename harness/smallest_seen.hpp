// The smallest defects that a run of a made suite would have seen, by op and formats: what its summary says a
// pass is worth.
//
//   scale  an output off by so much is beyond its limit in half of the elements of some case: from the limits
//          of the cases that were judged, under the contract that was declared for them
//   terms  so many lost terms of a sum move every output of some case beyond its limit: by the same limits,
//          of fills that say what a term is worth in them (Fill::terms_seen)
//   study  terms under other fills, and bits of a sum: of plain kernels under usual contracts, not of the
//          kernel that is judged (cases/suites/planted.list); only where the fill that shows them was judged
//          with these formats
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/result.hpp"
#include "harness/suite_text.hpp"
#include "reference/inputs/lists.hpp"

namespace assay {

class SmallestSeen {
 public:
  // The study's rows; throws InputError for one that cannot be read.
  SmallestSeen(const std::vector<SuiteLine>& study, const InputLists& lists);
  static SmallestSeen of_the_study(const InputLists& lists);  // cases/suites/planted.list

  void add(const CaseResult& r);
  std::vector<std::string> by_format() const;  // one for each op and formats
  std::vector<std::string> by_op()
      const;  // one for each op: the worst of its formats, and how many were asked

 private:
  using Row = std::pair<std::string, std::string>;  // op, formats
  struct Seen {
    double scale = std::numeric_limits<double>::infinity();
    std::optional<std::int64_t> terms;
    bool derived = false;         // a fill that says so was judged
    std::set<std::string> fills;  // that were judged
  };
  struct Planted {  // the least that every row of the study saw; none where one saw nothing
    std::optional<int> terms, bits;
    std::string terms_fill, bits_fill;
  };
  static std::string study_of(const Seen& seen, const Planted& p);

  const InputLists& lists_;

  std::map<Row, Seen> seen_;
  std::map<Row, Planted> study_;
};

}  // namespace assay
