// A comparison as text, as Markdown and as JSON.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "harness/suite_text.hpp"
#include "reference/error.hpp"
#include "reports/compare.hpp"
#include "reports/page_text.hpp"
#include "reports/record.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

double number_of(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::infinity();
}

ComparedRow row_of(const Json& json) {
  ComparedRow row;
  row.line = json.at("case");
  row.op = json.at("op");
  row.formats = json.at("formats");
  row.backend = json.at("backend");
  row.verdict = json.at("verdict");
  row.green = json.at("green");
  row.summary = json.at("summary");
  row.contract = json.at("contract");
  row.repro = json.at("repro");
  row.worst_ratio = number_of(json.at("worst_ratio"));
  row.kernel_seconds = json.at("kernel_seconds");
  for (const auto& kernel : json.at("kernels")) {
    if (!row.path.empty()) row.path += " ";
    row.path += kernel.get<std::string>();
  }
  if (row.path.empty()) row.path = json.at("expected_path");
  return row;
}

ComparedRun from_report(const std::string& file, const Json& report) {
  ComparedRun run;
  run.file = file;
  run.commit = report.value("commit", "");
  run.complete = report.value("complete", true);
  for (const Json& row : report.at("results")) run.rows.push_back(row_of(row));
  return run;
}

ComparedRun from_record(const std::string& file) {
  const Record record = read_record(file);
  ComparedRun run;
  run.file = file;
  // Behind the places of the plan stand promised laws that were broken.
  const auto of_plan = std::distance(record.rows.begin(), record.rows.lower_bound(record.header.cases));
  run.complete = static_cast<std::size_t>(of_plan) == record.header.cases;
  for (const auto& [place, text] : record.rows) run.rows.push_back(row_of(Json::parse(text)));
  return run;
}

std::string headline(const RunComparison& c) {
  std::string text = fmt::format("{} cases in both", c.cases);
  for (std::size_t kind = 0; kind < std::size(kChangeNames); ++kind)
    if (const std::size_t n = c.count(static_cast<ChangeKind>(kind)); n > 0)
      text += fmt::format("; {}: {}", kChangeTitles[kind], n);
  if (c.changes.empty()) text += "; nothing changed";
  if (!c.complete) text += "; the later run is incomplete, so lost cases were not looked for";
  return text;
}

// Calls visit(kind, changes of that kind that are shown, how many are not).
template <typename Visit>
void by_kind(const RunComparison& c, std::size_t shown, Visit visit) {
  for (std::size_t at = 0; at < std::size(kChangeNames); ++at) {
    const auto kind = static_cast<ChangeKind>(at);
    std::vector<const Change*> list;
    for (const Change& change : c.changes)
      if (change.kind == kind && list.size() < shown) list.push_back(&change);
    if (!list.empty()) visit(kChangeTitles[at], list, c.count(kind) - list.size());
  }
}

// In a cell of a table a bar would end it.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  for (char& letter : text)
    if (letter == '\n') letter = ' ';
  return text;
}

}  // namespace

ComparedRun read_compared(const std::string& file) {
  try {
    const std::string text = read_text(file, "report or record");
    const Json report = Json::parse(text, nullptr, false);
    if (!report.is_discarded() && report.is_object() && report.value("schema", "") == "assay-run")
      return from_report(file, report);
    if (text.find("\"chain\":") == std::string::npos)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: neither a report (assay run --json FILE) nor a record (assay run "
                                   "--record FILE)",
                                   file));
    return from_record(file);
  } catch (const Json::exception& e) {
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: not a report of `assay run --json`, nor a record: {}", file, e.what()));
  }
}

std::string comparison_text(const RunComparison& c, std::size_t shown) {
  std::string text;
  by_kind(c, shown, [&](std::string_view title, const std::vector<const Change*>& list, std::size_t more) {
    text += fmt::format("{}\n", title);
    for (const Change* change : list) {
      text += fmt::format("  {}\n    {}\n", change->line, change->note);
      if (!change->repro.empty()) text += fmt::format("    repro  {}\n", change->repro);
    }
    if (more > 0) text += fmt::format("  ... and {} more\n", more);
  });
  return text + headline(c) + "\n";
}

std::string comparison_markdown(const RunComparison& c, std::size_t shown) {
  std::string text = fmt::format("**{}**\n", headline(c));
  by_kind(c, shown, [&](std::string_view title, const std::vector<const Change*>& list, std::size_t more) {
    text += fmt::format("\n### {}\n\n| case | before -> after |\n|---|---|\n", title);
    for (const Change* change : list)
      text += fmt::format("| `{}` | {} |\n", cell(change->line), cell(change->note));
    if (more > 0) text += fmt::format("\n... and {} more\n", more);
  });
  return text;
}

std::string comparison_json(const RunComparison& c) {
  Json json = {{"schema", "assay-compare"}, {"version", 1}, {"cases", c.cases}, {"complete", c.complete}};
  Json counts = Json::object();
  for (std::size_t kind = 0; kind < std::size(kChangeNames); ++kind)
    counts[std::string(kChangeNames[kind])] = c.count(static_cast<ChangeKind>(kind));
  json["counts"] = counts;
  json["changes"] = Json::array();
  for (const Change& change : c.changes)
    json["changes"].push_back({{"kind", to_string(change.kind)},
                               {"case", change.line},
                               {"note", change.note},
                               {"repro", change.repro}});
  return json.dump(1) + "\n";
}

std::string comparison_page(const RunComparison& c, const std::vector<std::string>& runs) {
  Json facts = Json::array(), kinds = Json::array(), changes = Json::array();
  for (std::size_t i = 0; i < runs.size(); ++i)
    facts.push_back(Json::array({i + 1 < runs.size() ? "before" : "after", runs[i]}));
  for (std::size_t kind = 0; kind < std::size(kChangeNames); ++kind)
    kinds.push_back(Json::array({kChangeNames[kind], kChangeTitles[kind]}));
  for (const Change& change : c.changes)
    changes.push_back(Json::array({to_string(change.kind), change.line, change.note, change.repro}));
  return drawn_page(kCompareScript,
                    {{"facts", facts}, {"outcome", headline(c)}, {"kinds", kinds}, {"changes", changes}});
}

}  // namespace assay
