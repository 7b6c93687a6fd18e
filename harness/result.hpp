// What a run leaves of one case, and what a run as a whole was: all that reports need.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/case.hpp"
#include "harness/verdict.hpp"
#include "harness/worker/protocol.hpp"

namespace assay {

// Whether a finding is there again in a new process.
enum class Repeat : std::uint8_t {
  untried,      // a pass, or one of many findings of its kind
  alone,        // by the case's line
  after_calls,  // behind the calls in CaseResult::after
  never,        // not alone, nor behind calls of its own kernel alone: the verdict is that of a new process
};
constexpr std::string_view to_string(Repeat r) {
  constexpr std::string_view kNames[] = {"untried", "alone", "after_calls", "never"};
  return kNames[static_cast<std::size_t>(r)];
}

struct CaseResult {
  Case c;
  Verdict verdict;
  std::string contract;              // as declared, canonical
  std::string expected_path;         // "" when the backend claims none
  bool deterministic = true;         // as promised
  std::vector<std::string> kernels;  // announced by the backend, in order
  std::optional<Witness> witness;    // what was really launched, where somebody watched
  std::vector<std::pair<std::string, std::string>> notes;
  Repeat repeat = Repeat::untried;
  std::string command;             // that repeats the result; "": assay run, and the line
  std::vector<std::string> after;  // the fewest calls of its process behind which a finding is there again
  std::string
      disturbed;  // a finding of a process that had made other calls, which is not this case's; "" for none
  // Where the time went; what several cases share (inputs, truth) is counted once, with the first of them.
  // What is left of total_seconds is the comparison, and the bookkeeping.
  double kernel_seconds = 0;     // inside the backend's run(), all repeats
  double reference_seconds = 0;  // encoding the inputs, decoding the outputs, truth
  double input_seconds = 0;      // index tensors and fill
  double worker_seconds = 0;     // declare and run, less the kernel: messages, memory, poison, its inspection
  double total_seconds = 0;
};

// The line that repeats the result: the case's, with what has to be called before it.
std::string repro_line(const CaseResult& r);
// The same in a shell.
std::string repro_command(const CaseResult& r);

// "e4m3fn", or "q8_0 q4_0 f16" when a case has several formats: the values of the op's format attributes in
// their order, each once. The row of a case in the matrix.
std::string format_label(const Case& c);

// 12,345
std::string with_commas(std::size_t n);

inline constexpr std::string_view kAllGreen = "all green", kNotGreen = "not green",
                                  kNothingWasJudged = "nothing was judged";

struct Summary {
  std::map<Status, std::size_t> counts;
  std::size_t cases = 0;
  std::size_t red = 0;                      // neither a pass nor expected
  std::size_t expected = 0;                 // explained by the list of expectations
  std::map<Status, std::size_t> explained;  // of those, by verdict
  std::size_t judged = 0;         // outputs were held against their limits, and the inputs show something
  std::size_t shows_nothing = 0;  // an all-zero output would have passed
  std::size_t not_run = 0;        // unsupported, too big for this machine, or impossible
  std::size_t unwitnessed = 0;    // the backend's word alone stands for the declared path
  std::size_t suspect = 0;        // passes that the second opinion does not share
  std::size_t blind = 0;          // passes that could not have shown an error of 10 % in half of the elements
  std::vector<std::string> disturbed;  // findings of processes that are no single case's
  std::vector<std::string> stale;      // expectations that this run did not confirm
  std::size_t outputs = 0;             // elements of the cases that were judged
  std::size_t left = 0;                // cases that --budget left no time for
  std::size_t laws_left = 0;           // promised laws, each on one case, likewise
  std::size_t left_out =
      0;  // of a suite that was made: their inputs show nothing, and they are no part of it
  std::vector<std::string>
      smallest;          // of such a suite: the smallest defects that it would have seen, by op and formats
  std::string ended_by;  // what stopped the run: "SIGINT"; "" when it is complete
  double wall_seconds = 0;
  double kernel_seconds = 0, reference_seconds = 0, input_seconds = 0, worker_seconds = 0,
         busy_seconds = 0;  // over all jobs; busy: the sum of the cases' totals

  void add(const CaseResult& r);
  // What is no part of a suite that was made counts here alone.
  void leave_out(const CaseResult& r);
  // "logsumexp of ./mine.so: none of 12 cases shows anything under the contract that it declares": a contract
  // that says nothing is no green by the side of others.
  std::vector<std::string> unshown() const;
  // Something was judged of all that ran, and nothing is red.
  bool green() const;
  // "all green", "not green", or "nothing was judged": the headline of every report.
  std::string_view headline() const;
  // "1,956 judged, 12 show nothing, 2,490 not run": of all cases, in every report; what is left are findings
  // without outputs.
  std::string coverage() const;

 private:
  struct Shown {
    std::size_t judged = 0, nothing = 0;
  };
  std::map<std::pair<std::string, std::string>, Shown> shown_;  // by op and backend
};

}  // namespace assay
