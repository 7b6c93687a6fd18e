// For tests: a live run against a stub server, and what it printed, reported and stored.
#pragma once

#include "cases/studies/cascade/live/live.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cases/studies/cascade/live/compare.hpp"
#include "cases/studies/cascade/live/detectors.hpp"
#include "cases/studies/cascade/live/stub_server.hpp"
#include "reference/error.hpp"

namespace assay::live {

struct Ran {
  int code = -1;
  std::set<std::string> findings;
  std::set<std::string> not_run;
  nlohmann::json report;
  std::vector<nlohmann::json> streamed;  // the file that is written while exchanges come
  std::string console;
};

inline LiveOptions quick() {
  LiveOptions o;
  o.nonce = "0badcafe";
  o.timeout_seconds = 5;
  o.quiet = true;
  return o;
}

inline std::string report_path(const std::string& name) {
  return testing::TempDir() + "assay_live_" + std::to_string(getpid()) + "_" + name + ".json";
}

inline Ran run_at(const std::string& endpoint, LiveOptions o, const std::string& keep = "") {
  Ran r;
  o.endpoint = endpoint;
  o.json = report_path(keep.empty() ? "run" : keep);
  testing::internal::CaptureStdout();
  try {
    r.code = run_live_cascade(o);
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  r.console = testing::internal::GetCapturedStdout();
  std::ifstream file(o.json);
  if (file) {
    r.report = nlohmann::json::parse(file);
    for (const auto& v : r.report["verdicts"]) {
      if (v["outcome"] == "FINDING") r.findings.insert(v["detector"]);
      if (v["outcome"] == "not run") r.not_run.insert(v["detector"]);
    }
  }
  if (keep.empty()) std::remove(o.json.c_str());
  std::ifstream stream(o.json + ".jsonl");
  for (std::string line; std::getline(stream, line);) r.streamed.push_back(nlohmann::json::parse(line));
  std::remove((o.json + ".jsonl").c_str());
  return r;
}

inline Ran run(const StubOptions& stub, LiveOptions o = quick()) {
  const StubServer server(stub);
  return run_at(server.endpoint(), std::move(o));
}

inline StubOptions with(Fault fault, std::uint64_t seed = 1) {
  StubOptions s;
  s.seed = seed;
  s.fault = fault;
  return s;
}

enum class Speaks { llama, openai, chat };
inline StubOptions speaking(Speaks what, StubOptions s) {
  s.llama = what == Speaks::llama;
  s.completions = what != Speaks::chat;
  return s;
}
inline constexpr Speaks kSpeaks[] = {Speaks::llama, Speaks::openai, Speaks::chat};

using Names = std::set<std::string>;

}  // namespace assay::live
