#include "harness/worker/protocol.hpp"

#include <limits>
#include <nlohmann/json.hpp>

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

// Exactly an integer that `T` can hold: a fraction, 1e300 or 2^63 is not made one by conversion.
template <typename T = std::int64_t>
T integer(const Json& json, T least = std::numeric_limits<T>::min()) {
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<T>(json.get<std::uint64_t>())
                        : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
  if (!fits || json.get<T>() < least)
    throw ProtocolError("no integer, or out of range: " + json.dump().substr(0, 40));
  return json.get<T>();
}

// A text of a reply. Control characters, those of C1 (U+0080 to U+009F) too, become \xNN.
std::string text(const Json& json) {
  const auto& raw = json.get_ref<const std::string&>();
  std::string shown;
  shown.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    auto byte = static_cast<unsigned char>(raw[i]);
    const auto next = i + 1 < raw.size() ? static_cast<unsigned char>(raw[i + 1]) : 0U;
    const bool c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;
    if (byte >= 0x20 && byte != 0x7F && !c1) {
      shown += raw[i];
      continue;
    }
    if (c1) byte = static_cast<unsigned char>(raw[++i]);
    constexpr char kDigits[] = "0123456789abcdef";
    shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return shown;
}

std::vector<std::string> texts(const Json& json) {
  if (!json.is_array()) throw ProtocolError("no list of texts: " + json.dump().substr(0, 40));
  std::vector<std::string> all;
  for (const Json& one : json) all.push_back(text(one));
  return all;
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
  return json;
}

Json json_of(const Trace& trace) {
  Json json{{"type", "done"}, {"kernels", trace.kernels}, {"notes", trace.notes}, {"wall_ns", trace.wall_ns}};
  if (trace.witness) json["witness"] = json_of(*trace.witness);
  return json;
}

Witness witness_of(const Json& json) {
  using Extent = std::array<std::int64_t, 3>;
  Witness witness;
  witness.by = text(json.at("by"));
  for (const Json& one : json.at("kernels")) {
    SeenKernel& seen = witness.kernels.emplace_back();
    seen.name = text(one.at("name"));
    seen.grid = one.value("grid", Extent{});
    seen.block = one.value("block", Extent{});
    seen.ns = one.value("ns", std::int64_t{0});
    seen.stream = one.value("stream", std::int64_t{0});
  }
  witness.allocated_bytes = json.value("allocated_bytes", std::int64_t{0});
  witness.peak_bytes = json.value("peak_bytes", std::int64_t{0});
  witness.error = json.value("error", "");
  return witness;
}

Trace trace_of(const Json& json) {
  Trace trace;
  trace.kernels = texts(json.at("kernels"));
  for (const Json& note : json.at("notes")) {
    const auto pair = texts(note);
    if (pair.size() != 2) throw ProtocolError("a note is [key, value]");
    trace.notes.emplace_back(pair[0], pair[1]);
  }
  trace.wall_ns = integer(json.at("wall_ns"), std::int64_t{0});
  if (json.contains("witness")) trace.witness = witness_of(json.at("witness"));
  return trace;
}

std::vector<TensorMessage> tensors_of(const Json& json) {
  std::vector<TensorMessage> tensors;
  for (const Json& one : json) {
    TensorMessage& tensor = tensors.emplace_back();
    one.at("name").get_to(tensor.name);
    one.at("format").get_to(tensor.format);
    one.at("shape").get_to(tensor.shape);
    one.at("stride").get_to(tensor.stride);
    if (tensor.shape.size() != tensor.stride.size()) throw ProtocolError("shape and stride differ in length");
    tensor.offset = one.value("offset", std::int64_t{-1});
  }
  return tensors;
}

CallMessage call_of(const Json& json) {
  CallMessage call;
  json.at("op").get_to(call.op);
  json.at("variant").get_to(call.variant);
  json.at("attributes").get_to(call.attributes);
  call.inputs = tensors_of(json.at("inputs"));
  call.outputs = tensors_of(json.at("outputs"));
  return call;
}

std::vector<SlotMessage> slots_of(const Json& json) {
  std::vector<SlotMessage> slots;
  for (const Json& one : json) {
    slots.push_back(
        {one.at(0).get<std::int64_t>(), one.at(1).get<std::int64_t>(), one.at(2).get<std::string>() == "w"});
  }
  return slots;
}

// The id and what `read` makes of the rest; every way in which JSON can be ill-formed becomes a ProtocolError that
// shows the line.
std::string shown(const std::string& raw) {
  const std::string valid = Json(raw).dump(-1, ' ', false, Json::error_handler_t::replace);
  return text(Json::parse(valid));
}
template <typename Numbered, typename Read>
Numbered parsed(std::string_view line, Read read) {
  try {
    const Json json = Json::parse(line);
    const std::string type = json.at("type");
    return {integer(json.at("id")), read(json, type)};
  } catch (const Json::exception& error) {
    throw ProtocolError(shown(std::string(error.what()) + " in: " + std::string(line.substr(0, 200))));
  }
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
                return Json{{"type", "opened"},
                            {"name", m.name},
                            {"description", m.description},
                            {"variants", m.variants}};
              },
              [](const reply::Refused& m) { return Json{{"type", "refused"}, {"reason", m.reason}}; },
              [](const reply::Declared& m) {
                return Json{{"type", "declared"},
                            {"contract", m.contract},
                            {"path", m.path},
                            {"promises", m.promises}};
              },
              [](const reply::Unsupported& m) { return Json{{"type", "unsupported"}, {"reason", m.reason}}; },
              [](const reply::Failed& m) { return Json{{"type", "failed"}, {"reason", m.reason}}; },
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

NumberedRequest parse_request(std::string_view line) {
  return parsed<NumberedRequest>(line, [](const Json& json, const std::string& type) -> Request {
    if (type == "hello") return request::Hello{json.at("protocol"), json.at("version")};
    if (type == "open") return request::Open{json.at("plugin"), json.at("options")};
    if (type == "declare") return request::Declare{call_of(json.at("call"))};
    if (type == "run") {
      return request::Run{call_of(json.at("call")), json.at("memory_bytes"), slots_of(json.at("slots")),
                          json.value("stack", kStackAsItIs)};
    }
    if (type == "ping") return request::Ping{};
    if (type == "bye") return request::Bye{};
    throw ProtocolError("unknown request type '" + type + "': hello, open, declare, run, ping or bye");
  });
}

NumberedReply parse_reply(std::string_view line) {
  return parsed<NumberedReply>(line, [](const Json& json, const std::string& type) -> Reply {
    if (type == "hello") {
      return reply::Hello{text(json.at("protocol")), integer<int>(json.at("version")),
                          json.value("guards", false)};
    }
    if (type == "opened")
      return reply::Opened{text(json.at("name")), text(json.at("description")), texts(json.at("variants"))};
    if (type == "refused") return reply::Refused{text(json.at("reason"))};
    if (type == "declared")
      return reply::Declared{text(json.at("contract")), text(json.at("path")), text(json.at("promises"))};
    if (type == "unsupported") return reply::Unsupported{text(json.at("reason"))};
    if (type == "failed") return reply::Failed{text(json.at("reason"))};
    if (type == "done") return reply::Done{trace_of(json)};
    if (type == "host_limit") return reply::HostLimit{text(json.at("reason"))};
    if (type == "pong") return reply::Pong{};
    if (type == "crash") {
      return reply::Crash{integer<int>(json.at("signal")), integer<std::uint64_t>(json.at("address")),
                          integer(json.at("offset"), std::int64_t{-1}), text(json.at("access"))};
    }
    throw ProtocolError("unknown reply type '" + type + "'");
  });
}

std::string witness_text(const Witness& witness) {
  return json_of(witness).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Witness parse_witness(std::string_view text) {
  try {
    return witness_of(Json::parse(text));
  } catch (const Json::exception& error) {
    throw ProtocolError("the witness's report: " + std::string(error.what()) +
                        " in: " + std::string(text.substr(0, 200)));
  }
}

}  // namespace assay
