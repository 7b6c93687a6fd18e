#include "harness/cli/config_file.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <istream>

#include "reference/error.hpp"

namespace assay {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where, why));
}

std::string text_of(const toml::node& node, const std::string& where) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  refuse(where, "allowed: a text, a number, true, false, or a list of these");
}

}  // namespace

std::vector<ConfigOption> read_config(std::istream& text, const std::string& file) {
  const auto at = [&](const toml::source_region& region) {
    return fmt::format("{}:{}", file, region.begin.line);
  };
  toml::table whole;
  try {
    whole = toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    refuse(at(e.source()), std::string(e.description()));
  }
  std::vector<ConfigOption> options;
  for (const auto& [section, inside] : whole) {
    const auto* keys = inside.as_table();
    if (keys == nullptr)
      refuse(at(inside.source()),
             fmt::format(
                 "'{}' stands in no section; allowed: [run], [laws], ... with the options of that subcommand",
                 section.str()));
    for (const auto& [key, value] : *keys) {
      ConfigOption option{std::string(section.str()), std::string(key.str()), {}, at(value.source())};
      const std::string where = fmt::format("{}: {}", option.where, option.key);
      if (const auto* list = value.as_array())
        for (const auto& element : *list) option.values.push_back(text_of(element, where));
      else
        option.values.push_back(text_of(value, where));
      options.push_back(std::move(option));
    }
  }
  return options;
}

}  // namespace assay
