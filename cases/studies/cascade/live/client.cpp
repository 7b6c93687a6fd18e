// HTTP with limits: one request has a deadline, a largest body and a bounded number of retries.
#include "cases/studies/cascade/live/client.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "reference/error.hpp"

namespace assay::live {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr std::size_t kLargestBody = 16U << 20;  // 32 tokens with probabilities are some ten KiB

std::string shortened(std::string s) {
  for (char& c : s)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (s.size() > 200) s = s.substr(0, 200) + "...";
  return s;
}

}  // namespace

std::string to_string(FailureKind kind) {
  switch (kind) {
    case FailureKind::none:
      return "none";
    case FailureKind::unreachable:
      return "unreachable";
    case FailureKind::timeout:
      return "timeout";
    case FailureKind::disconnect:
      return "disconnect";
    case FailureKind::http_error:
      return "http_error";
    case FailureKind::malformed:
      return "malformed";
    case FailureKind::unauthorized:
      return "unauthorized";
    case FailureKind::budget:
      return "budget";
  }
  return "?";
}

std::pair<std::string, std::string> split_endpoint(const std::string& endpoint) {
  const auto refuse = [&](const char* why) {
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("--endpoint '{}': {}; allowed: http://HOST:PORT[/BASE] or https://...", endpoint, why));
  };
  const auto scheme = endpoint.find("://");
  if (scheme == std::string::npos ||
      (endpoint.substr(0, scheme) != "http" && endpoint.substr(0, scheme) != "https"))
    refuse("no http:// or https://");
  const auto slash = endpoint.find('/', scheme + 3);
  const std::string origin = endpoint.substr(0, slash);
  const std::string authority = origin.substr(scheme + 3);
  if (authority.empty() || authority.front() == ':') refuse("no host");
  if (authority.find('@') != std::string::npos)
    refuse("a key belongs into ASSAY_API_KEY, not into the address");
  if (const auto colon = authority.rfind(':'); colon != std::string::npos && authority.back() != ']') {
    const std::string port = authority.substr(colon + 1);
    if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(port) > 65535 || std::stoi(port) == 0)
      refuse("no such port");
  }
  std::string base = slash == std::string::npos ? "" : endpoint.substr(slash);
  while (!base.empty() && base.back() == '/') base.pop_back();
  if (base.size() >= 3 && base.ends_with("/v1")) base.resize(base.size() - 3);  // as OpenAI clients write it
  return {origin, base};
}

struct Client::Http {
  httplib::Client client;
  std::string base, key;
  const LiveOptions& options;
  int sent = 0;

  Http(const std::pair<std::string, std::string>& at, const LiveOptions& o)
      : client(at.first), base(at.second), options(o) {
    const auto microseconds = [](double s) { return std::chrono::microseconds(static_cast<long>(1e6 * s)); };
    client.set_connection_timeout(microseconds(o.connect_seconds));
    client.set_read_timeout(microseconds(o.timeout_seconds));
    client.set_write_timeout(microseconds(o.timeout_seconds));
    client.set_keep_alive(false);  // a broken connection belongs to one request
    client.set_follow_location(false);
    if (const char* k = std::getenv("ASSAY_API_KEY")) key = k;
  }

  struct Raw {
    FailureKind failure = FailureKind::none;
    int status = 0;
    std::string body, detail;
    double seconds = 0;
  };

  Raw send_once(const std::string& method, const std::string& path, const std::string& body) {
    Raw raw;
    if (sent >= options.max_requests) {
      raw.failure = FailureKind::budget;
      raw.detail = fmt::format("{} requests are the limit", options.max_requests);
      return raw;
    }
    ++sent;
    httplib::Request request;
    request.method = method;
    request.path = base + path;
    request.set_header("Accept", "application/json");
    if (!key.empty()) request.set_header("Authorization", "Bearer " + key);
    if (!body.empty()) {
      request.body = body;
      request.set_header("Content-Type", "application/json");
    }
    const auto start = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    // The library's limit is for one read; a server that drips bytes would never reach it.
    request.progress = [&](std::uint64_t got, std::uint64_t) {
      return elapsed() < options.timeout_seconds && got <= kLargestBody;
    };
    const auto result = client.send(request);
    raw.seconds = elapsed();
    if (!result) {
      const auto error = result.error();
      raw.detail = httplib::to_string(error);
      raw.failure = raw.seconds >= 0.99 * options.timeout_seconds ? FailureKind::timeout
                    : error == httplib::Error::Connection || error == httplib::Error::ConnectionTimeout ||
                            error == httplib::Error::SSLConnection ||
                            error == httplib::Error::SSLServerVerification
                        ? FailureKind::unreachable
                        : FailureKind::disconnect;
      return raw;
    }
    raw.status = result->status;
    raw.body = result->body;
    if (raw.status == 401 || raw.status == 403)
      raw.failure = FailureKind::unauthorized;
    else if (raw.status < 200 || raw.status > 299)
      raw.failure = FailureKind::http_error;
    if (raw.failure != FailureKind::none)
      raw.detail = fmt::format("HTTP {}: {}", raw.status, shortened(raw.body));
    return raw;
  }

  // What a busy server may do is tried again; what a broken one does is not, or the retry would hide it.
  Raw send(const std::string& method, const std::string& path, const std::string& body = "") {
    Raw raw;
    for (int i = 0;; ++i) {
      raw = send_once(method, path, body);
      const bool busy = raw.failure == FailureKind::unreachable || raw.status == 429 || raw.status == 502 ||
                        raw.status == 503 || raw.status == 504;
      if (!busy || i >= options.retries) return raw;
      std::this_thread::sleep_for(std::chrono::milliseconds(100 << i));
    }
  }
};

Client::Client(const LiveOptions& options)
    : options_(options), http_(std::make_unique<Http>(split_endpoint(options.endpoint), options_)) {}
Client::~Client() = default;
int Client::requests() const { return http_->sent; }

void Client::detect() {
  const auto json_of = [](const Http::Raw& raw) {
    return raw.failure == FailureKind::none ? Json::parse(raw.body, nullptr, false)
                                            : Json(Json::value_t::discarded);
  };
  // 503 is a server that loads its model: it is waited for, and the asking is no request of the sequence.
  auto health = http_->send_once("GET", "/health", "");
  const auto start = Clock::now();
  while (health.status == 503 &&
         Clock::now() - start < std::chrono::duration<double>(options_.wait_seconds)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    --http_->sent;
    health = http_->send_once("GET", "/health", "");
  }
  if (health.status == 503)
    throw Unusable(fmt::format("{} was not ready within {} s (--wait): {}", options_.endpoint,
                               options_.wait_seconds, health.detail));
  if (health.failure == FailureKind::unreachable) {
    --http_->sent;
    health = http_->send("GET", "/health");
  }
  if (health.failure == FailureKind::unreachable || health.failure == FailureKind::timeout)
    throw Unusable(fmt::format("{} cannot be reached: {} ({})", options_.endpoint, to_string(health.failure),
                               health.detail));
  if (health.failure == FailureKind::none) {
    const Json j = json_of(health);
    server_.health = j.is_object() ? j.value("status", "ok") : "ok";
  }
  const auto props = http_->send("GET", "/props");
  const auto models = http_->send("GET", "/v1/models");
  if (props.failure == FailureKind::unauthorized || models.failure == FailureKind::unauthorized)
    throw Unusable(
        fmt::format("{} refuses the request ({}): {}", options_.endpoint,
                    http_->key.empty() ? "set ASSAY_API_KEY" : "the key in ASSAY_API_KEY is not accepted",
                    (models.failure == FailureKind::unauthorized ? models : props).detail));
  const Json p = json_of(props), m = json_of(models);
  const bool llama =
      p.is_object() && (p.contains("default_generation_settings") || p.contains("total_slots"));
  if (m.is_object() && m.contains("data") && m["data"].is_array())
    for (const auto& row : m["data"]) {
      if (!row.is_object() || !row.contains("id") || !row["id"].is_string()) continue;
      server_.models.push_back(row["id"]);
      if (row.contains("meta") && row["meta"].is_object() && row["meta"].contains("n_vocab") &&
          row["meta"]["n_vocab"].is_number_integer())
        server_.vocabulary = row["meta"]["n_vocab"];
    }
  server_.dialect = options_.dialect != "auto" ? options_.dialect
                    : llama                    ? "llama"
                    : !server_.models.empty()  ? "openai"
                                               : "";
  if (server_.dialect.empty())
    throw Unusable(fmt::format(
        "{} speaks neither dialect: GET /props gave {}, GET /v1/models gave {}; --dialect llama|openai|chat "
        "decides "
        "without asking",
        options_.endpoint,
        props.failure == FailureKind::none ? "'" + shortened(props.body) + "'" : props.detail,
        models.failure == FailureKind::none ? "'" + shortened(models.body) + "'" : models.detail));
  server_.model = !options_.model.empty()  ? options_.model
                  : server_.models.empty() ? ""
                                           : server_.models.front();
  server_.fresh = true;  // until the server refuses the field
}

std::string Client::body_of(const Prompt& prompt, bool fresh, bool logprobs) {
  Json j = {{"temperature", 0}, {"stream", false}};
  if (!prompt.ids.empty())
    j["prompt"] = prompt.ids;
  else
    j["prompt"] = prompt.text;
  if (send_seed_) j["seed"] = options_.seed;
  if (server_.dialect == "llama") {
    j["n_predict"] = options_.tokens;
    j["cache_prompt"] = !fresh;
    j["repeat_penalty"] = 1.0;
    if (logprobs) j["n_probs"] = 5;
    return j.dump();
  }
  j["max_tokens"] = options_.tokens;
  if (!server_.model.empty()) j["model"] = server_.model;
  if (fresh && send_salt_) j["cache_salt"] = fmt::format("assay-{}-{}", options_.nonce, salts_++);
  if (server_.dialect == "chat") {
    j["messages"] = Json::array({{{"role", "user"}, {"content", prompt.text}}});
    j.erase("prompt");
    if (logprobs) j["logprobs"] = true, j["top_logprobs"] = 5;
  } else if (logprobs) {
    j["logprobs"] = 5;
  }
  return j.dump();
}

Reply Client::once(const Prompt& prompt, bool fresh, bool logprobs) {
  const std::string path = server_.dialect == "llama"    ? "/completion"
                           : server_.dialect == "openai" ? "/v1/completions"
                                                         : "/v1/chat/completions";
  const auto raw = http_->send("POST", path, body_of(prompt, fresh, logprobs));
  Reply r;
  r.failure = raw.failure;
  r.status = raw.status;
  r.detail = raw.detail;
  r.seconds = raw.seconds;
  if (raw.failure != FailureKind::none) return r;
  try {
    r.answer = read_answer(raw.body, r.bare_nan);
    if (!r.answer->steps.empty()) server_.logprobs = true;
  } catch (const std::exception&) {
    r.failure = FailureKind::malformed;
    r.detail = fmt::format("no completion in '{}'", shortened(raw.body));
  }
  return r;
}

Reply Client::complete(const Prompt& prompt, bool fresh) {
  if (server_.dialect == "chat" && !prompt.ids.empty())
    throw InputError(InputErrorKind::bad_value, "--large-ids: chat completions take text only");
  for (;;) {
    Reply r = once(prompt, fresh, send_logprobs_);
    if (r.status == 404 && server_.dialect == "openai" && options_.dialect == "auto") {
      server_.dialect = "chat";
      notes_.push_back("no /v1/completions: chat completions instead");
      continue;
    }
    if (r.status == 400 || r.status == 422) {  // refused before anything ran: ask for less
      const auto drop = [&](bool& field, bool sent, const char* name) {
        if (!field || !sent) return false;
        field = false;
        notes_.push_back(fmt::format("the server refuses {}: left out", name));
        return true;
      };
      if (drop(send_salt_, fresh && server_.dialect != "llama", "cache_salt")) {
        server_.fresh = false;
        fresh = false;
        continue;
      }
      if (drop(send_logprobs_, true, "log-probabilities") || drop(send_seed_, true, "seed")) continue;
    }
    // A NaN cannot be written as JSON: several servers answer with 500 when asked for log-probabilities of
    // one.
    if (r.status == 500 && send_logprobs_) {
      Reply without = once(prompt, fresh, false);
      if (without.answer) {
        without.without_logprobs = true;
        without.detail = r.detail;
        return without;
      }
      if (without.failure == FailureKind::budget) return without;
    }
    return r;
  }
}

}  // namespace assay::live
