#include "cases/mutants/mutant_list.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "harness/case.hpp"
#include "reference/error.hpp"

namespace assay::mutants {
namespace {

// Whether a text is the pattern, in which * stands for any run of characters.
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  if (rest.empty()) return true;
  for (std::size_t at = star; at <= text.size(); ++at)
    if (matches(rest, text.substr(at))) return true;
  return false;
}

}  // namespace

std::vector<Manifest> read_manifest(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(InputErrorKind::bad_value, "no list of mutants at " + path);
  std::vector<Manifest> list;
  for (const auto& m : nlohmann::json::parse(file))
    list.push_back(
        {m.at("id"), m.at("file"), m.at("line"), m.at("class"), m.at("before"), m.at("after"), m.at("text")});
  return list;
}

bool stands_for(const Equivalent& e, const Manifest& m) {
  return matches(e.file, m.file) && matches(e.text, m.text) && matches(e.change, m.before + " -> " + m.after);
}

std::vector<Equivalent> read_equivalents(const std::string& path) {
  std::vector<Equivalent> list;
  for (const auto& line : read_suite(path)) {
    std::vector<std::string> parts;
    std::string rest = line.text;
    for (std::size_t at; parts.size() < 3 && (at = rest.find(" @ ")) != std::string::npos;
         rest = rest.substr(at + 3))
      parts.push_back(rest.substr(0, at));
    if (parts.size() != 3)
      throw InputError(InputErrorKind::bad_value,
                       line.where + ": want FILE @ SOURCE LINE @ BEFORE -> AFTER @ REASON");
    list.push_back({parts[0], parts[1], parts[2], rest});
  }
  return list;
}

}  // namespace assay::mutants
