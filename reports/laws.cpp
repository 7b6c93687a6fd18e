#include "reports/laws.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "harness/result.hpp"
#include "harness/shell.hpp"

namespace assay {
std::string law_table(const std::vector<LawResult>& results) {
  // In the order of the laws, as they came; formats that share an outcome stand together.
  using Row = std::tuple<std::string, std::string, std::string>;
  std::vector<Row> order;
  std::map<Row, std::map<LawOutcome, std::set<std::string>>> rows;
  std::map<Row, std::set<std::string>> changes;
  for (const LawResult& r : results) {
    const Row row{r.law->name, std::string(r.c.op->name),
                  r.c.backend + (r.c.variant.empty() ? "" : " " + r.c.variant)};
    if (!rows.contains(row)) order.push_back(row);
    rows[row][r.outcome].insert(format_label(r.c) + (r.promised ? " (promised)" : ""));
    for (const auto& change : r.changes)
      if (changes[row].size() < 4) changes[row].insert(change);
  }
  std::ranges::stable_sort(order, {}, [](const Row& r) { return std::get<0>(r); });
  std::string text =
      "| law | op | backend | bitwise | within limits | broken | not run | changes between |\n";
  text += "|---|---|---|---|---|---|---|---|\n";
  for (const Row& row : order) {
    const auto& [law, op, backend] = row;
    text += fmt::format("| {} | {} | {} |", law, op, backend);
    for (const LawOutcome o :
         {LawOutcome::bitwise, LawOutcome::within, LawOutcome::broken, LawOutcome::not_run}) {
      const auto at = rows[row].find(o);
      text +=
          fmt::format(" {} |", at == rows[row].end() ? "" : fmt::format("{}", fmt::join(at->second, ", ")));
    }
    text += fmt::format(" {} |\n", fmt::join(changes[row], "; "));
  }
  return text;
}

std::string law_summary(const LawResult& r) {
  return fmt::format("{}: {}{}", r.law->says, to_string(r.outcome), r.promised ? ", promised bitwise" : "");
}

std::string law_evidence(const LawResult& r) {
  std::vector<std::string> lines;
  if (!r.second.empty()) lines.push_back(fmt::format("  other  {}\n  at     {}", r.second, r.difference));
  for (const auto& change : r.changes) lines.push_back(fmt::format("  part   between {}", change));
  if (!r.why.empty()) lines.push_back(fmt::format("  but    {}", r.why));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string law_command(const LawResult& r) {
  return fmt::format("assay laws {} --law {} --at {}", shell_quoted(r.c.line()), r.law->name, r.point);
}

std::string describe(const LawResult& r) {
  const std::string evidence = law_evidence(r);
  return fmt::format("{} {} {}\n  what   {}\n{}{}  repro  {}",
                     r.red() ? to_string(Status::law) : to_string(r.outcome), r.law->name, r.c.line(),
                     law_summary(r), evidence, evidence.empty() ? "" : "\n", law_command(r));
}

std::string law_json(const std::string& command, const std::string& commit,
                     const std::vector<LawResult>& results) {
  using Json = nlohmann::ordered_json;
  Json document = {{"schema", "assay-laws"}, {"version", 1}, {"command", command}, {"commit", commit}};
  Json list = Json::array();
  for (const LawResult& r : results)
    list.push_back({{"law", std::string(r.law->name)},
                    {"op", std::string(r.c.op->name)},
                    {"formats", format_label(r.c)},
                    {"backend", r.c.backend},
                    {"outcome", std::string(to_string(r.outcome))},
                    {"promised", r.promised},
                    {"verdict", std::string(to_string(r.red() ? Status::law : Status::pass))},
                    {"relations", r.relations},
                    {"case", r.c.line()},
                    {"other", r.second},
                    {"point", r.point},
                    {"difference", r.difference},
                    {"changes", r.changes},
                    {"why", r.why}});
  document["results"] = std::move(list);
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace assay
