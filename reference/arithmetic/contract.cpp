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

Contract Contract::parse(std::string_view text, std::span<const KeySpec> keys) {
  const KeyTable table("contract key", keys);
  std::vector<std::string> values = table.complete(table.pairs(text, KeyText::plain));
  Contract contract;
  for (std::size_t i = 0; i < keys.size(); ++i)
    contract.entries_.emplace_back(keys[i].name, std::move(values[i]));
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

std::optional<Contract> made_exact(const Contract& contract, const KeySpec& key,
                                   std::span<const KeySpec> keys) {
  std::string_view ideal = key.ideal;
  if (ideal.empty()) switch (key.kind) {
      case KeyKind::accumulator:
        ideal = "f64";
        break;
      case KeyKind::rounding:
        ideal = "f32";
        break;
      case KeyKind::real:
        ideal = "0";
        break;
      case KeyKind::order:
        ideal = "tree";
        break;
      case KeyKind::integer:
      case KeyKind::word:
      case KeyKind::format:
      case KeyKind::text:
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
