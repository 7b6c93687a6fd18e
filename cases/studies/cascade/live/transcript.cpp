#include "cases/studies/cascade/live/transcript.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "reference/error.hpp"

namespace assay::live {
namespace {

using Json = nlohmann::ordered_json;

double number_or_nan(const Json& j) {
  return j.is_number() ? j.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

Json exchange_json(const Exchange& e) {
  Json j = {{"number", e.number},
            {"phase", e.phase},
            {"prompt", e.prompt},
            {"mode", to_string(e.mode)},
            {"seconds", e.reply.seconds}};
  if (e.sent.ids.empty())
    j["sent"] = e.sent.text;
  else
    j["sent"] = e.sent.ids;
  if (e.reply.failure != FailureKind::none) {
    j["failure"] = to_string(e.reply.failure);
    j["detail"] = e.reply.detail;
  }
  if (e.reply.status != 0) j["status"] = e.reply.status;
  if (!e.reply.answer) return j;
  const Answer& a = *e.reply.answer;
  j["text"] = a.text;
  j["finish"] = a.finish;
  if (a.cached_tokens >= 0) j["cached_tokens"] = a.cached_tokens;
  Json steps = Json::array();
  for (const auto& s : a.steps) {
    Json top = Json::array();
    for (const auto& [token, p] : s.top) top.push_back({token, p});  // NaN becomes null
    steps.push_back({{"token", s.token}, {"logprob", s.logprob}, {"top", top}});
    if (s.after_withheld) steps.back()["after_withheld"] = true;
  }
  j["steps"] = steps;
  return j;
}

Json report_json(const LiveOptions& o, const Transcript& t, const std::vector<Verdict>& verdicts,
                 int requests, const std::vector<std::string>& notes) {
  Json j = {{"schema", "assay-cascade-live"},
            {"version", 1},
            {"endpoint", o.endpoint},
            {"order", o.order},
            {"nonce", o.nonce},
            {"seed", o.seed},
            {"tokens", o.tokens},
            {"requests", requests},
            {"notes", notes}};
  j["server"] = {{"dialect", t.server.dialect},       {"model", t.server.model},
                 {"models", t.server.models},         {"health", t.server.health},
                 {"vocabulary", t.server.vocabulary}, {"fresh", t.server.fresh},
                 {"logprobs", t.server.logprobs}};
  j["verdicts"] = Json::array();
  for (const auto& v : verdicts)
    j["verdicts"].push_back({{"detector", v.detector},
                             {"outcome", to_string(v.outcome)},
                             {"summary", v.summary},
                             {"limit", v.limit},
                             {"evidence", v.evidence}});
  j["exchanges"] = Json::array();
  for (const auto& e : t.exchanges) j["exchanges"].push_back(exchange_json(e));
  return j;
}

EarlierRun read_report(const std::string& path, const char* option) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(InputErrorKind::bad_value, fmt::format("{} '{}': {}", option, path, why));
  };
  std::ifstream file(path);
  if (!file) refuse("cannot be read");
  EarlierRun run;
  try {
    const Json j = Json::parse(file);
    if (j.value("schema", "") != "assay-cascade-live" || j.value("version", 0) != 1)
      refuse("no report of schema assay-cascade-live version 1");
    run.nonce = j.at("nonce");
    run.order = j.at("order");
    for (const auto& x : j.at("exchanges")) {
      Exchange e;
      e.number = x.at("number");
      e.phase = x.at("phase");
      e.prompt = x.at("prompt");
      const std::string mode = x.at("mode");
      e.mode = mode == "cold" ? Mode::cold : mode == "warm" ? Mode::warm : Mode::fresh;
      if (x.contains("text")) {
        Answer a;
        a.text = x.at("text");
        for (const auto& s : x.at("steps")) {
          Step step{s.at("token"), number_or_nan(s.at("logprob")), {}};
          for (const auto& top : s.at("top")) step.top.emplace_back(top.at(0), number_or_nan(top.at(1)));
          step.after_withheld = s.value("after_withheld", false);
          a.steps.push_back(std::move(step));
        }
        e.reply.answer = std::move(a);
      }
      run.exchanges.push_back(std::move(e));
    }
  } catch (const nlohmann::json::exception& e) {
    refuse(e.what());
  }
  return run;
}

}  // namespace assay::live
