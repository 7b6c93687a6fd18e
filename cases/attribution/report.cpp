#include "cases/attribution/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cases/attribution/exhibits.hpp"

namespace assay::attribution {
namespace {

constexpr std::size_t kNeighbours = 3;

}  // namespace

std::string report(const Attribution& a) {
  const Verdict& v = a.first.verdict;
  std::string text = fmt::format("{}\n  verdict   {}{}{}\n", a.first.c.line(), to_string(v.status),
                                 v.summary.empty() ? "" : ": ", v.summary);
  const auto row = std::ranges::find(stages(), a.stage, &StageRow::name);
  text += row == stages().end() ? "  stage     unknown: the evidence decides for none\n"
                                : fmt::format("  stage     {}: {}\n", a.stage, row->meaning);
  if (!a.what.empty()) text += fmt::format("  how       {}\n", a.what);
  if (!a.where.empty()) text += fmt::format("  where     {}\n", a.where);
  for (const auto& line : a.support) text += fmt::format("  for       {}\n", line);
  for (const auto& line : a.against) text += fmt::format("  against   {}\n", line);
  if (row != stages().end())
    for (const Exhibit* e : nearest_exhibits(a.first.c.op->name, a.stage, kNeighbours))
      text += fmt::format("  like      {}: {}\n", e->name, e->story);
  text += fmt::format("  runs      {} of the kernel\n", a.runs);
  return text;
}

}  // namespace assay::attribution
