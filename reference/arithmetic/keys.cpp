#include "reference/arithmetic/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/formats/format.hpp"
#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

constexpr std::string_view kBlanks = " \t\n";

template <class Number>
std::optional<Number> read(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Whether a finite number is in one of the ranges "0, 2..65536"; an end that is left out is none.
template <class Number>
bool is_in(std::string_view ranges, Number value) {
  return std::ranges::any_of(listed_words(ranges, ','), [&](std::string_view range) {
    range.remove_prefix(std::min(range.find_first_not_of(' '), range.size()));
    const std::size_t dots = range.find("..");
    const auto low = read<Number>(range.substr(0, dots));
    const auto high = dots == std::string_view::npos ? low : read<Number>(range.substr(dots + 2));
    return (!low || *low <= value) && (!high || value <= *high) && value - value == Number{};
  });
}

// The ranges of a key of numbers.
std::string ranges_of(const KeySpec& key) {
  if (!key.allowed.empty()) return std::string(key.allowed);
  return fmt::format("{}..{}", key.kind == KeyKind::integer ? 1 : 0, kMostDeclared);
}

template <class Number>
std::optional<std::string> number_in(std::string_view ranges, std::string_view text) {
  const auto value = read<Number>(text);
  if (!value || !is_in<Number>(ranges, *value)) return std::nullopt;
  // A number that cannot be negative has no sign, not even in front of 0.
  constexpr Number kBelow0 =
      std::numeric_limits<Number>::is_integer ? Number{-1} : -std::numeric_limits<Number>::denorm_min();
  if (*value == 0 && text.starts_with('-') && !is_in<Number>(ranges, kBelow0)) return std::nullopt;
  return fmt::format("{}", *value);
}

// The one spelling of a value; nullopt where it is not allowed.
std::optional<std::string> spelt(const KeySpec& key, std::string_view value) {
  const auto if_it_is = [&](bool allowed) {
    return allowed ? std::optional(std::string(value)) : std::nullopt;
  };
  switch (key.kind) {
    case KeyKind::integer:
      return number_in<std::int64_t>(ranges_of(key), value);
    case KeyKind::real:
      return number_in<double>(ranges_of(key), value);
    case KeyKind::word:
      return if_it_is(has_word(key.allowed, value));
    case KeyKind::format:
      if (key.allowed.empty()) format(value);  // throws, listing near names
      return if_it_is(key.allowed.empty() || has_word(key.allowed, value));
    case KeyKind::rounding:
      return if_it_is(find_scalar_format(value) != nullptr);
    case KeyKind::accumulator: {
      Accumulator found;
      // "f32|f16, or a matrix unit": types that are listed, and every unit.
      const std::string_view types = key.allowed.substr(0, key.allowed.find(','));
      return if_it_is(find_accumulator(value, found) &&
                      (types.empty() || found.kind == Accumulator::Kind::unit || has_word(types, value)));
    }
    case KeyKind::order:
      if (Order found; find_order(value, found)) return to_string(found);
      return std::nullopt;
    case KeyKind::text:
      return if_it_is(!value.empty());
  }
  return std::nullopt;
}

struct Condition {
  std::string_view key, words;
  bool equal;
};
Condition condition_of(std::string_view text) {
  const std::size_t at = text.find('=');
  const bool equal = at == 0 || text[at - 1] != '!';
  return {text.substr(0, equal ? at : at - 1), text.substr(at + 1), equal};
}

// The conditions of `needs` on a key that has this value.
std::vector<std::string_view> conditions(std::string_view needs, std::string_view value) {
  std::vector<std::string_view> all;
  for (std::string_view part : listed_words(needs, ';')) {
    if (const std::size_t colon = part.find(':'); colon != std::string_view::npos) {
      std::string_view words = part.substr(0, colon);
      words.remove_prefix(std::min(words.find_first_not_of(' '), words.size()));
      if (!has_word(words, value)) continue;
      part.remove_prefix(colon + 1);
    }
    for (const std::string_view condition : listed_words(part, ' '))
      if (!condition.empty()) all.push_back(condition);
  }
  return all;
}

}  // namespace

std::vector<KeyPair> key_pairs(std::string_view noun, std::string_view text, std::string_view prefix,
                               KeyText kind) {
  const std::string between = std::string(kBlanks) + (kind == KeyText::schedule ? "/" : "");
  std::vector<KeyPair> list;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(between, at), text.size());
    std::string_view pair = text.substr(at, end - at);
    at = end + 1;
    if (pair.empty() || !pair.starts_with(prefix)) continue;
    pair.remove_prefix(prefix.size());
    const std::size_t separator = pair.find_first_of(kind == KeyText::schedule ? "=:" : "=");
    if (separator == std::string_view::npos)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: '{}'; allowed: key=value", noun, excerpt(pair)));
    list.push_back({pair.substr(0, separator), pair.substr(separator + 1)});
  }
  return list;
}

std::string allowed_text(const KeySpec& key) {
  if (!key.allowed.empty()) return std::string(key.allowed);
  switch (key.kind) {
    case KeyKind::integer:
    case KeyKind::real:
      return ranges_of(key);
    case KeyKind::format:
      return "any format";
    case KeyKind::rounding:
      return "a scalar format";
    case KeyKind::accumulator:
      return "f64|f32|f16|bf16|i32, or a matrix unit";
    case KeyKind::order:
      return std::string(kOrderWords);
    case KeyKind::word:
    case KeyKind::text:
      break;
  }
  return "text without blanks";
}

const KeySpec& KeyTable::key(std::string_view name) const {
  const auto found = std::ranges::find(keys_, name, &KeySpec::name);
  if (found == keys_.end()) throw unknown_name(noun_, name, names_of(keys_));
  return *found;
}

std::vector<KeyPair> KeyTable::pairs(std::string_view text, KeyText kind) const {
  std::vector<KeyPair> list = key_pairs(noun_, text, prefix_, kind);
  check(list);
  return list;
}

void KeyTable::check(std::span<const KeyPair> given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const KeySpec& of = key(given[i].key);
    if (std::ranges::count(given.first(i), given[i].key, &KeyPair::key) > 0)
      refuse(of, given[i].value, "it is given twice");
  }
}

void KeyTable::refuse(std::string_view name, std::string_view value, std::string_view why) const {
  refuse(key(name), value, why);
}

void KeyTable::refuse(const KeySpec& of, std::string_view value, std::string_view why) const {
  std::string near;
  if (of.kind == KeyKind::word || of.kind == KeyKind::format) {
    const std::vector<std::string_view> words = listed_words(of.allowed);
    near = nearest_name(value, {words.begin(), words.end()});
  }
  const std::string allowed =
      fmt::format("{}allowed: {} ({})", near.empty() ? "" : fmt::format("did you mean {}? ", near),
                  allowed_text(of), of.meaning);
  throw InputError(InputErrorKind::bad_value, fmt::format("{} {}{}={}: {}", noun_, prefix_, of.name,
                                                          excerpt(value), why.empty() ? allowed : why));
}

std::string KeyTable::canonical(const KeySpec& of, std::string_view value) const {
  if (std::optional<std::string> text = spelt(of, value)) return *std::move(text);
  refuse(of, value, "");
}

std::vector<std::string> KeyTable::complete(std::span<const KeyPair> given) const {
  check(given);
  std::vector<std::optional<std::string>> values(keys_.size());
  for (const KeyPair& pair : given) {
    const KeySpec& of = key(pair.key);
    values[static_cast<std::size_t>(&of - keys_.data())] = canonical(of, pair.value);
  }
  // A default that is another key's value waits for that one; what waits for itself waits for ever.
  for (std::size_t round = 0; round <= keys_.size(); ++round)
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const KeySpec& of = keys_[i];
      if (values[i]) continue;
      if (of.fallback.empty())
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("{} {}{} must be given: {} ({})", noun_, prefix_, of.name,
                                     allowed_text(of), of.meaning));
      if (!of.fallback.starts_with('@')) {
        values[i] = canonical(of, of.fallback);
        continue;
      }
      const KeySpec& other = key(of.fallback.substr(1));
      if (const auto& same = values[static_cast<std::size_t>(&other - keys_.data())])
        values[i] = canonical(of, *same);
    }
  std::vector<std::string> all;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (!values[i])
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("the default of {} {} refers to itself", noun_, keys_[i].name));
    all.push_back(*std::move(values[i]));
  }
  if (const std::string why = unmet(all); !why.empty())
    throw InputError(InputErrorKind::bad_contract, fmt::format("{} {}", noun_, why));
  return all;
}

std::string KeyTable::unmet(std::span<const std::string> values) const {
  const auto value_of = [&](std::string_view name) -> std::string_view {
    return values[static_cast<std::size_t>(&key(name) - keys_.data())];
  };
  const auto holds = [&](std::string_view text) {
    const Condition c = condition_of(text);
    return has_word(c.words, value_of(c.key)) == c.equal;
  };
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const KeySpec& of = keys_[i];
    if (of.needs.empty() || values[i] == of.fallback) continue;
    for (const std::string_view condition : conditions(of.needs, values[i])) {
      const std::vector<std::string_view> either = listed_words(condition, '/');
      if (std::ranges::any_of(either, holds)) continue;
      std::string wanted, got;
      for (const std::string_view one : either) {
        const std::string_view other = condition_of(one).key;
        wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", one);
        got += fmt::format("{}{}{}={}", got.empty() ? "" : " and ", prefix_, other, value_of(other));
      }
      return fmt::format("{}{}={} needs {}, not {}", prefix_, of.name, values[i], wanted, got);
    }
  }
  return "";
}

std::int64_t KeyTable::number(std::string_view name, std::string_view value) const {
  const std::optional<std::string> text = number_in<std::int64_t>(ranges_of(key(name)), value);
  if (!text) refuse(name, value);
  return *read<std::int64_t>(*text);
}

std::int64_t KeyTable::number(std::string_view name, std::string_view value, std::int64_t least,
                              std::int64_t most) const {
  const std::optional<std::string> text = number_in<std::int64_t>(fmt::format("{}..{}", least, most), value);
  if (!text) refuse(name, value);
  return *read<std::int64_t>(*text);
}

std::size_t KeyTable::word(std::string_view name, std::string_view value) const {
  return word(name, value, listed_words(key(name).allowed));
}

std::size_t KeyTable::word(std::string_view name, std::string_view value,
                           std::span<const std::string_view> words) const {
  const auto at = std::ranges::find(words, value);
  if (at == words.end()) refuse(name, value);
  return static_cast<std::size_t>(at - words.begin());
}

}  // namespace assay
