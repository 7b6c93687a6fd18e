// A table of keys: the one engine of every text that is made of key=value: the attributes of a case, a
// contract, a schedule, the promises of a kernel. A row says all that there is to say of its key, and parser,
// refusals, manual and help read it there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

enum class KeyKind : std::uint8_t {
  integer,      // of the key's ranges; 1..kMostDeclared where it has none
  real,         // a decimal of them; 0..kMostDeclared where it has none
  word,         // one of the key's words
  format,       // a row of formats(), or of those that the key lists
  rounding,     // a scalar format
  accumulator,  // f64 f32 f16 bf16 i32, or a row of matrix_units(): how a sum of products is formed
  order,        // the order of a sum (order.hpp)
  text,         // anything that has no blank in it: who asks reads it
};

// No count of steps and no error in ulps is larger; what is computed from one stays an exact integer in f64.
inline constexpr std::int64_t kMostDeclared = INT32_MAX;

struct KeySpec {
  std::string_view name;
  KeyKind kind;
  std::string_view
      fallback;  // its value where the text is silent; "@KEY": that of another; "": it must be given
  std::string_view
      allowed;  // "any|sequential|tree"; "1..64", "0, 2..", each range with both ends or one; "" as the kind says
  std::string_view meaning;  // one line
  // Of a contract: the value that makes the step as exact as can be, where its kind does not say it; "none":
  // no value does.
  std::string_view ideal = {};
  // What other keys must be beside a value of this one that is not its fallback: conditions "key=word|word"
  // or "key!=word|word", all of which hold, or of a/b one. "word|word: conditions; word: conditions" are of
  // these values alone.
  std::string_view needs = {};
};

struct KeyPair {
  std::string_view key, value;
};
// Which texts separate pairs. As one value of a contract a schedule is written acc:f32/lanes:16.
enum class KeyText : std::uint8_t { plain, schedule };
// The pairs of `text` whose keys begin with `prefix`, without it, in their order. Throws InputError bad_value
// for one that is no pair.
std::vector<KeyPair> key_pairs(std::string_view noun, std::string_view text, std::string_view prefix = "",
                               KeyText kind = KeyText::schedule);

// What a value may be, as manual and refusals say it: "1..64", "f32|f16", "any format".
std::string allowed_text(const KeySpec& key);

// Everything throws InputError: unknown_name of a key, bad_value of a value, bad_contract of values that do
// not go together. `noun` is what a message calls a key ("attribute", "contract key"); it says prefix, key,
// value, and what is allowed.
class KeyTable {
 public:
  constexpr KeyTable(std::string_view noun, std::span<const KeySpec> keys, std::string_view prefix = "")
      : noun_(noun), prefix_(prefix), keys_(keys) {}

  std::span<const KeySpec> keys() const { return keys_; }
  const KeySpec& key(std::string_view name) const;
  // Those of `text`, each known and given once.
  std::vector<KeyPair> pairs(std::string_view text, KeyText kind = KeyText::schedule) const;
  // The one spelling of a value: integers without leading zeros, reals as short as they can be.
  std::string canonical(const KeySpec& key, std::string_view value) const;
  // A value for each key, in the table's order, and what they need of each other holds.
  std::vector<std::string> complete(std::span<const KeyPair> given) const;
  // "" where it holds; else "cap=libm needs argument=scaled, not argument=fma".
  std::string unmet(std::span<const std::string> values) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view why = "") const;

  // A number of the key's ranges, or of these; the place of a word among the key's.
  std::int64_t number(std::string_view key, std::string_view value) const;
  std::int64_t number(std::string_view key, std::string_view value, std::int64_t least,
                      std::int64_t most) const;
  std::size_t word(std::string_view key, std::string_view value) const;
  std::size_t word(std::string_view key, std::string_view value,
                   std::span<const std::string_view> words) const;

 private:
  void check(std::span<const KeyPair> given) const;
  [[noreturn]] void refuse(const KeySpec& key, std::string_view value, std::string_view why) const;

  std::string_view noun_, prefix_;
  std::span<const KeySpec> keys_;
};

// A key of a schedule, whose kind its `allowed` shows: words, one range of integers, or a text that the
// schedule reads by itself.
constexpr KeySpec schedule_key(std::string_view name, std::string_view fallback, std::string_view allowed,
                               std::string_view meaning, std::string_view needs = {}) {
  const bool digits = !allowed.empty() && allowed.front() >= '0' && allowed.front() <= '9';
  const bool words =
      allowed.find('|') != std::string_view::npos && allowed.find_first_of(" :") == std::string_view::npos;
  return {
      name, digits ? KeyKind::integer : words ? KeyKind::word : KeyKind::text, fallback, allowed, meaning, {},
      needs};
}

}  // namespace assay
