#include "reports/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace assay {
namespace {

// Equal lines of one run (two suites may name the same case) are told apart by how often they came before.
using Key = std::pair<std::string, std::size_t>;

std::map<Key, const ComparedRow*> by_line(const ComparedRun& run) {
  std::map<Key, const ComparedRow*> rows;
  std::map<std::string, std::size_t> times;
  for (const ComparedRow& row : run.rows) rows[{row.line, times[row.line]++}] = &row;
  return rows;
}

std::string with_ratio(const ComparedRow& row) {
  return row.worst_ratio > 1 ? fmt::format("{} ({:.3g} x)", row.verdict, row.worst_ratio) : row.verdict;
}

// NaN and infinity are more than any number.
bool beyond(double now, double then, double factor) { return !(now <= factor * then) && std::isfinite(then); }

std::optional<Change> of_findings(const ComparedRow& then, const ComparedRow& now,
                                  const CompareRules& rules) {
  const auto change = [&](ChangeKind kind, std::string note) {
    return Change{kind, now.line, std::move(note), now.green ? "" : now.repro};
  };
  if (then.green && !now.green)
    return change(ChangeKind::red, fmt::format("{} -> {}: {}", then.verdict, with_ratio(now), now.summary));
  if (!then.green && now.green)
    return change(ChangeKind::fixed, fmt::format("{} -> {}", with_ratio(then), now.verdict));
  if (now.green) return std::nullopt;
  if (then.verdict != now.verdict)
    return change(ChangeKind::other,
                  fmt::format("{} -> {}: {}", with_ratio(then), with_ratio(now), now.summary));
  if (beyond(now.worst_ratio, std::max(then.worst_ratio, 1.0), rules.worse))
    return change(ChangeKind::worse, fmt::format("{} -> {}", with_ratio(then), with_ratio(now)));
  return std::nullopt;
}

// The place k, counted from 0, of the lower end of the interval of a median: the largest k with
//   P(Binomial(n, 1/2) <= k - 1) <= error, that is, the k-th smallest of n lies above the median with at most
//   that
// probability. Nothing where n is too small for any.
std::optional<std::size_t> lower_place(std::size_t n, double error) {
  double below = 0;
  std::optional<std::size_t> place;
  for (std::size_t k = 0; k < n / 2; ++k) {
    const auto x = static_cast<double>(k), all = static_cast<double>(n);
    below +=
        std::exp(std::lgamma(all + 1) - std::lgamma(x + 1) - std::lgamma(all - x + 1) - all * std::log(2.0));
    if (below > error) break;
    place = k;
  }
  return place;
}

double median(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

using Group = std::tuple<std::string, std::string, std::string>;  // op, formats, backend

std::vector<Change> slower_groups(std::map<Group, std::vector<double>> groups, const CompareRules& rules) {
  std::vector<double> all;
  for (const auto& [group, ratios] : groups) all.insert(all.end(), ratios.begin(), ratios.end());
  std::vector<Change> changes;
  if (all.empty()) return changes;
  const double machine = median(all);
  const double error = 0.01 / static_cast<double>(groups.size());
  for (auto& [group, ratios] : groups) {
    std::ranges::sort(ratios);
    const auto place = lower_place(ratios.size(), error);
    if (!place || ratios[*place] / machine <= rules.slower) continue;
    changes.push_back(
        {ChangeKind::slower,
         fmt::format("{} {} backend={}", std::get<0>(group), std::get<1>(group), std::get<2>(group)),
         fmt::format("{:.3g} x as long, at least {:.3g} x; {} cases; all cases together: {:.3g} x",
                     median(ratios) / machine, ratios[*place] / machine, ratios.size(), machine),
         ""});
  }
  return changes;
}

}  // namespace

std::size_t RunComparison::count(ChangeKind kind) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(changes, [&](const Change& c) { return c.kind == kind; }));
}

RunComparison compare(const std::vector<ComparedRun>& before, const ComparedRun& after,
                      const CompareRules& rules) {
  RunComparison result;
  result.complete = after.complete;
  std::vector<std::map<Key, const ComparedRow*>> baselines;
  for (const ComparedRun& run : before) baselines.push_back(by_line(run));
  const auto& last = baselines.back();
  const auto now_rows = by_line(after);
  const auto add = [&](ChangeKind kind, const ComparedRow& row, std::string note) {
    result.changes.push_back({kind, row.line, std::move(note), row.green ? "" : row.repro});
  };
  std::map<Group, std::vector<double>> groups;
  for (const auto& [key, now] : now_rows) {
    const auto found = last.find(key);
    if (found == last.end()) {
      add(now->green ? ChangeKind::added : ChangeKind::red, *now,
          now->green ? now->verdict : fmt::format("new case -> {}: {}", with_ratio(*now), now->summary));
      continue;
    }
    const ComparedRow& then = *found->second;
    ++result.cases;
    if (auto change = of_findings(then, *now, rules)) result.changes.push_back(std::move(*change));
    if (then.path != now->path)
      add(ChangeKind::path, *now,
          fmt::format("{} -> {}", then.path.empty() ? "none" : then.path,
                      now->path.empty() ? "none" : now->path));
    if (then.contract != now->contract)
      add(ChangeKind::contract, *now, fmt::format("{} -> {}", then.contract, now->contract));
    double largest = 0;
    for (const auto& baseline : baselines)
      if (const auto at = baseline.find(key); at != baseline.end())
        largest = std::max(largest, at->second->worst_ratio);
    if (then.green && now->green && beyond(now->worst_ratio, largest, rules.drift))
      add(ChangeKind::drift, *now, fmt::format("{:.3g} -> {:.3g} of the limit", largest, now->worst_ratio));
    if (then.kernel_seconds > 0 && now->kernel_seconds > 0)
      groups[{now->op, now->formats, now->backend}].push_back(now->kernel_seconds / then.kernel_seconds);
  }
  for (const auto& [key, then] : last)
    if (after.complete && !now_rows.contains(key)) add(ChangeKind::lost, *then, "was " + then->verdict);
  for (Change& change : slower_groups(std::move(groups), rules)) result.changes.push_back(std::move(change));
  std::ranges::stable_sort(result.changes, {}, &Change::kind);
  return result;
}

}  // namespace assay
