// Attributes: the text of a case, checked against an op's list and completed with its defaults.
//
// A default written "@name" is the value of attribute `name` (kv_heads=@heads); chains are followed. Integers
// and reals are stored in canonical text, so that equal values compare equal ("08" is "8", "1e-05" is "1e-5"
// is fmt's shortest).
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/op.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

template <class Number>
std::string canonical_number(const AttributeSpec& spec, const std::string& text, std::string_view kind) {
  const std::size_t dots = spec.allowed.find("..");
  const auto low = parse_number<Number>(spec.allowed.substr(0, dots));
  const auto high =
      dots == std::string_view::npos ? std::nullopt : parse_number<Number>(spec.allowed.substr(dots + 2));
  const auto value = parse_number<Number>(text);
  // A number that cannot be negative has no sign, not even in front of 0.
  const bool is_signed = text.starts_with('-') && low && *low >= 0;
  const bool inside = value && !is_signed && (!low || *low <= *value) && (!high || *value <= *high);
  if (!inside)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("attribute {}={}: allowed is {} {} ({})", spec.name, excerpt(text), kind,
                                 spec.allowed, spec.meaning));
  return fmt::format("{}", *value);
}

}  // namespace

std::string canonical_attribute(const AttributeSpec& spec, const std::string& text) {
  switch (spec.kind) {
    case AttributeKind::integer:
      return canonical_number<std::int64_t>(spec, text, "an integer");
    case AttributeKind::real:
      return canonical_number<double>(spec, text, "a number");
    case AttributeKind::word:
      break;
    case AttributeKind::format:
      if (spec.allowed.empty()) {
        format(text);  // throws, listing near names
        return text;
      }
      break;
  }
  if (!has_word(spec.allowed, text)) {
    const std::vector<std::string_view> words = listed_words(spec.allowed);
    const std::string near = nearest_name(text, {words.begin(), words.end()});
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("attribute {}={}: {}allowed is {} ({})", spec.name, excerpt(text),
                    near.empty() ? "" : fmt::format("did you mean {}? ", near), spec.allowed, spec.meaning));
  }
  return text;
}

namespace {

const AttributeSpec& spec_of(std::span<const AttributeSpec> specs, std::string_view name) {
  for (const AttributeSpec& spec : specs)
    if (spec.name == name) return spec;
  throw unknown_name("attribute", name, names_of(specs));
}

// The text of an attribute: given, or its default, which may refer to another attribute.
std::string resolve(std::span<const AttributeSpec> specs, const std::map<std::string, std::string>& given,
                    std::string_view name, std::size_t depth) {
  const AttributeSpec& spec = spec_of(specs, name);
  if (const auto found = given.find(std::string(name)); found != given.end())
    return canonical_attribute(spec, found->second);
  if (spec.fallback.empty())
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("attribute {} must be given: {} {}", spec.name, spec.allowed, spec.meaning));
  if (spec.fallback.front() != '@') return canonical_attribute(spec, std::string(spec.fallback));
  if (depth > specs.size())
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("the default of attribute {} refers to itself", spec.name));
  return canonical_attribute(spec, resolve(specs, given, spec.fallback.substr(1), depth + 1));
}

const std::string& value_of(const std::map<std::string, std::string>& values, std::string_view name) {
  const auto found = values.find(std::string(name));
  if (found == values.end())
    throw InputError(InputErrorKind::unknown_name, fmt::format("attribute '{}' is not set", name));
  return found->second;
}

}  // namespace

Attributes Attributes::complete(std::span<const AttributeSpec> specs,
                                const std::map<std::string, std::string>& given) {
  for (const auto& [name, text] : given) spec_of(specs, name);
  Attributes result;
  for (const AttributeSpec& spec : specs)
    result.values_.emplace(spec.name, resolve(specs, given, spec.name, 0));
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
