// A server on loopback with switchable faults: llama.cpp-style and OpenAI-compatible, over real HTTP.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cases/studies/cascade/live/stub_model.hpp"

namespace assay::live {

struct StubOptions {
  std::uint64_t seed = 1;
  Fault fault = Fault::none;
  int loading = 0;          // answers 503 of /health before the first 200
  int from = 1;             // the first completion that a fault of transport strikes
  bool llama = true;        // /completion, /props
  bool completions = true;  // /v1/completions; without it only chat
  bool logprobs = true;     // given when asked for
  bool salt = true;         // cache_salt is known; otherwise refused with 400
  bool bare_nan = false;    // NaN in the body as Python writes it, instead of null
  bool nan_is_500 = false;  // or HTTP 500 instead of either
  std::string api_key;      // asked for when not empty
};

class StubServer {
 public:
  explicit StubServer(const StubOptions& options);  // listens on 127.0.0.1, a free port
  ~StubServer();
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;
  int port() const;
  std::string endpoint() const;             // "http://127.0.0.1:PORT"
  int completions() const;                  // asked for so far
  std::vector<std::string> bodies() const;  // of the completions, as they came

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace assay::live
