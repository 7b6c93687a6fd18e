// What a transcript shows: one verdict per detector, with its evidence and the origin of its limit.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/cascade/live/sequence.hpp"

namespace assay::live {

enum class Outcome { clean, finding, not_run };
constexpr const char* to_string(Outcome o) {
  return o == Outcome::clean ? "clean" : o == Outcome::finding ? "FINDING" : "not run";
}

struct Verdict {
  std::string detector;
  Outcome outcome = Outcome::not_run;
  std::string summary;                // one line
  std::vector<std::string> evidence;  // with request numbers
  std::string limit;                  // what counts as a finding, and why
};

struct Transcript {
  std::vector<Exchange> exchanges;
  ServerInfo server;
  std::vector<Exchange> earlier;  // of --against; empty: none
  std::string earlier_order;
  std::vector<Exchange> baseline;  // of --baseline; empty: none
};

// In the order of this list: server_failure, empty_output, nonfinite_logprobs, greedy_choice, repetition,
// nondeterminism, changed_answer, poisoned_prefix, collapse, order_dependence, baseline.
std::vector<Verdict> judge(const Transcript& transcript);

// The loop at the end of an answer: the tokens that repeat, and how many tokens only repeat what stood
// before.
struct Loop {
  std::vector<std::string> tokens;
  std::size_t repeated = 0;
};
Loop tail_loop(const std::vector<std::string>& tokens);
std::vector<std::string> tokens_of(const Answer& answer);  // of the log-probabilities, else the characters

// The detectors of one answer and of pairs of answers; judge() calls them.
std::vector<Verdict> judge_answers(const Transcript& transcript);
std::vector<Verdict> judge_pairs(const Transcript& transcript);

}  // namespace assay::live
