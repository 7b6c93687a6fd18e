#include "cases/studies/cascade/live/stub_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

namespace assay::live {
namespace {

using Json = nlohmann::json;

std::vector<int> bytes_of(const Json& prompt) {
  std::vector<int> out;
  if (prompt.is_string())
    for (char c : prompt.get<std::string>()) out.push_back(static_cast<unsigned char>(c));
  else
    for (const auto& id : prompt) out.push_back(id.get<int>() & 0xFF);
  return out;
}

std::string text_of(const StubAnswer& a) {
  std::string s;
  for (const auto& step : a.steps) s += step.token;
  return s;
}

// {token, logprob, top_logprobs}: llama.cpp and chat completions.
Json rows_of(const StubAnswer& a) {
  Json rows = Json::array();
  for (const auto& s : a.steps) {
    Json top = Json::array();
    for (const auto& [token, p] : s.top) top.push_back({{"token", token}, {"logprob", p}});
    rows.push_back({{"token", s.token}, {"logprob", s.logprob}, {"top_logprobs", top}});
  }
  return rows;
}

Json columns_of(const StubAnswer& a) {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array();
  for (const auto& s : a.steps) {
    tokens.push_back(s.token);
    values.push_back(s.logprob);
    Json top = Json::object();
    for (const auto& [token, p] : s.top) top[token] = p;
    tops.push_back(top);
  }
  return {{"tokens", tokens}, {"token_logprobs", values}, {"top_logprobs", tops}};
}

bool has_nan(const StubAnswer& a) {
  for (const auto& s : a.steps)
    if (std::isnan(s.logprob)) return true;
  return false;
}

void refuse(httplib::Response& response, int status, const std::string& message) {
  response.status = status;
  response.set_content(Json{{"error", {{"message", message}, {"code", status}}}}.dump(), "application/json");
}

}  // namespace

struct StubServer::Running {
  StubOptions options;
  httplib::Server server;
  StubModel model;
  mutable std::mutex mutex;
  std::vector<std::string> bodies;
  std::atomic<bool> stopping = false;
  std::atomic<int> asked_health = 0;
  int port = 0;
  std::thread thread;

  explicit Running(const StubOptions& o) : options(o), model(o.seed) {}

  enum class Dialect { llama, openai, chat };

  void complete(const httplib::Request& request, httplib::Response& response, Dialect dialect) {
    const std::lock_guard lock(mutex);
    bodies.push_back(request.body);
    const Json j = Json::parse(request.body, nullptr, false);
    if (j.is_discarded()) return refuse(response, 400, "no JSON");
    if (j.contains("cache_salt") && !options.salt) return refuse(response, 400, "unknown field cache_salt");
    const bool struck = static_cast<int>(bodies.size()) >= options.from;
    if (struck && options.fault == Fault::http_500) return refuse(response, 500, "internal error");
    if (struck && options.fault == Fault::hang)
      while (!stopping) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const bool cached = j.value("cache_prompt", true);
    const int tokens = j.value(dialect == Dialect::llama ? "n_predict" : "max_tokens", 16);
    const Json prompt = dialect == Dialect::chat ? j.at("messages").at(0).at("content") : j.at("prompt");
    const StubAnswer a =
        model.complete(bytes_of(prompt), tokens, cached, j.value("cache_salt", ""), options.fault);
    const bool wanted = options.logprobs && (dialect == Dialect::llama    ? j.value("n_probs", 0) > 0
                                             : dialect == Dialect::openai ? j.contains("logprobs")
                                                                          : j.value("logprobs", false));
    if (wanted && options.nan_is_500 && has_nan(a))
      return refuse(response, 500, "Out of range float values are not JSON compliant");
    std::string body =
        (dialect == Dialect::llama ? llama_body(a, wanted) : openai_body(a, wanted, dialect)).dump();
    if (options.bare_nan)
      for (std::size_t at; (at = body.find("null")) != std::string::npos;) body.replace(at, 4, "NaN");
    if (struck) return send(response, body);
    response.set_content(body, "application/json");
  }

  static Json llama_body(const StubAnswer& a, bool logprobs) {
    Json j = {{"content", text_of(a)},
              {"stop", true},
              {"stop_type", "limit"},
              {"timings", {{"cache_n", a.cached_tokens}}}};
    if (logprobs) j["completion_probabilities"] = rows_of(a);
    return j;
  }

  static Json openai_body(const StubAnswer& a, bool logprobs, Dialect dialect) {
    Json choice = {{"index", 0}, {"finish_reason", "length"}};
    if (dialect == Dialect::chat) {
      choice["message"] = {{"role", "assistant"}, {"content", text_of(a)}};
      if (logprobs) choice["logprobs"] = {{"content", rows_of(a)}};
    } else {
      choice["text"] = text_of(a);
      if (logprobs) choice["logprobs"] = columns_of(a);
    }
    return {{"object", "text_completion"},
            {"model", "stub"},
            {"choices", Json::array({choice})},
            {"usage", {{"prompt_tokens_details", {{"cached_tokens", a.cached_tokens}}}}}};
  }

  // The body as the fault has it.
  void send(httplib::Response& response, const std::string& body) {
    const char* type = "application/json";
    switch (options.fault) {
      case Fault::malformed:
        return response.set_content(body.substr(0, body.size() / 2), type);
      case Fault::disconnect:
        return response.set_content_provider(
            body.size(), type, [body](std::size_t offset, std::size_t, httplib::DataSink& sink) {
              if (offset > 0) return false;
              return sink.write(body.data(), body.size() / 2);
            });
      case Fault::slow:
        return response.set_content_provider(
            body.size(), type, [this, body](std::size_t offset, std::size_t, httplib::DataSink& sink) {
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              return !stopping && sink.write(body.data() + offset, 1);
            });
      default:
        return response.set_content(body, type);
    }
  }

  void routes() {
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (options.api_key.empty() || request.path == "/health" ||
          request.get_header_value("Authorization") == "Bearer " + options.api_key)
        return httplib::Server::HandlerResponse::Unhandled;
      refuse(response, 401, "invalid API key");
      return httplib::Server::HandlerResponse::Handled;
    });
    server.Get("/health", [this](const httplib::Request&, httplib::Response& r) {
      if (asked_health++ < options.loading) return refuse(r, 503, "Loading model");
      r.set_content(R"({"status":"ok"})", "application/json");
    });
    server.Get("/v1/models", [](const httplib::Request&, httplib::Response& r) {
      r.set_content(
          Json{{"object", "list"}, {"data", {{{"id", "stub"}, {"meta", {{"n_vocab", StubModel::kOutputs}}}}}}}
              .dump(),
          "application/json");
    });
    if (options.llama) {
      server.Get("/props", [](const httplib::Request&, httplib::Response& r) {
        r.set_content(R"({"total_slots":1,"default_generation_settings":{}})", "application/json");
      });
      server.Post("/completion", [this](const httplib::Request& q, httplib::Response& r) {
        complete(q, r, Dialect::llama);
      });
    }
    if (options.completions)
      server.Post("/v1/completions", [this](const httplib::Request& q, httplib::Response& r) {
        complete(q, r, Dialect::openai);
      });
    server.Post("/v1/chat/completions",
                [this](const httplib::Request& q, httplib::Response& r) { complete(q, r, Dialect::chat); });
  }
};

StubServer::StubServer(const StubOptions& options) : running_(std::make_unique<Running>(options)) {
  running_->routes();
  running_->port = running_->server.bind_to_any_port("127.0.0.1");
  if (running_->port <= 0) throw std::runtime_error("no free port on 127.0.0.1");
  running_->thread = std::thread([r = running_.get()] { r->server.listen_after_bind(); });
  while (!running_->server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

StubServer::~StubServer() {
  running_->stopping = true;
  running_->server.stop();
  running_->thread.join();
}

int StubServer::port() const { return running_->port; }
std::string StubServer::endpoint() const { return fmt::format("http://127.0.0.1:{}", port()); }
int StubServer::completions() const {
  const std::lock_guard lock(running_->mutex);
  return static_cast<int>(running_->bodies.size());
}
std::vector<std::string> StubServer::bodies() const {
  const std::lock_guard lock(running_->mutex);
  return running_->bodies;
}

}  // namespace assay::live
