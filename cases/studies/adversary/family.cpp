#include "cases/studies/adversary/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "reference/arithmetic/contract.hpp"
#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay::adversary {
namespace {

std::string print(const Choices& choices) {
  std::string text;
  for (const auto& [name, word] : choices)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, word);
  return text;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (const std::string_view part : listed_words(text, at))
    if (!part.empty()) parts.emplace_back(part);
  return parts;
}

Choices parse_choices(std::string_view text) {
  Choices choices;
  for (const std::string& word : split(text, ' ')) {
    const std::size_t is = word.find('=');
    if (is == std::string::npos)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("'{}' in a point: name=word is allowed", excerpt(word)));
    choices[word.substr(0, is)] = word.substr(is + 1);
  }
  return choices;
}

}  // namespace

std::vector<std::string> words_of(std::string_view list) { return split(list, '|'); }

std::string print(const Point& point) {
  std::string text = fmt::format("{}; {}; {}; fill={} seed={}", point.family, print(point.attributes),
                                 print(point.kernel), point.inputs.fill, point.inputs.seed);
  for (const std::string& edit : point.inputs.edits) text += " " + edit;
  return text;
}

Point parse_point(std::string_view text) {
  const std::vector<std::string> parts = split(text, ';');
  if (parts.size() != 4)
    throw InputError(InputErrorKind::bad_value,
                     "a point is 'family; attributes; kernel; fill=NAME seed=N edits'");
  Point point;
  point.family = split(parts[0], ' ').at(0);
  point.attributes = parse_choices(parts[1]);
  point.kernel = parse_choices(parts[2]);
  for (const std::string& word : split(parts[3], ' ')) {
    if (word.starts_with("fill="))
      point.inputs.fill = word.substr(5);
    else if (word.starts_with("seed="))
      point.inputs.seed = std::strtoull(word.c_str() + 5, nullptr, 10);
    else
      point.inputs.edits.push_back(word);
  }
  return point;
}

bool Words::knows(std::string_view key) const {
  return std::ranges::any_of(op_.contract, [&](const KeySpec& each) { return each.name == key; });
}

bool Words::say(std::string_view key, std::string_view value) {
  const auto found = std::ranges::find(op_.contract, key, &KeySpec::name);
  if (found == op_.contract.end()) return false;
  const std::string said = fmt::format("{}={}", key, value);
  try {
    (void)KeyTable("contract key", op_.contract)
        .canonical(*found, value);  // whether it goes with others shows later
  } catch (const InputError&) {
    return false;
  }
  text_ += (text_.empty() ? "" : " ") + said;
  return true;
}
bool Words::say(std::string_view key, double number) { return say(key, fmt::format("{}", number)); }

const std::string& Problem::text(const std::string& choice) const {
  static const std::string none = "none";
  const auto found = choices.find(choice);
  return found == choices.end() ? none : found->second;
}
double Problem::number(const std::string& choice) const { return std::strtod(text(choice).c_str(), nullptr); }
std::uint64_t Problem::seed() const {
  const auto found = choices.find("noise");
  return found == choices.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
}

void say_store(const Choices& choices, Words& words) {
  for (const auto& [key, list] : kStoreAxes)
    if (const auto found = choices.find(std::string(key)); found != choices.end())
      words.say(key, found->second);
}

double store(const Problem& p, double z, std::string_view dtype) {
  const std::string &round = p.text("round"), &out = p.text("out");
  EncodePolicy policy;
  policy.rounding = round == "nearest_away"  ? Rounding::nearest_away
                    : round == "toward_zero" ? Rounding::toward_zero
                                             : Rounding::nearest_even;
  policy.overflow = p.is("overflow", "saturate") ? Overflow::saturate : Overflow::ieee;
  const auto through = [&](std::string_view name, const EncodePolicy& how) {
    const ScalarFormat& to = scalar_format(name);
    z = round_to(to, z, how);
    if (p.is("ftz", "yes") && std::fabs(z) < std::ldexp(1.0, 1 - to.bias)) z = std::copysign(0.0, z);
  };
  if (out != "none" && out != "dtype" && out != dtype) through(out, {.overflow = Overflow::ieee});
  // An Inf of the first rounding: the output's own conversion saturates what was finite, or this too.
  if (!(p.is("way", "stays") && std::isinf(z))) through(dtype, policy);
  return z;
}

const Family& family(std::string_view name) {
  for (const Family& each : families())
    if (each.name == name) return each;
  throw unknown_name("family", name, names_of(families()));
}

}  // namespace assay::adversary
