#include "harness/safetensors.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "reference/error.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPrefix = 8;                          // bytes that hold the header's length
constexpr std::size_t kMostHeader = std::size_t{16} << 20;  // bytes of a header
constexpr int kDepth = 3;                                   // of nesting: {tensor: {data_offsets: [

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where, why));
}

// The header, with each name once on its level, and no deeper than any header is.
Json parse_header(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDepth) refuse(where, "the header is nested too deeply");
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
      refuse(where, fmt::format("the header has '{}' twice", excerpt(parsed.get<std::string>())));
    return true;
  };
  try {
    Json header = Json::parse(text, check);
    if (!header.is_object()) refuse(where, "the header is no JSON object");
    return header;
  } catch (const Json::exception& e) {
    refuse(where, fmt::format("the header is no JSON: {}", excerpt(e.what())));
  }
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) refuse(where, fmt::format("there is no '{}'", key));
  return *found;
}

std::vector<std::int64_t> counts_of(const Json& list, const char* key, const std::string& where) {
  std::vector<std::int64_t> counts;
  if (!list.is_array() || list.size() > 16)
    refuse(where, fmt::format("'{}' is no list of at most 16 numbers", key));
  for (const Json& n : list) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() > std::uint64_t{1} << 47)
      refuse(where, fmt::format("'{}' has {}; allowed: whole numbers of 0..2^47", key, excerpt(n.dump())));
    counts.push_back(n.get<std::int64_t>());
  }
  return counts;
}

// The tensors by name. Their bytes must lie one behind the other, and fill the file.
std::map<std::string, StoredTensor> entries_of(const Json& header, std::string_view data,
                                               const std::string& where) {
  std::map<std::string, StoredTensor> entries;
  std::map<std::size_t, std::size_t> ends;  // by beginning
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string here = fmt::format("{}: tensor '{}'", where, excerpt(name));
    if (!value.is_object() || value.size() != 3) refuse(here, "allowed: dtype, shape, data_offsets");
    const Json& type = member(value, "dtype", here);
    if (!type.is_string()) refuse(here, "'dtype' is no text");
    std::vector<std::int64_t> shape = counts_of(member(value, "shape", here), "shape", here);
    const auto at = counts_of(member(value, "data_offsets", here), "data_offsets", here);
    if (at.size() != 2 || at[0] > at[1] || static_cast<std::size_t>(at[1]) > data.size())
      refuse(here, fmt::format("'data_offsets' lie outside the {} bytes of data", data.size()));
    const auto begin = static_cast<std::size_t>(at[0]), end = static_cast<std::size_t>(at[1]);
    if (begin != end && !ends.emplace(begin, end).second) refuse(here, "it overlaps another tensor");
    entries.emplace(name,
                    StoredTensor{type.get<std::string>(), std::move(shape), data.substr(begin, end - begin)});
  }
  std::size_t next = 0;
  for (const auto& [begin, end] : ends) {
    if (begin != next)
      refuse(where, fmt::format("byte {} of the data belongs to no tensor, or to two", next));
    next = end;
  }
  if (next != data.size())
    refuse(where, fmt::format("{} bytes stand behind the last tensor", data.size() - next));
  return entries;
}

std::map<std::string, std::string> metadata_of(const Json& header, const std::string& where) {
  if (!header.contains("__metadata__")) return {};
  const Json& list = member(header, "__metadata__", where);
  if (!list.is_object()) refuse(where, "'__metadata__' is no object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : list.items()) {
    if (!value.is_string()) refuse(where, fmt::format("metadata '{}' is no text", excerpt(key)));
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

}  // namespace

Safetensors parse_safetensors(std::string_view bytes, const std::string& where) {
  if (bytes.size() < kPrefix)
    refuse(where,
           fmt::format("{} bytes are no safetensors file: it begins with 8 bytes of length", bytes.size()));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kPrefix; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (length > kMostHeader || length > bytes.size() - kPrefix)
    refuse(where, fmt::format("a header of {} bytes in a file of {}: cut short, or no safetensors file",
                              length, bytes.size()));
  const Json header = parse_header(bytes.substr(kPrefix, length), where);
  return {metadata_of(header, where), entries_of(header, bytes.substr(kPrefix + length), where)};
}

std::string print_safetensors(const std::vector<std::pair<std::string, std::string>>& metadata,
                              const std::vector<std::pair<std::string, StoredTensor>>& tensors) {
  Json header = Json::object();
  header["__metadata__"] = Json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.type},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((kPrefix - text.size() % kPrefix) % kPrefix, ' ');
  std::string bytes;
  for (std::size_t i = 0; i < kPrefix; ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return bytes + text + data;
}

}  // namespace assay
