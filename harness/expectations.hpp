// What a run is known to find: cases that a backend does not support, and defects of third-party kernels that
// were examined and written down. An expected verdict is green; anything else about the same case is not; and
// an expectation that a run no longer confirms is itself a finding, so that the list cannot outlive its
// reasons.
//
//   verdict[,verdict] op key=value[,value] ... # reason  op may be *; several verdicts: which of them is a
//                                                        matter of chance
//   unsupported softmax backend=onednn dtype=f16 # oneDNN 2 has no f16 on a CPU
//   wrong attention backend=./mine.so window=!0 @ratio=20 @owner=anna @until=2027-01-31 # issue 12
//
// Before the #: @ratio is the largest error / limit that is explained, so that a known finding of 2 x does
// not hide one of 1000 x; @owner is told with the reason; after the day @until nothing is explained any more,
// and the line is stale. @rate=0.1 is of a finding that comes by chance, in so large a share of the cases: as
// many are explained as that lets expect (more of them, one run in 10,000), and none is no reason to take the
// line out. @machine=no-avx512 says on which machines it comes up: on any other it does not, and that is no
// reason either.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "harness/case.hpp"
#include "harness/verdict.hpp"

namespace assay {

struct Expectation {
  std::vector<Status> statuses;
  CaseSet set;
  std::string reason;
  std::string where;  // "expected.list:12"
  double ratio = std::numeric_limits<double>::infinity();
  double rate = 1;            // of the cases of the set, the share that the finding comes in
  std::string owner, until;   // until: "2027-01-31", or "" for ever
  std::string machine;        // the machines that it comes up on, "" for all
  bool expired = false;       // at the day that the list was read
  std::size_t cases = 0;      // of this run that lie in the set
  std::size_t confirmed = 0;  // of those, with one of these verdicts
  std::string verdicts() const;
};

// Throws InputError for a line that does not parse, names no verdict, gives no reason, or has a value that no
// case has. `today` is a day as in @until; "" is before all of them.
std::vector<Expectation> parse_expectations(std::string_view text, const std::string& where,
                                            const std::string& today = "");
// Read today, in UTC.
std::vector<Expectation> read_expectations(const std::string& path);
// Whether the expectation is of this case, and says what the verdict says.
bool explains(const Expectation& e, const Case& c, const Verdict& verdict);
// The line that explains a finding and no other case: every attribute of the case, @ratio at twice the ratio
// found.
std::string expectation_line(const Case& c, const Verdict& verdict, const std::string& reason);
// Marks the verdict as expected when one of the list says so, and counts.
void apply_expectations(std::vector<Expectation>& expectations, const Case& c, Verdict& verdict);
// Those that had cases in the run and were confirmed by none, and those that have expired.
std::vector<const Expectation*> stale(const std::vector<Expectation>& expectations);

}  // namespace assay
