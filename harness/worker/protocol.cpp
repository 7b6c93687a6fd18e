#include "harness/worker/protocol.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace assay {
namespace {

using Json = nlohmann::json;

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string line_of(std::int64_t id, Json json) {
  json["id"] = id;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

Json json_of(const TensorMessage& tensor) {
  Json json{
      {"name", tensor.name}, {"format", tensor.format}, {"shape", tensor.shape}, {"stride", tensor.stride}};
  if (tensor.offset >= 0) json["offset"] = tensor.offset;
  return json;
}

Json json_of(const std::vector<TensorMessage>& tensors) {
  Json json = Json::array();
  for (const TensorMessage& tensor : tensors) json.push_back(json_of(tensor));
  return json;
}

Json json_of(const CallMessage& call) {
  return {{"op", call.op},
          {"variant", call.variant},
          {"attributes", call.attributes},
          {"inputs", json_of(call.inputs)},
          {"outputs", json_of(call.outputs)}};
}

Json json_of(const std::vector<SlotMessage>& slots) {
  Json json = Json::array();
  for (const SlotMessage& slot : slots) json.push_back({slot.offset, slot.bytes, slot.writable ? "w" : "r"});
  return json;
}

Json json_of(const Witness& witness) {
  Json kernels = Json::array();
  for (const SeenKernel& seen : witness.kernels) {
    kernels.push_back({{"name", seen.name},
                       {"grid", seen.grid},
                       {"block", seen.block},
                       {"ns", seen.ns},
                       {"stream", seen.stream}});
  }
  Json json{{"by", witness.by},
            {"kernels", std::move(kernels)},
            {"allocated_bytes", witness.allocated_bytes},
            {"peak_bytes", witness.peak_bytes}};
  if (!witness.error.empty()) json["error"] = witness.error;
  if (witness.host) json["host"] = true;
  if (!witness.unwatched.empty()) json["unwatched"] = witness.unwatched;
  return json;
}

Json json_of(const Trace& trace) {
  Json json{{"type", "done"}, {"kernels", trace.kernels}, {"notes", trace.notes}, {"wall_ns", trace.wall_ns}};
  if (trace.witness) json["witness"] = json_of(*trace.witness);
  return json;
}

}  // namespace

std::string to_line(std::int64_t id, const Request& message) {
  return line_of(
      id, std::visit(Overloaded{
                         [](const request::Hello& m) {
                           return Json{{"type", "hello"}, {"protocol", m.protocol}, {"version", m.version}};
                         },
                         [](const request::Open& m) {
                           return Json{{"type", "open"}, {"plugin", m.plugin}, {"options", m.options}};
                         },
                         [](const request::Declare& m) {
                           return Json{{"type", "declare"}, {"call", json_of(m.call)}};
                         },
                         [](const request::Run& m) {
                           return Json{{"type", "run"},
                                       {"call", json_of(m.call)},
                                       {"memory_bytes", m.memory_bytes},
                                       {"slots", json_of(m.slots)},
                                       {"stack", m.stack}};
                         },
                         [](const request::Ping&) { return Json{{"type", "ping"}}; },
                         [](const request::Bye&) { return Json{{"type", "bye"}}; },
                     },
                     message));
}

std::string to_line(std::int64_t id, const Reply& message) {
  return line_of(
      id,
      std::visit(
          Overloaded{
              [](const reply::Hello& m) {
                return Json{{"type", "hello"},
                            {"protocol", m.protocol},
                            {"version", m.version},
                            {"guards", m.guards}};
              },
              [](const reply::Opened& m) {
                Json opened{{"type", "opened"},
                            {"name", m.name},
                            {"description", m.description},
                            {"variants", m.variants}};
                if (!m.ops.empty()) opened["ops"] = m.ops;
                return opened;
              },
              [](const reply::Refused& m) {
                Json refused{{"type", "refused"}, {"reason", m.reason}};
                if (m.mistake) refused["mistake"] = true;
                return refused;
              },
              [](const reply::Declared& m) {
                Json json{{"type", "declared"},
                          {"contract", m.contract},
                          {"path", m.path},
                          {"promises", m.promises}};
                if (m.alignment != 1) json["alignment"] = m.alignment;
                return json;
              },
              [](const reply::Unsupported& m) { return Json{{"type", "unsupported"}, {"reason", m.reason}}; },
              [](const reply::Failed& m) {
                Json json{{"type", "failed"}, {"reason", m.reason}};
                if (!m.finding.empty()) json["finding"] = m.finding;
                return json;
              },
              [](const reply::Done& m) { return json_of(m.trace); },
              [](const reply::HostLimit& m) { return Json{{"type", "host_limit"}, {"reason", m.reason}}; },
              [](const reply::Pong&) { return Json{{"type", "pong"}}; },
              [](const reply::Crash& m) {
                return Json{{"type", "crash"},
                            {"signal", m.signal},
                            {"address", m.address},
                            {"offset", m.offset},
                            {"access", m.access}};
              },
          },
          message));
}

std::string witness_text(const Witness& witness) {
  return json_of(witness).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace assay
