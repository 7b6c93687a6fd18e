#include "harness/json_list.hpp"

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_list(const std::string& where, std::string_view why) {
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("{}: {}; allowed: a list of objects in JSON", where, why));
}

}  // namespace

void JsonRow::refuse(const std::string& why) const {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where_, why));
}

void JsonRow::refuse(const char* key, const Json& value, const std::string& allowed) const {
  refuse(fmt::format("'{}' is {}; allowed: {}", key,
                     excerpt(value.dump(-1, ' ', true, Json::error_handler_t::replace)), allowed));
}

const Json& JsonRow::member(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) refuse(fmt::format("there is no '{}'", key));
  return *found;
}

std::string JsonRow::text(const char* key) const {
  const Json& value = member(key);
  if (!value.is_string()) refuse(key, value, "a text");
  const auto& text = value.get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos) refuse(key, value, "a text without a NUL");
  return text;
}

std::string JsonRow::optional_text(const char* key) const {
  return object_.contains(key) ? text(key) : std::string();
}

bool JsonRow::flag(const char* key) const {
  const Json& value = member(key);
  if (!value.is_boolean()) refuse(key, value, "true or false");
  return value.get<bool>();
}

std::int64_t JsonRow::integer(const char* key, std::int64_t low, std::int64_t high) const {
  const Json& value = member(key);
  const auto allowed = [&] { return fmt::format("an integer of {}..{}", low, high); };
  // The parser makes an unsigned number of whatever has no sign, and a double of what fits neither.
  if (!value.is_number_integer()) refuse(key, value, allowed());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    refuse(key, value, allowed());
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high) refuse(key, value, allowed());
  return number;
}

std::vector<JsonRow> parse_json_list(std::string_view text, const std::string& where) {
  Json list;
  try {
    list = Json::parse(text);
  } catch (const Json::exception& e) {
    refuse_list(where, excerpt(e.what()));
  }
  if (!list.is_array()) refuse_list(where, fmt::format("it is {}, no list", list.type_name()));
  std::vector<JsonRow> rows;
  for (auto& row : list) {
    std::string name = fmt::format("{}: row {}", where, rows.size() + 1);
    if (!row.is_object()) refuse_list(name, fmt::format("it is {}, no object", row.type_name()));
    rows.emplace_back(std::move(row), std::move(name));
  }
  return rows;
}

}  // namespace assay
