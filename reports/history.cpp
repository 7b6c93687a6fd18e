#include "reports/history.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "reports/page_text.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

std::set<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> words;
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

std::string label(const ComparedRun& run) {
  return run.commit.empty() ? run.file : fmt::format("{} ({:.12})", run.file, run.commit);
}

}  // namespace

bool CaseHistory::changed() const {
  return std::ranges::any_of(steps, [](const HistoryStep& s) { return !s.changed.empty(); });
}

std::vector<CaseHistory> histories(const std::vector<ComparedRun>& runs, const std::string& words) {
  const auto wanted = words_of(words);
  std::vector<CaseHistory> cases;
  std::map<std::string, std::size_t> places;
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const ComparedRow& row : runs[run].rows) {
      const auto [at, added] = places.try_emplace(row.line, cases.size());
      if (added) cases.push_back({row.line, {}});
      CaseHistory& of = cases[at->second];
      if (!of.steps.empty() && of.steps.back().run == run) continue;  // two suites name the same case
      HistoryStep step{run, &row, {}};
      if (!of.steps.empty()) {
        const ComparedRow& then = *of.steps.back().row;
        if (then.verdict != row.verdict) step.changed.emplace_back("verdict");
        if (then.contract != row.contract) step.changed.emplace_back("contract");
        if (then.path != row.path) step.changed.emplace_back("path");
      }
      of.steps.push_back(std::move(step));
    }
  std::erase_if(cases,
                [&](const CaseHistory& c) { return !std::ranges::includes(words_of(c.line), wanted); });
  return cases;
}

std::string history_text(const std::vector<ComparedRun>& runs, const std::vector<CaseHistory>& cases) {
  std::string text;
  std::size_t widest = 0;
  for (const ComparedRun& run : runs) widest = std::max(widest, label(run).size());
  for (const CaseHistory& c : cases) {
    text += c.line + "\n";
    for (const HistoryStep& step : c.steps) {
      const ComparedRow& row = *step.row;
      text += fmt::format(
          "  {:<{}}  {:<12} {:>9} x limit  {:>9.3g} s  {}{}\n", label(runs[step.run]), widest, row.verdict,
          fmt::format("{:.3g}", row.worst_ratio), row.kernel_seconds, row.path,
          step.changed.empty() ? "" : fmt::format("  <- another {}", fmt::join(step.changed, ", ")));
    }
  }
  return text + fmt::format("{} case{} in {} runs; {} changed\n", cases.size(), cases.size() == 1 ? "" : "s",
                            runs.size(), std::ranges::count_if(cases, &CaseHistory::changed));
}

std::string history_page(const std::vector<ComparedRun>& runs, const std::vector<CaseHistory>& cases) {
  Json facts = Json::array();
  for (std::size_t i = 0; i < runs.size(); ++i)
    facts.push_back({fmt::format("run {}", i + 1), label(runs[i])});
  Json rows = Json::array();
  std::size_t changed = 0;
  for (const CaseHistory& c : cases) {
    changed += c.changed() ? 1 : 0;
    Json steps = Json::array();
    for (const HistoryStep& s : c.steps)
      steps.push_back({s.run, s.row->verdict, s.row->green,
                       std::isfinite(s.row->worst_ratio) ? Json(s.row->worst_ratio) : nullptr,
                       s.row->kernel_seconds, s.row->path, fmt::format("{}", fmt::join(s.changed, ", "))});
    rows.push_back(
        {{"line", c.line}, {"repro", c.steps.back().row->repro}, {"changed", c.changed()}, {"steps", steps}});
  }
  return drawn_page(
      kHistoryScript,
      {{"facts", facts},
       {"outcome", fmt::format("{} cases in {} runs; {} changed", cases.size(), runs.size(), changed)},
       {"runs", runs.size()},
       {"cases", rows}});
}

}  // namespace assay
