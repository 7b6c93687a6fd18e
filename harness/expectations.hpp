// What a run is known to find: cases that a backend does not support, and defects of third-party kernels that
// were examined and written down. An expected verdict is green; anything else about the same case is not; and
// an expectation that a run no longer confirms is itself a finding, so that the list cannot outlive its
// reasons.
//
//   verdict op key=value[,value] ... # reason            op may be *
//   unsupported softmax backend=onednn dtype=f16 # oneDNN 2 has no f16 on a CPU
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/case.hpp"
#include "harness/verdict.hpp"

namespace assay {

struct Expectation {
  Status status;
  CaseSet set;
  std::string reason;
  std::string where;          // "expected.list:12"
  std::size_t cases = 0;      // of this run that lie in the set
  std::size_t confirmed = 0;  // of those, with this verdict
};

// Throws InputError for a line that does not parse, names no verdict, gives no reason, or has a value that no case has.
std::vector<Expectation> parse_expectations(std::string_view text, const std::string& where);
std::vector<Expectation> read_expectations(const std::string& path);
// Marks the verdict as expected when one of the list says so, and counts.
void apply_expectations(std::vector<Expectation>& expectations, const Case& c, Verdict& verdict);
// Those that had cases in the run and were confirmed by none.
std::vector<const Expectation*> stale(const std::vector<Expectation>& expectations);

}  // namespace assay
