#include "harness/promises.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

constexpr std::string_view kBitwise = "bitwise", kNumber = "N";

struct PromiseRow {
  std::string_view name, words;  // words: "yes|no", or "N" for a whole number of 0 or more
  std::string_view meaning;
};

constexpr PromiseRow kRows[] = {
    {"deterministic", "yes|no", "two calls on the same bytes give the same bits; yes unless it is denied"},
    {"nan", "propagate", "a NaN that is read reaches every output that depends on it"},
    {"temporary_bytes", kNumber, "memory that is taken beyond the tensors, at one time"},
    {"pairs", "symmetric", "the formats of K and V may be exchanged: what takes one pair takes the other"},
    {"batch", kBitwise, "a row does not depend on how many are beside it"},
    {"order", kBitwise, "rows, sequences or tokens may come in any order"},
    {"chunk", kBitwise, "a causal prefill may come in two chunks"},
    {"heads", kBitwise, "groups of heads may come in any order"},
    {"pages", kBitwise, "keys may lie on any pages"},
    {"padding", kBitwise, "rows may have gaps behind them, and lie far apart"},
    {"replay", kBitwise, "an earlier call at the same addresses leaves nothing"},
    {"paths", kBitwise, "codes are multiplied as codes and decoded first alike"},
    {"calls", kBitwise, "earlier calls of other shapes leave nothing"},
};

InputError refusal(const PromiseRow& row, std::string_view word) {
  return {InputErrorKind::bad_value,
          fmt::format("promise {}={}: {} is allowed", row.name, excerpt(word),
                      row.words == kNumber ? "a number of bytes, 0 or more," : row.words)};
}

std::int64_t number(const PromiseRow& row, std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0) throw refusal(row, word);
  return value;
}

}  // namespace

bool Promises::law(std::string_view name) const { return std::ranges::find(laws, name) != laws.end(); }

Promises parse_promises(std::string_view text) {
  Promises promises;
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find_first_of(" \t\n"));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (item.empty()) continue;
    const std::string_view key = item.substr(0, item.find('='));
    const std::string_view word = item.substr(std::min(item.size(), key.size() + 1));
    const auto row = std::ranges::find(kRows, key, &PromiseRow::name);
    if (row == std::end(kRows)) throw unknown_name("promise", key, names_of(kRows));
    if (std::ranges::find(seen, key) != seen.end())
      throw InputError(InputErrorKind::bad_value, fmt::format("promise {} stands twice", key));
    seen.push_back(key);
    if (row->words == kNumber)
      promises.temporary_bytes = number(*row, word);
    else if (!has_word(row->words, word))
      throw refusal(*row, word);
    if (key == "deterministic") promises.deterministic = word == "yes";
    if (key == "pairs") promises.pairs = true;
    if (row->words == kBitwise) promises.laws.push_back(row->name);
  }
  return promises;
}

bool read_promises(std::string_view declared, Promises& promises, std::string& why) {
  try {
    promises = parse_promises(declared);
    return true;
  } catch (const InputError& e) {
    why = fmt::format("declared promises '{}': {}", declared, e.what());
    return false;
  }
}

}  // namespace assay
