#include "reference/replay/row_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

std::size_t index_of(std::string_view op, std::string_view name) {
  for (std::size_t i = 0; i < kRowScheduleKeys.size(); ++i)
    if (kRowScheduleKeys[i].name == name && has_word(kRowScheduleKeys[i].ops, op)) return i;
  std::vector<std::string> known;
  for (const RowScheduleKey& key : kRowScheduleKeys)
    if (has_word(key.ops, op)) known.emplace_back(key.name);
  if (RowSchedule of{std::string(op), {}, {}, {}}; of.has_sum()) known.emplace_back("sum.acc");
  if (RowSchedule of{std::string(op), {}, {}, {}}; of.has_squares()) known.emplace_back("squares.acc");
  if (op == "layernorm") known.emplace_back("moments.lanes");
  throw unknown_name(fmt::format("key of a schedule of {}", op), name, known);
}

}  // namespace

std::vector<std::string_view> row_words(const RowScheduleKey& key) { return listed_words(key.words); }

bool has_row_schedule(std::string_view op) { return !row_keys(op).empty(); }

std::vector<const RowScheduleKey*> row_keys(std::string_view op) {
  std::vector<const RowScheduleKey*> keys;
  for (const RowScheduleKey& key : kRowScheduleKeys)
    if (has_word(key.ops, op)) keys.push_back(&key);
  return keys;
}

std::string_view RowSchedule::word(std::string_view key) const {
  const std::size_t i = index_of(op, key);
  return word_at(kRowScheduleKeys[i].words, choice[i]);
}

RowSchedule RowSchedule::with(std::string_view key, std::string_view word) const {
  const std::size_t i = index_of(op, key);
  const std::vector<std::string_view> words = row_words(kRowScheduleKeys[i]);
  const auto at = std::ranges::find(words, word);
  if (at == words.end())
    throw InputError(InputErrorKind::bad_value, fmt::format("schedule: {}={}; allowed: {}", key,
                                                            excerpt(word), kRowScheduleKeys[i].words));
  RowSchedule other = *this;
  other.choice[i] = static_cast<std::uint8_t>(at - words.begin());
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
  return op != "layernorm" || word("centre") == "difference" ||
         (word("product") == "x_inv_gamma" && word("root") != "quotient");
}

RowSchedule parse_row_schedule(std::string_view op, std::string_view text) {
  RowSchedule s;
  s.op = op;
  std::vector<std::string_view> seen;
  for (const auto& [key, value] : schedule_pairs(text, "")) {
    if (key.starts_with("sum.") || key.starts_with("squares.") || key.starts_with("moments.")) continue;
    if (std::ranges::find(seen, key) != seen.end())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("schedule of {}: {} is given twice", op, excerpt(key)));
    seen.push_back(key);
    s = s.with(key, value);
  }
  if (!s.is_possible())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format(
            "schedule of {}: centre={} with product={} root={}; allowed: x_inv_gamma, inverse or nearest", op,
            s.word("centre"), s.word("product"), s.word("root")));
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
