#include "reference/arithmetic/contract.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

[[noreturn]] void bad_value(const ContractKey& key, std::string_view value, std::string_view allowed) {
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("contract {}={}; {}: {}", key.name, excerpt(value), allowed, key.meaning));
}

// The one spelling of a value; throws when it is not in the key's domain.
std::string canonical(const ContractKey& key, std::string_view value) {
  switch (key.kind) {
    case ContractValue::accumulator: {
      Accumulator found{};
      if (!find_accumulator(value, found))
        bad_value(key, value, "an accumulator (f64 f32 f16 bf16 i32) or a matrix unit");
      return std::string(value);
    }
    case ContractValue::format:
      if (find_scalar_format(value) == nullptr) bad_value(key, value, "a scalar format");
      return std::string(value);
    case ContractValue::integer: {
      std::int64_t n = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
      if (error != std::errc{} || end != value.data() + value.size() || n < 1 || n > kMostDeclared)
        bad_value(key, value, fmt::format("an integer of 1..{}", kMostDeclared));
      return fmt::format("{}", n);
    }
    case ContractValue::number: {
      double x = 0, most = static_cast<double>(kMostDeclared);
      if (const std::size_t dots = key.words.find(".."); dots != std::string_view::npos)
        std::from_chars(key.words.data() + dots + 2, key.words.data() + key.words.size(), most);
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), x);
      if (error != std::errc{} || end != value.data() + value.size() || value.starts_with('-') ||
          !(x <= most))
        bad_value(key, value, fmt::format("a decimal of 0..{}", most));
      return fmt::format("{}", x);  // shortest decimal that reads back as the same double
    }
    case ContractValue::order: {
      Order found;
      if (!find_order(value, found)) bad_value(key, value, fmt::format("one of {}", kOrderWords));
      return to_string(found);
    }
    case ContractValue::word:
      if (!has_word(key.words, value)) bad_value(key, value, fmt::format("one of {}", key.words));
      return std::string(value);
    case ContractValue::text:
      if (value.empty()) bad_value(key, value, "a text without blanks");
      return std::string(value);
  }
  bad_value(key, value, "a value");
}

const std::string& find(const std::vector<std::pair<std::string, std::string>>& entries,
                        std::string_view key) {
  for (const auto& [name, value] : entries) {
    if (name == key) return value;
  }
  std::vector<std::string> known;
  for (const auto& [name, value] : entries) known.push_back(name);
  throw unknown_name("contract key", key, known);
}

}  // namespace

Contract Contract::parse(std::string_view text, std::span<const ContractKey> keys) {
  std::vector<std::string> given(keys.size());
  std::vector<bool> seen(keys.size());
  constexpr std::string_view kBlank = " \t\n";
  for (std::size_t at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t stop = std::min(text.find_first_of(kBlank, at), text.size());
    const std::string_view word = text.substr(at, stop - at);
    at = text.find_first_not_of(kBlank, stop);
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&](const ContractKey& k) { return k.name == name; });
    if (key == keys.end()) throw unknown_name("contract key", name, names_of(keys));
    if (equals == std::string_view::npos) bad_value(*key, "", "written key=value");
    const auto index = static_cast<std::size_t>(key - keys.begin());
    if (seen[index]) bad_value(*key, word.substr(equals + 1), "named only once");
    seen[index] = true;
    given[index] = canonical(*key, word.substr(equals + 1));
  }
  Contract contract;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!seen[i]) {
      if (keys[i].fallback.empty()) bad_value(keys[i], "", "required");
      if (keys[i].fallback.starts_with('@'))
        given[i] = find(contract.entries_, keys[i].fallback.substr(1));
      else
        given[i] = canonical(keys[i], keys[i].fallback);
    }
    contract.entries_.emplace_back(keys[i].name, given[i]);
  }
  return contract;
}

std::string Contract::print() const {
  std::string text;
  for (const auto& [name, value] : entries_)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

Contract Contract::with(std::string_view key, std::string_view value) const {
  static_cast<void>(find(entries_, key));
  Contract changed = *this;
  for (auto& [name, text] : changed.entries_)
    if (name == key) text = value;
  return changed;
}

std::string_view Contract::text(std::string_view key) const { return find(entries_, key); }

std::int64_t Contract::integer(std::string_view key) const {
  const std::string& value = find(entries_, key);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc{} || end != value.data() + value.size()) {
    throw InputError(InputErrorKind::bad_value, fmt::format("contract {}={} is not an integer", key, value));
  }
  return n;
}

double Contract::number(std::string_view key) const {
  const std::string& value = find(entries_, key);
  double x = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), x);
  if (error != std::errc{} || end != value.data() + value.size()) {
    throw InputError(InputErrorKind::bad_value, fmt::format("contract {}={} is not a number", key, value));
  }
  return x;
}

std::optional<Contract> made_exact(const Contract& contract, const ContractKey& key,
                                   std::span<const ContractKey> keys) {
  std::string_view ideal = key.ideal;
  if (ideal.empty()) switch (key.kind) {
      case ContractValue::accumulator:
        ideal = "f64";
        break;
      case ContractValue::format:
        ideal = "f32";
        break;
      case ContractValue::number:
        ideal = "0";
        break;
      case ContractValue::order:
        ideal = "tree";
        break;
      case ContractValue::integer:
      case ContractValue::word:
      case ContractValue::text:
        return std::nullopt;
    }
  if (ideal == "none" || contract.text(key.name) == ideal) return std::nullopt;
  try {
    return Contract::parse(contract.with(key.name, ideal).print(), keys);
  } catch (const InputError&) {
    return std::nullopt;  // this key does not allow it
  }
}

}  // namespace assay
