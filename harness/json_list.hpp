// Lists in JSON that the build writes: an array of objects, read member by member. Whatever a member is not,
// the message names with the list, the row and what is allowed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

class JsonRow {
 public:
  JsonRow(nlohmann::json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {}
  std::string text(const char* key) const;
  // The same for a member that may be absent: then "".
  std::string optional_text(const char* key) const;
  bool flag(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const;
  const std::string& where() const { return where_; }  // "backends.json: row 3"
  // The refusal of this row.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const nlohmann::json& member(const char* key) const;
  [[noreturn]] void refuse(const char* key, const nlohmann::json& value, const std::string& allowed) const;

  nlohmann::json object_;
  std::string where_;
};

// Throws InputError bad_value for text that is no JSON, no array, or has a row that is no object.
std::vector<JsonRow> parse_json_list(std::string_view text, const std::string& where);

}  // namespace assay
