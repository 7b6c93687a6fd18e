// assay cascade --endpoint: the "!!!!" cascade looked for in a running server, over HTTP.
#pragma once

#include <string>
#include <vector>

namespace assay {

struct LiveOptions {
  std::string endpoint;               // http://host:port[/base]; https where the library has it
  std::string dialect = "auto";       // auto, llama (/completion), openai (/v1/completions), chat
  std::string model;                  // empty: the first that the server lists
  std::string order = "small_first";  // small_first, large_first, dummy_first: what a fresh server sees first
  std::string nonce;            // heads every prompt, so that no cache knows it; empty: drawn and printed
  std::string against;          // JSON report of an earlier run, on a server that was restarted since
  std::string baseline;         // JSON report of a server of the same model with another KV type
  std::string json;             // write the report here; each exchange is added to PATH.jsonl as it ends
  std::vector<long> large_ids;  // token ids for the large-range prompts, where the server takes ids
  int seed = 1;                 // sent with every request
  int tokens = 32;              // generated per request
  int max_requests = 160;       // retries and refusals count
  int retries = 2;              // after a refused connection and after HTTP 429, 502, 503, 504
  double timeout_seconds = 60;  // for one request, all of it
  double connect_seconds = 5;
  double wait_seconds = 120;  // for a server whose /health answers 503
  bool quiet = false;         // findings and the last line only
};

// Runs the sequence, prints the report, writes the JSON. Returns 0 clean, 1 a finding, 3 nothing was
// executed, 125 the endpoint cannot be used (unreachable, refuses the key, speaks neither dialect). Throws
// InputError for options that make no sense. The API key comes from ASSAY_API_KEY and is never printed.
int run_live_cascade(const LiveOptions& options);

}  // namespace assay
