#include "cases/studies/properties/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "reference/error.hpp"
#include "reference/near_names.hpp"

namespace assay::properties {
namespace {

template <typename T>
T number(const Step& step, std::string_view key, T low, T high) {
  const std::string& text = step.text(key);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ok = error == std::errc() && end == text.data() + text.size() && low <= value && value <= high;
  if (!ok)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{} {}={}: {}..{} is allowed", step.name, key, excerpt(text), low, high));
  return value;
}

}  // namespace

const std::string& Step::text(std::string_view key) const {
  const auto at =
      std::ranges::find(values, key, [](const auto& pair) { return std::string_view(pair.first); });
  if (at == values.end())
    throw InputError(InputErrorKind::bad_value, fmt::format("the step '{}' has no {}=", name, key));
  return at->second;
}
std::int64_t Step::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  return number(*this, key, low, high);
}
double Step::real(std::string_view key, double low, double high) const {
  return number(*this, key, low, high);
}
std::string Step::print() const {
  std::string line = name;
  for (const auto& [key, value] : values) line += fmt::format(" {}={}", key, value);
  return line;
}

std::string print(const Steps& steps) {
  std::string all;
  for (const Step& step : steps) all += (all.empty() ? "" : "; ") + step.print();
  return all;
}

Steps parse_steps(std::string_view text) {
  Steps steps;
  std::istringstream all{std::string(text)};
  for (std::string part; std::getline(all, part, ';');) {
    std::istringstream words(part);
    Step step;
    words >> step.name;
    if (step.name.empty() || step.name.find('=') != std::string::npos)
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format("step {}: '{}' has no name in front of its values", steps.size() + 1, excerpt(part)));
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
        throw InputError(InputErrorKind::bad_value,
                         fmt::format("step '{}': '{}' is not key=value", step.name, excerpt(word)));
      const std::string key = word.substr(0, equals);
      for (const auto& [other, value] : step.values)
        if (other == key)
          throw InputError(InputErrorKind::bad_value,
                           fmt::format("step '{}': {} stands twice", step.name, key));
      step.values.emplace_back(key, word.substr(equals + 1));
    }
    steps.push_back(std::move(step));
  }
  if (steps.empty()) throw InputError(InputErrorKind::bad_value, "a draw without a step");
  return steps;
}

}  // namespace assay::properties
