// What is sent, in which order, and what came back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cases/studies/cascade/live/client.hpp"

namespace assay::live {

// How a prompt met the prefix cache: never seen before, seen before, or told to leave the cache alone.
enum class Mode { cold, warm, fresh };
constexpr const char* to_string(Mode m) {
  return m == Mode::cold ? "cold" : m == Mode::warm ? "warm" : "fresh";
}

struct Exchange {
  int number = 0;      // from 1, in the order sent
  std::string phase;   // first, before, trigger, after
  std::string prompt;  // small1, small1_edit1, large1, joint1, behind1, dummy
  Mode mode = Mode::cold;
  Prompt sent;
  Reply reply;
};

inline constexpr int kPrompts = 3;  // of each kind
inline constexpr int kEdits = 2;    // of each small prompt

// Every text starts with the nonce, so that a server that lives since long has none of it in a cache.
//   small N         English text and a question: usual tokens
//   small N, edit E the same with one word of the text exchanged
//   large N         a mix of rare scripts, symbols and digits, and the same question: unusual tokens
//   joint N         the text of small N, then the unusual mix: shares its prefix with small N
//   behind N        the unusual mix of large N, then another question: shares its prefix with large N
Prompt small_prompt(const std::string& nonce, int n, int edit = 0);
Prompt large_prompt(const LiveOptions& options, const std::string& nonce, int n);
Prompt joint_prompt(const std::string& nonce, int n);
Prompt behind_prompt(const LiveOptions& options, const std::string& nonce, int n);

// How many completions the whole sequence has, when nothing ends it early.
int sequence_length(const LiveOptions& options, bool fresh);

// The whole sequence; ends early when the budget is spent, the server refuses the key, or two requests in a
// row time out or find nobody. `seen` is called after each request.
std::vector<Exchange> run_sequence(Client& client, const LiveOptions& options, const std::string& nonce,
                                   const std::function<void(const Exchange&)>& seen);

}  // namespace assay::live
