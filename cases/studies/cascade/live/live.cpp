#include "cases/studies/cascade/live/live.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "cases/studies/cascade/live/transcript.hpp"
#include "reference/error.hpp"
#include "reports/file.hpp"

namespace assay {
namespace {

enum : int { kClean = 0, kFound = 1, kNothing = 3, kNoEndpoint = 125 };

void check(const LiveOptions& o) {
  const auto one_of = [](const char* option, const std::string& value,
                         std::initializer_list<const char*> allowed) {
    std::string list;
    for (const char* a : allowed) {
      if (value == a) return;
      list += (list.empty() ? "" : ", ") + std::string(a);
    }
    throw InputError(InputErrorKind::bad_value, fmt::format("{} '{}': allowed: {}", option, value, list));
  };
  one_of("--dialect", o.dialect, {"auto", "llama", "openai", "chat"});
  one_of("--order", o.order, {"small_first", "large_first", "dummy_first"});
  const auto range = [](const char* option, double value, double low, double high) {
    if (!(value >= low && value <= high))
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{} {}: allowed: {}..{}", option, value, low, high));
  };
  range("--tokens", o.tokens, 8, 1024);
  range("--max-requests", o.max_requests, 1, 10000);
  range("--retries", o.retries, 0, 10);
  range("--timeout", o.timeout_seconds, 0.01, 3600);
  range("--wait", o.wait_seconds, 0, 86400);
  if (!o.large_ids.empty() && o.large_ids.size() < 4)
    throw InputError(InputErrorKind::bad_value, "--large-ids: at least 4 token ids");
}

void print(const LiveOptions& o, const live::Transcript& t, const std::vector<live::Verdict>& verdicts,
           int requests, const std::vector<std::string>& notes) {
  constexpr std::size_t kShown = 4;
  const auto& s = t.server;
  if (!o.quiet) {
    fmt::print("{}: {} dialect, model '{}', {}log-probabilities, {}\n", o.endpoint, s.dialect, s.model,
               s.logprobs ? "" : "no ",
               s.fresh ? "answers without the prefix cache asked for" : "no way around the prefix cache");
    fmt::print("order {}, nonce {}, seed {}, {} tokens a request, {} requests\n", o.order, o.nonce, o.seed,
               o.tokens, requests);
    for (const auto& n : notes) fmt::print("note: {}\n", n);
    fmt::print("\n");
  }
  for (const auto& v : verdicts) {
    const bool finding = v.outcome == live::Outcome::finding;
    if (o.quiet && !finding) continue;
    fmt::print("{:<8} {:<19} {}\n", to_string(v.outcome), v.detector, v.summary);
    if (!finding) continue;
    fmt::print("           limit  {}\n", v.limit);
    for (std::size_t i = 0; i < std::min(kShown, v.evidence.size()); ++i)
      fmt::print("           {}\n", v.evidence[i]);
    if (v.evidence.size() > kShown)
      fmt::print("           and {} more{}\n", v.evidence.size() - kShown,
                 o.json.empty() ? " (--json has all)" : "");
  }
}

}  // namespace

int run_live_cascade(const LiveOptions& given) {
  LiveOptions o = given;
  check(o);
  live::Transcript t;
  if (!o.against.empty()) {
    auto earlier = live::read_report(o.against);
    if (!o.nonce.empty() && o.nonce != earlier.nonce)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("--nonce {}: the run of --against had {}", o.nonce, earlier.nonce));
    o.nonce = earlier.nonce;
    t.earlier = std::move(earlier.exchanges);
    t.earlier_order = earlier.order;
  }
  if (!o.baseline.empty()) {
    auto other = live::read_report(o.baseline, "--baseline");
    if (!o.nonce.empty() && o.nonce != other.nonce)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("--nonce {}: the run of --baseline had {}", o.nonce, other.nonce));
    o.nonce = other.nonce;
    t.baseline = std::move(other.exchanges);
  }
  if (o.nonce.empty()) o.nonce = fmt::format("{:08x}", std::random_device{}());
  std::unique_ptr<ReportFile> file;
  if (!o.json.empty()) file = std::make_unique<ReportFile>(o.json);  // refused now rather than after the run

  live::Client client(o);
  try {
    client.detect();
  } catch (const live::Unusable& e) {
    fmt::print(stderr, "assay: {}\n", e.what());
    return kNoEndpoint;
  }
  // What has come is on the disk, however the run ends.
  std::ofstream stream;
  if (!o.json.empty()) {
    stream.open(o.json + ".jsonl", std::ios::app);
    stream << nlohmann::ordered_json{{"schema", "assay-cascade-live"},
                                     {"endpoint", o.endpoint},
                                     {"order", o.order},
                                     {"nonce", o.nonce},
                                     {"seed", o.seed},
                                     {"tokens", o.tokens}}
                  .dump()
           << std::endl;
  }
  t.exchanges = live::run_sequence(client, o, o.nonce, [&](const live::Exchange& e) {
    if (stream.is_open())
      stream << exchange_json(e).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    if (!o.quiet && e.number == 1)
      fmt::print(stderr, "{} completions of {} tokens; the first took {:.1f} s, all about {:.0f} s\n",
                 live::sequence_length(o, client.server().fresh), o.tokens, e.reply.seconds,
                 e.reply.seconds * live::sequence_length(o, client.server().fresh));
    if (!o.quiet)
      fmt::print(stderr, "\r{} requests, {} {} {}        ", client.requests(), e.phase, e.prompt,
                 to_string(e.mode));
  });
  if (!o.quiet) fmt::print(stderr, "\n");
  t.server = client.server();

  const bool refused = std::any_of(t.exchanges.begin(), t.exchanges.end(), [](const live::Exchange& e) {
    return e.reply.failure == live::FailureKind::unauthorized;
  });
  if (refused) {
    fmt::print(stderr, "assay: {} refuses the request: {}\n", o.endpoint, t.exchanges.back().reply.detail);
    return kNoEndpoint;
  }
  auto notes = client.notes();
  if (client.requests() >= o.max_requests)
    notes.push_back(
        fmt::format("the limit of {} requests cut the sequence short: raise --max-requests", o.max_requests));
  const auto verdicts = live::judge(t);
  const auto count = [&](live::Outcome outcome) {
    return std::count_if(verdicts.begin(), verdicts.end(),
                         [&](const live::Verdict& v) { return v.outcome == outcome; });
  };
  print(o, t, verdicts, client.requests(), notes);
  if (file) {
    file->stream() << report_json(o, t, verdicts, client.requests(), notes)
                          .dump(1, ' ', false, nlohmann::json::error_handler_t::replace)
                   << "\n";
    file->finish();
  }
  if (t.exchanges.empty()) {
    fmt::print(stderr,
               "assay: nothing was executed: {} requests are the limit and no completion was among them\n",
               o.max_requests);
    return kNothing;
  }
  const auto findings = count(live::Outcome::finding);
  fmt::print("{} findings, {} detectors clean, {} not run\n", findings, count(live::Outcome::clean),
             count(live::Outcome::not_run));
  return findings > 0 ? kFound : kClean;
}

}  // namespace assay
