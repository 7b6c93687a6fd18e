#include "harness/expectations.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/suite_text.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

Status parse_status(const std::string& word, const std::string& where) {
  const auto at = std::ranges::find(kStatusNames, word);
  if (at != kStatusNames.end() && word != "pass") return static_cast<Status>(at - kStatusNames.begin());
  const std::vector<std::string> allowed(kStatusNames.begin() + 1, kStatusNames.end());
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("{}: no verdict '{}'; {}", where, excerpt(word), suggest(word, allowed)));
}

}  // namespace

std::vector<Expectation> parse_expectations(std::string_view content, const std::string& name) {
  refuse_binary(content, name);
  std::vector<Expectation> list;
  for (int number = 1; !content.empty(); ++number) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), line.size() + 1));
    const std::string where = fmt::format("{}:{}", name, number);
    const auto comment = line.find('#');
    const std::string_view text = trimmed(line.substr(0, comment));
    if (text.empty()) continue;
    const std::string_view reason =
        comment == std::string_view::npos ? "" : trimmed(line.substr(comment + 1));
    if (reason.empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: an expectation needs its reason behind a #", where));
    const auto blank = text.find_first_of(" \t");
    Expectation e;
    e.status = parse_status(std::string(text.substr(0, blank)), where);
    e.set = parse_case(blank == std::string_view::npos ? "" : text.substr(blank + 1), where);
    make_matchable(e.set, where);
    e.reason = reason, e.where = where;
    list.push_back(std::move(e));
  }
  return list;
}

std::vector<Expectation> read_expectations(const std::string& path) {
  return parse_expectations(read_text(path, "list"), path);
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
