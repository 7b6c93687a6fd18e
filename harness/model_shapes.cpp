#include "harness/model_shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "harness/suites.hpp"

namespace assay {
namespace {

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

ModelShapes::ModelShapes(const std::vector<SuiteLine>& rows) {
  for (const SuiteLine& row : rows) {
    const auto refuse = [&](const std::string& what) {
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: {}; allowed: model NAME key=value ... source=..., or list "
                                   "key=value,value ... source=...",
                                   row.where, what));
    };
    std::istringstream words(row.text);
    std::string kind, name;
    words >> kind;
    if (kind != "model" && kind != "list") refuse(fmt::format("'{}'", kind));
    if (kind == "model" && !(words >> name)) refuse("a model without a name");
    std::map<std::string, std::string> values;
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == 0 || equals == std::string::npos || equals + 1 == word.size())
        refuse(fmt::format("'{}'", word));
      if (!values.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
        refuse(fmt::format("'{}' is said twice", word.substr(0, equals)));
    }
    if (values.erase("source") == 0) refuse("a row without a source");
    if (kind == "model") {
      models_.push_back(std::move(values));
      continue;
    }
    for (const auto& [key, text] : values)
      for (std::string& value : split_at_commas(text))
        if (auto& all = lists_[key]; std::ranges::find(all, value) == all.end())
          all.push_back(std::move(value));
  }
}

ModelShapes ModelShapes::known() { return ModelShapes(read_suite(suites_directory() + "/models.list")); }

bool ModelShapes::has_model_key(const std::string& key) const {
  return std::ranges::any_of(models_, [&](const auto& m) { return m.contains(key); });
}

const std::vector<std::string>& ModelShapes::list(const std::string& key, const std::string& where) const {
  const auto found = lists_.find(key);
  if (found != lists_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, values] : lists_) names.push_back("@" + name);
  throw InputError(
      InputErrorKind::unknown_name,
      fmt::format("{}: @{}: models.list has no such key; lists: {}", where, key, fmt::join(names, " ")));
}

std::vector<std::vector<std::string>> ModelShapes::together(const Op& op,
                                                            std::span<const std::string> attributes,
                                                            std::span<const std::string> names) const {
  std::vector<std::vector<std::string>> all;
  for (const auto& model : models_) {
    std::vector<std::string> values;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto found = model.find(names[i]);
      const auto spec = std::ranges::find(op.attributes, attributes[i], &KeySpec::name);
      const bool needed = spec == op.attributes.end() || spec->fallback.empty();
      if (found == model.end() && needed) break;
      values.push_back(found == model.end() ? "" : found->second);
    }
    if (values.size() == names.size() && std::ranges::find(all, values) == all.end())
      all.push_back(std::move(values));
  }
  return all;
}

}  // namespace assay
