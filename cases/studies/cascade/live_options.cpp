// assay cascade --endpoint: the options of the live run.
#include "cases/studies/cascade/live_options.hpp"

#include "cases/studies/cascade/live/live.hpp"

namespace assay {

void add_live_options(CLI::App& command, LiveOptions& o) {
  const auto live = [&](auto* option) { option->group("Live server (with --endpoint)"); };
  live(command.add_option(
      "--endpoint", o.endpoint,
      "http://HOST:PORT of an OpenAI-compatible or llama.cpp-style server; a key comes from "
      "ASSAY_API_KEY"));
  live(command.add_option("--dialect", o.dialect, "auto, llama, openai or chat"));
  live(command.add_option("--model", o.model, "Default: the first that the server lists"));
  live(command.add_option("--order", o.order,
                          "What a fresh server sees first: small_first, large_first or dummy_first"));
  live(command.add_option("--against", o.against,
                          "JSON report of a run with another --order, before the server was restarted"));
  live(command.add_option(
      "--baseline", o.baseline,
      "JSON report of the same model with another KV type: how far apart the answers are"));
  live(command.add_option("--wait", o.wait_seconds, "Seconds for a server that is still loading (503)"));
  live(command.add_option("--nonce", o.nonce, "Heads every prompt; default: drawn and printed"));
  live(command.add_option("--large-ids", o.large_ids, "Token ids for the large-range prompts")
           ->delimiter(','));
  live(command.add_option("--tokens", o.tokens, "Generated per request"));
  live(command.add_option("--max-requests", o.max_requests, "Of every kind, retries included"));
  live(command.add_option("--retries", o.retries, "Of a request that a busy server refused"));
  live(command.add_option("--timeout", o.timeout_seconds, "Seconds for one request"));
  live(command.add_flag("--quiet,-q", o.quiet, "Findings and the last line only"));
}

}  // namespace assay
