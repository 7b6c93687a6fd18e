// Attributes: the text of a case, checked against an op's table and completed with its defaults (keys.hpp).
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "reference/error.hpp"
#include "reference/ops/op.hpp"

namespace assay {
namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

const std::string& value_of(const std::map<std::string, std::string>& values, std::string_view name) {
  const auto found = values.find(std::string(name));
  if (found == values.end())
    throw InputError(InputErrorKind::unknown_name, fmt::format("attribute '{}' is not set", name));
  return found->second;
}

}  // namespace

Attributes Attributes::complete(std::span<const KeySpec> specs,
                                const std::map<std::string, std::string>& given) {
  std::vector<KeyPair> pairs;
  for (const auto& [name, text] : given) pairs.push_back({name, text});
  std::vector<std::string> values = KeyTable("attribute", specs).complete(pairs);
  Attributes result;
  for (std::size_t i = 0; i < specs.size(); ++i) result.values_.emplace(specs[i].name, std::move(values[i]));
  return result;
}

std::int64_t Attributes::integer(std::string_view name) const {
  const std::string& text = value_of(values_, name);
  if (const auto value = parse_number<std::int64_t>(text)) return *value;
  throw InputError(InputErrorKind::bad_value, fmt::format("attribute {}={} is not an integer", name, text));
}

double Attributes::real(std::string_view name) const {
  const std::string& text = value_of(values_, name);
  if (const auto value = parse_number<double>(text)) return *value;
  throw InputError(InputErrorKind::bad_value, fmt::format("attribute {}={} is not a number", name, text));
}

const std::string& Attributes::text(std::string_view name) const { return value_of(values_, name); }

}  // namespace assay
