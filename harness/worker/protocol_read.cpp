#include "harness/worker/protocol.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "harness/worker/bounded.hpp"
#include "harness/worker/printable.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

// An integer as it stands: the library would cut a fraction off, take true for 1, and wrap what does not fit.
template <typename Integer>
Integer integer(const Json& json, Integer least = std::numeric_limits<Integer>::min()) {
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<Integer>(json.get<std::uint64_t>())
                        : json.is_number_integer() && std::in_range<Integer>(json.get<std::int64_t>());
  if (!fits || json.get<Integer>() < least)
    throw ProtocolError("not an integer of the range of its member: " +
                        json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80));
  return json.get<Integer>();
}

template <typename Integer>
Integer integer_or(const Json& json, const char* key, Integer fallback) {
  const auto found = json.find(key);
  return found == json.end() ? fallback : integer<Integer>(*found);
}

// The members of a list; the library would go through an object, and through one text as a list of itself.
const Json& list(const Json& json) {
  if (!json.is_array()) throw ProtocolError(std::string("not a list but ") + json.type_name());
  return json;
}

std::vector<std::int64_t> integers(const Json& json) {
  std::vector<std::int64_t> values;
  for (const Json& one : list(json)) values.push_back(integer<std::int64_t>(one));
  return values;
}

std::array<std::int64_t, 3> extent_of(const Json& json, const char* key) {
  std::array<std::int64_t, 3> extent{};
  const auto found = json.find(key);
  if (found == json.end()) return extent;
  const auto values = integers(*found);
  if (values.size() != extent.size()) throw ProtocolError(std::string(key) + " has not three extents");
  std::copy(values.begin(), values.end(), extent.begin());
  return extent;
}

TextPairs pairs_of(const Json& json) {
  TextPairs pairs;
  for (const Json& one : list(json)) {
    if (list(one).size() != 2) throw ProtocolError("a pair of " + std::to_string(one.size()) + " members");
    pairs.emplace_back(one.at(0).get<std::string>(), one.at(1).get<std::string>());
  }
  return pairs;
}

Witness witness_of(const Json& json) {
  Witness witness;
  json.at("by").get_to(witness.by);
  for (const Json& one : list(json.at("kernels"))) {
    SeenKernel& seen = witness.kernels.emplace_back();
    one.at("name").get_to(seen.name);
    seen.grid = extent_of(one, "grid");
    seen.block = extent_of(one, "block");
    seen.ns = integer_or(one, "ns", std::int64_t{0});
    seen.stream = integer_or(one, "stream", std::int64_t{0});
  }
  witness.allocated_bytes = integer_or(json, "allocated_bytes", std::int64_t{0});
  witness.peak_bytes = integer_or(json, "peak_bytes", std::int64_t{0});
  witness.error = json.value("error", "");
  witness.host = json.value("host", false);
  witness.unwatched = json.value("unwatched", std::vector<std::string>{});
  return witness;
}

Trace trace_of(const Json& json) {
  Trace trace;
  json.at("kernels").get_to(trace.kernels);
  trace.notes = pairs_of(json.at("notes"));
  trace.wall_ns = integer<std::int64_t>(json.at("wall_ns"), 0);
  if (json.contains("witness")) trace.witness = witness_of(json.at("witness"));
  bound(trace, kInOneReply);
  return trace;
}

// Of text that means something a part means something else.
std::string whole(const Json& json, std::size_t most) {
  auto text = json.get<std::string>();
  if (text.size() > most)
    throw ProtocolError("a text of " + std::to_string(text.size()) + " bytes, at most " +
                        std::to_string(most) + " are allowed: " + text.substr(0, 80));
  return text;
}
std::string reason_of(const Json& json) { return cut(json.at("reason").get<std::string>()); }

std::vector<TensorMessage> tensors_of(const Json& json) {
  std::vector<TensorMessage> tensors;
  for (const Json& one : list(json)) {
    TensorMessage& tensor = tensors.emplace_back();
    one.at("name").get_to(tensor.name);
    one.at("format").get_to(tensor.format);
    tensor.shape = integers(one.at("shape"));
    tensor.stride = integers(one.at("stride"));
    if (tensor.shape.size() != tensor.stride.size()) throw ProtocolError("shape and stride differ in length");
    tensor.offset = integer_or(one, "offset", std::int64_t{-1});
  }
  return tensors;
}

CallMessage call_of(const Json& json) {
  CallMessage call;
  json.at("op").get_to(call.op);
  json.at("variant").get_to(call.variant);
  call.attributes = pairs_of(json.at("attributes"));
  call.inputs = tensors_of(json.at("inputs"));
  call.outputs = tensors_of(json.at("outputs"));
  return call;
}

std::vector<SlotMessage> slots_of(const Json& json) {
  std::vector<SlotMessage> slots;
  for (const Json& one : list(json)) {
    const auto access = list(one).at(2).get<std::string>();
    if (access != "w" && access != "r") throw ProtocolError("a slot is \"r\" or \"w\"");
    slots.push_back({integer<std::int64_t>(one.at(0)), integer<std::int64_t>(one.at(1)), access == "w"});
  }
  return slots;
}

// Whatever text a worker sends is printable from here on: reasons, descriptions, names of kernels, notes.
// No message of the protocol is nested half as deep as kDepth.
constexpr int kDepth = 16;
constexpr std::size_t kVariantBytes = 65536;  // of all names, as the worker for plug-ins says them
void make_printable(Json& json, int depth = kDepth) {
  if (depth == 0) throw ProtocolError("a message that is nested more than 16 deep");
  if (json.is_string())
    json = printable(json.get_ref<const std::string&>());
  else if (json.is_structured())
    for (auto& element : json) make_printable(element, depth - 1);
}

// The id and what `read` makes of the rest; every way in which JSON can be ill-formed becomes a ProtocolError
// that shows the line.
template <typename Numbered, typename Read>
Numbered parsed(std::string_view line, Read read) {
  try {
    Json json = Json::parse(line);
    if constexpr (std::is_same_v<Numbered, NumberedReply>) make_printable(json);
    const std::string type = json.at("type");
    return {integer<std::int64_t>(json.at("id")), read(json, type)};
  } catch (const Json::exception& error) {
    throw ProtocolError(
        printable(std::string(error.what()).substr(0, 200) + " in: " + std::string(line.substr(0, 200))));
  }
}

}  // namespace

NumberedRequest parse_request(std::string_view line) {
  return parsed<NumberedRequest>(line, [](const Json& json, const std::string& type) -> Request {
    if (type == "hello") return request::Hello{json.at("protocol"), integer<int>(json.at("version"))};
    if (type == "open") return request::Open{json.at("plugin"), json.at("options")};
    if (type == "declare") return request::Declare{call_of(json.at("call"))};
    if (type == "run") {
      return request::Run{call_of(json.at("call")), integer<std::int64_t>(json.at("memory_bytes")),
                          slots_of(json.at("slots")), integer_or(json, "stack", kStackAsItIs)};
    }
    if (type == "ping") return request::Ping{};
    if (type == "bye") return request::Bye{};
    throw ProtocolError("unknown request type '" + type.substr(0, 40) +
                        "': hello, open, declare, run, ping or bye");
  });
}

NumberedReply parse_reply(std::string_view line) {
  return parsed<NumberedReply>(line, [](const Json& json, const std::string& type) -> Reply {
    if (type == "hello") {
      return reply::Hello{json.at("protocol"), integer<int>(json.at("version")), json.value("guards", false)};
    }
    if (type == "opened") {
      const auto names = [&](const char* member) {
        std::vector<std::string> all;
        for (const Json& name : list(json.at(member))) all.push_back(whole(name, kVariantBytes));
        if (all.size() > kVariantBytes)
          throw ProtocolError(std::to_string(all.size()) + " " + member + ", at most " +
                              std::to_string(kVariantBytes) + " are allowed");
        return all;
      };
      return reply::Opened{whole(json.at("name"), kTextBytes), cut(json.at("description").get<std::string>()),
                           names("variants"),
                           json.contains("ops") ? names("ops") : std::vector<std::string>{}};
    }
    if (type == "refused") return reply::Refused{reason_of(json), json.value("mistake", false)};
    if (type == "declared") {
      reply::Declared declared{whole(json.at("contract"), kTextBytes), whole(json.at("path"), kTextBytes),
                               whole(json.at("promises"), kTextBytes)};
      declared.alignment = integer_or(json, "alignment", declared.alignment);
      if (declared.alignment > kMostAlignment || !std::has_single_bit(declared.alignment))
        throw ProtocolError("alignment " + std::to_string(declared.alignment) +
                            " is no power of two of at most " + std::to_string(kMostAlignment));
      return declared;
    }
    if (type == "unsupported") return reply::Unsupported{reason_of(json)};
    if (type == "failed") {
      reply::Failed failed{reason_of(json), json.value("finding", std::string())};
      constexpr std::string_view kFindings[] = {"", "overrun", "leak", "input_changed", "crash"};
      if (std::ranges::find(kFindings, failed.finding) == std::end(kFindings))
        throw ProtocolError("unknown finding '" + failed.finding.substr(0, 40) +
                            "': overrun, leak, input_changed or crash");
      return failed;
    }
    if (type == "done") return reply::Done{trace_of(json)};
    if (type == "host_limit") return reply::HostLimit{reason_of(json)};
    if (type == "pong") return reply::Pong{};
    if (type == "crash") {
      return reply::Crash{integer<int>(json.at("signal")), integer<std::uint64_t>(json.at("address")),
                          integer<std::int64_t>(json.at("offset"), -1), json.at("access")};
    }
    throw ProtocolError("unknown reply type '" + type.substr(0, 40) + "'");
  });
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
