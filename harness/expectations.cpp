#include "harness/expectations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "reference/near_names.hpp"

namespace assay {
namespace {

Status parse_status(const std::string& word, const std::string& where) {
  const auto at = std::ranges::find(kStatusNames, word);
  if (at != kStatusNames.end() && word != "pass") return static_cast<Status>(at - kStatusNames.begin());
  const std::vector<std::string> allowed(kStatusNames.begin() + 1, kStatusNames.end());
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("{}: no verdict '{}'; {}", where, word, suggest(word, allowed)));
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::vector<Expectation> read_expectations(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(InputErrorKind::bad_value, fmt::format("list '{}' cannot be read", path));
  std::vector<Expectation> list;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string where = fmt::format("{}:{}", path, number);
    const auto comment = line.find('#');
    const std::string text = trimmed(line.substr(0, comment));
    if (text.empty()) continue;
    const std::string reason = comment == std::string::npos ? "" : trimmed(line.substr(comment + 1));
    if (reason.empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: an expectation needs its reason behind a #", where));
    const auto blank = text.find(' ');
    Expectation e;
    e.status = parse_status(text.substr(0, blank), where);
    e.set = parse_case(blank == std::string::npos ? "" : text.substr(blank + 1), where);
    e.reason = reason, e.where = where;
    list.push_back(std::move(e));
  }
  return list;
}

void apply_expectations(std::vector<Expectation>& expectations, const Case& c, Verdict& verdict) {
  for (auto& e : expectations) {
    if (!matches(e.set, c)) continue;
    ++e.cases;
    if (e.status != verdict.status) continue;
    ++e.confirmed;
    verdict.expected = true;
    verdict.reason = e.reason;
  }
}

std::vector<const Expectation*> stale(const std::vector<Expectation>& expectations) {
  std::vector<const Expectation*> list;
  for (const auto& e : expectations)
    if (e.cases > 0 && e.confirmed == 0) list.push_back(&e);
  return list;
}

}  // namespace assay
