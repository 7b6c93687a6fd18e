// One server that completes prompts: OpenAI-compatible or llama.cpp-style.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases/studies/cascade/live/live.hpp"

namespace assay::live {

// One generated token. Log-probabilities are natural logarithms; `logprob` is NaN where the server sent null,
// NaN or no number.
struct Step {
  std::string token;
  double logprob = 0;
  std::vector<std::pair<std::string, double>> top;  // most probable first where the server orders them
  // llama.cpp sends no row for a token that ends within a character: the next row's text holds it as well.
  bool after_withheld = false;
};

struct Answer {
  std::string text;
  std::vector<Step> steps;  // empty where the server gives no log-probabilities
  std::string finish;       // "length", "stop", as the server says; "" unknown
  long cached_tokens = -1;  // of the prompt, as the server says; -1 unknown
};

enum class FailureKind {
  none,
  unreachable,
  timeout,
  disconnect,
  http_error,
  malformed,
  unauthorized,
  budget
};
std::string to_string(FailureKind kind);

struct Reply {
  std::optional<Answer> answer;
  FailureKind failure = FailureKind::none;
  int status = 0;
  std::string detail;             // what was received, shortened
  bool without_logprobs = false;  // HTTP 500 with log-probabilities, an answer without
  bool bare_nan = false;          // the body held NaN or Infinity, which is not JSON
  double seconds = 0;
};

struct Prompt {
  std::string text;
  std::vector<long> ids;  // sent instead of the text when not empty
};

struct ServerInfo {
  std::string dialect;  // llama, openai, chat
  std::string model;
  std::vector<std::string> models;
  std::string health;     // as /health says; "" where there is none
  long vocabulary = 0;    // 0: unknown
  bool fresh = false;     // an answer without the prefix cache can be asked for
  bool logprobs = false;  // seen in an answer
};

// The server cannot be used at all: exit code 125.
class Unusable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Client {
 public:
  explicit Client(const LiveOptions& options);
  ~Client();
  // Which dialect, which models. Sends GET only: no completion may come before the first one of the sequence.
  // Throws Unusable.
  void detect();
  // Greedy: temperature 0, fixed seed. `fresh`: without the prefix cache (cache_prompt=false, or a cache_salt
  // of its own). A field that the server refuses with 400 or 422 is left out from then on.
  Reply complete(const Prompt& prompt, bool fresh);
  const ServerInfo& server() const { return server_; }
  int requests() const;  // sent so far, of every kind
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Http;
  LiveOptions options_;
  std::unique_ptr<Http> http_;
  ServerInfo server_;
  bool send_logprobs_ = true, send_salt_ = true, send_seed_ = true;
  int salts_ = 0;
  std::vector<std::string> notes_;
  Reply once(const Prompt& prompt, bool fresh, bool logprobs);
  std::string body_of(const Prompt& prompt, bool fresh, bool logprobs);
};

// Exposed for tests.
// The answer in the body of a completion; throws std::exception where it is none. Sets `bare_nan`.
Answer read_answer(const std::string& body, bool& bare_nan);
// Scheme, host and port, and the path before the endpoints. Throws InputError.
std::pair<std::string, std::string> split_endpoint(const std::string& endpoint);

}  // namespace assay::live
