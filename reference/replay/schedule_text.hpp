// The text of a schedule: keys, and values that are numbers or words. The one reader of the grammars that are made of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct SchedulePair {
  std::string_view key, value;  // of the text, without the prefix
};

// The pairs of `text` whose keys begin with `prefix`, in their order: key=value or key:value, between them spaces or '/'. Throws InputError
// bad_value for one without = or :.
std::vector<SchedulePair> schedule_pairs(std::string_view text, std::string_view prefix);

// `allowed`: words separated by '|', or least..most of a number, or what a grammar reads by itself, for messages and help.
struct ScheduleKey {
  std::string_view name, fallback, allowed, meaning;
};

std::string_view word_at(std::string_view allowed, std::size_t index);

// The keys of one grammar. Everything throws InputError: unknown_name of a key, bad_value of a value; what is wrong is named as
// `what`: prefix key=value; allowed: ...
class ScheduleGrammar {
 public:
  constexpr ScheduleGrammar(std::string_view what, std::span<const ScheduleKey> keys,
                            std::string_view prefix = "")
      : what_(what), prefix_(prefix), keys_(keys) {}

  std::span<const ScheduleKey> keys() const { return keys_; }
  const ScheduleKey& key(std::string_view name) const;
  // Those of `text` behind `prefix`, each known and given once.
  std::vector<SchedulePair> pairs(std::string_view text, std::string_view prefix) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view value) const;

  // A number without leading zeros, in the range that the key allows, or in this one.
  std::int64_t number(std::string_view key, std::string_view value) const;
  std::int64_t number(std::string_view key, std::string_view value, std::int64_t least,
                      std::int64_t most) const;
  // Which of the key's words, or of these.
  std::size_t word(std::string_view key, std::string_view value) const;
  std::size_t word(std::string_view key, std::string_view value,
                   std::span<const std::string_view> words) const;

 private:
  std::string_view what_, prefix_;
  std::span<const ScheduleKey> keys_;
};

}  // namespace assay
