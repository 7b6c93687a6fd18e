// The body of a completion, in every shape that the two families of servers give it.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cases/studies/cascade/live/client.hpp"

namespace assay::live {
namespace {

using Json = nlohmann::json;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Python's json writes NaN, Infinity and -Infinity, which are not JSON: outside of strings they become null.
std::string without_bare_nan(const std::string& body, bool& found) {
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (quoted && c == '\\' && i + 1 < body.size()) {
      out += c;
      out += body[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted) {
      bool replaced = false;
      for (const std::string word : {"-Infinity", "Infinity", "NaN"})
        if (body.compare(i, word.size(), word) == 0) {
          out += "null";
          i += word.size() - 1;
          found = replaced = true;
          break;
        }
      if (replaced) continue;
    }
    out += c;
  }
  return out;
}

double number(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : kNaN;
}
std::string text(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// The text of a token; with its id where other tokens may be written alike: partial characters as U+FFFD,
// special tokens as nothing.
std::string token_name(const Json& row, const char* key) {
  std::string name = text(row, key);
  const bool ambiguous = name.empty() || name.find("\xEF\xBF\xBD") != std::string::npos;
  const auto id = row.find("id");
  if (ambiguous && id != row.end() && id->is_number_integer())
    name += "<" + std::to_string(id->get<long>()) + ">";
  return name;
}

// {token, logprob, top_logprobs: [...]}: chat completions, and llama.cpp. {prob, top_probs} after sampling.
Step step_of(const Json& row) {
  Step s{token_name(row, "token"), kNaN, {}};
  const auto value = [](const Json& r) {
    return r.contains("prob") ? std::log(number(r, "prob")) : number(r, "logprob");
  };
  s.logprob = value(row);
  for (const char* key : {"top_logprobs", "top_probs"})
    if (const auto at = row.find(key); at != row.end() && at->is_array())
      for (const auto& t : *at) {
        s.top.emplace_back(token_name(t, "token"), value(t));
        // Listed under the chosen one's id, it is written as it is; chosen, with what was withheld in front
        // of it.
        if (row.contains("id") && t.contains("id") && row["id"] == t["id"])
          s.after_withheld = text(row, "token") != text(t, "token");
      }
  return s;
}

// llama.cpp of 2023 and 2024: {content, probs: [{tok_str, prob}]}; the chosen token is the one named content.
Step old_step_of(const Json& row) {
  Step s{text(row, "content"), kNaN, {}};
  for (const auto& t : row.at("probs")) {
    const double p = std::log(number(t, "prob"));
    s.top.emplace_back(text(t, "tok_str"), p);
    if (s.top.back().first == s.token) s.logprob = p;
  }
  if (s.top.empty()) s.logprob = 0;
  return s;
}

void read_logprobs(const Json& l, Answer& a) {
  if (const auto content = l.find("content"); content != l.end() && content->is_array()) {
    for (const auto& row : *content) a.steps.push_back(step_of(row));
    return;
  }
  if (!l.contains("token_logprobs")) return;  // {tokens, token_logprobs, top_logprobs: [{token: logprob}]}
  const auto& values = l.at("token_logprobs");
  const auto& tokens = l.at("tokens");
  for (std::size_t i = 0; i < values.size(); ++i) {
    Step s{i < tokens.size() && tokens[i].is_string() ? tokens[i].get<std::string>() : "", kNaN, {}};
    if (values[i].is_number()) s.logprob = values[i].get<double>();
    if (const auto top = l.find("top_logprobs"); top != l.end() && i < top->size() && (*top)[i].is_object())
      for (const auto& [token, value] : (*top)[i].items())
        s.top.emplace_back(token, value.is_number() ? value.get<double>() : kNaN);
    a.steps.push_back(std::move(s));
  }
}

long count(const Json& j, std::initializer_list<const char*> path) {
  const Json* at = &j;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return -1;
    at = &at->at(key);
  }
  return at->is_number_integer() ? at->get<long>() : -1;
}

}  // namespace

Answer read_answer(const std::string& body, bool& bare_nan) {
  const Json j = Json::parse(without_bare_nan(body, bare_nan));
  Answer a;
  if (const auto choices = j.find("choices"); choices != j.end()) {
    const auto& choice = choices->at(0);
    const auto message = choice.find("message");
    if (message != choice.end()) {
      // A server that separates reasoning from the answer generates both; both are judged.
      a.text = text(*message, "reasoning_content") + text(*message, "content");
    } else {
      a.text = choice.at("text").get<std::string>();
    }
    a.finish = text(choice, "finish_reason");
    if (const auto l = choice.find("logprobs"); l != choice.end() && l->is_object()) read_logprobs(*l, a);
    a.cached_tokens = count(j, {"usage", "prompt_tokens_details", "cached_tokens"});
    return a;
  }
  a.text = j.at("content").get<std::string>();
  if (const auto type = text(j, "stop_type"); !type.empty())
    a.finish = type == "limit" ? "length" : type == "none" ? "" : "stop";
  else if (j.value("stopped_limit", false))
    a.finish = "length";
  else if (j.value("stopped_eos", false) || j.value("stopped_word", false))
    a.finish = "stop";
  if (const auto p = j.find("completion_probabilities"); p != j.end() && p->is_array())
    for (const auto& row : *p) a.steps.push_back(row.contains("probs") ? old_step_of(row) : step_of(row));
  a.cached_tokens = count(j, {"timings", "cache_n"});
  if (a.cached_tokens < 0) a.cached_tokens = count(j, {"tokens_cached"});
  return a;
}

}  // namespace assay::live
