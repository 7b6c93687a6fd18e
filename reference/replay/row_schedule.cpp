#include "reference/replay/row_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

std::vector<KeySpec> table_of(std::string_view op) {
  std::vector<KeySpec> keys;
  for (const RowScheduleKey* key : row_keys(op)) keys.push_back(*key);
  return keys;
}

std::size_t index_of(std::string_view op, std::string_view name) {
  for (std::size_t i = 0; i < kRowScheduleKeys.size(); ++i)
    if (kRowScheduleKeys[i].name == name && has_word(kRowScheduleKeys[i].ops, op)) return i;
  std::vector<std::string> known = names_of(table_of(op));
  if (RowSchedule of{std::string(op), {}, {}, {}}; of.has_sum()) known.emplace_back("sum.acc");
  if (RowSchedule of{std::string(op), {}, {}, {}}; of.has_squares()) known.emplace_back("squares.acc");
  if (op == "layernorm") known.emplace_back("moments.lanes");
  throw unknown_name(fmt::format("key of a schedule of {}", op), name, known);
}

}  // namespace

std::vector<std::string_view> row_words(const RowScheduleKey& key) { return listed_words(key.allowed); }

bool has_row_schedule(std::string_view op) { return !row_keys(op).empty(); }

std::vector<const RowScheduleKey*> row_keys(std::string_view op) {
  std::vector<const RowScheduleKey*> keys;
  for (const RowScheduleKey& key : kRowScheduleKeys)
    if (has_word(key.ops, op)) keys.push_back(&key);
  return keys;
}

std::string_view RowSchedule::word(std::string_view key) const {
  const std::size_t i = index_of(op, key);
  return listed_words(kRowScheduleKeys[i].allowed).at(choice[i]);
}

RowSchedule RowSchedule::with(std::string_view key, std::string_view word) const {
  const std::size_t i = index_of(op, key);
  const KeySpec row[] = {kRowScheduleKeys[i]};
  RowSchedule other = *this;
  other.choice[i] = static_cast<std::uint8_t>(KeyTable("schedule key", row).word(key, word));
  return other;
}

bool RowSchedule::has_sum() const {
  return op == "softmax" || op == "logsumexp" || (op == "layernorm" && word("variance") != "welford");
}
bool RowSchedule::has_moments() const { return op == "layernorm" && word("variance") == "welford"; }
bool RowSchedule::has_squares() const {
  return op == "rmsnorm" || (op == "layernorm" && word("variance") != "welford");
}

bool RowSchedule::is_possible() const {
  const std::vector<KeySpec> keys = table_of(op);
  std::vector<std::string> words;
  for (const KeySpec& key : keys) words.emplace_back(word(key.name));
  return KeyTable("schedule key", keys).unmet(words).empty();
}

RowSchedule parse_row_schedule(std::string_view op, std::string_view text) {
  RowSchedule s;
  s.op = op;
  std::vector<KeyPair> own;  // without those of its sums
  for (const KeyPair& pair : key_pairs("schedule", text)) {
    if (pair.key.starts_with("sum.") || pair.key.starts_with("squares.") || pair.key.starts_with("moments."))
      continue;
    index_of(op, pair.key);  // names the sums' keys too where it refuses
    own.push_back(pair);
  }
  const std::vector<KeySpec> keys = table_of(op);
  const std::string noun = fmt::format("key of a schedule of {}", op);
  const std::vector<std::string> words = KeyTable(noun, keys).complete(own);
  for (std::size_t i = 0; i < keys.size(); ++i) s = s.with(keys[i].name, words[i]);
  const auto allowed = [&](const char* prefix, bool has_it) {
    if (!has_it && (" " + std::string(text)).find(std::string(" ") + prefix) != std::string::npos)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("schedule of {}: it has no sum of the name '{}'", op, prefix));
    return has_it;
  };
  if (allowed("sum.", s.has_sum())) s.sum = parse_schedule(text, "sum.");
  if (allowed("squares.", s.has_squares())) s.squares = parse_schedule(text, "squares.");
  if (allowed("moments.", s.has_moments())) s.moments = parse_moments(text);
  if (s.sum.unit() != nullptr || s.squares.unit() != nullptr)
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("schedule of {}: a matrix unit adds no rows; allowed: f64|f32|f16|bf16", op));
  return s;
}

std::string print_schedule(const RowSchedule& s) {
  std::string text;
  for (const RowScheduleKey* key : row_keys(s.op))
    if (const std::string_view word = s.word(key->name); word != "none")
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", key->name, word);
  if (s.has_sum()) text += " " + print_schedule(s.sum, "sum.");
  if (s.has_squares()) text += " " + print_schedule(s.squares, "squares.");
  if (const std::string moments = print_moments(s.moments); s.has_moments() && !moments.empty())
    text += " " + moments;
  return text;
}

}  // namespace assay
