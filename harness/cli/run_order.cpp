#include "harness/cli/run_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "harness/budget.hpp"
#include "reports/compare.hpp"

namespace assay {

std::map<std::string, double> weights_of(const Plan& plan) {
  std::map<std::string, double> weights;
  for (const Group& g : plan.groups)
    weights[std::string(g.cases.front().op->name)] +=
        static_cast<double>(g.cases.size()) * weight_of(g.cases.front());
  return weights;
}

std::vector<std::size_t> failed_first(const Plan& plan, const std::string& file, bool quiet) {
  if (file.empty()) return {};
  if (!std::filesystem::exists(file)) {
    if (!quiet) fmt::print("--failed-first: there is no {} yet\n", file);
    return {};
  }
  std::set<std::string> red;
  for (const ComparedRow& row : read_compared(file).rows)
    if (!row.green) red.insert(row.line);
  const auto is_red = [&](const Case& c) { return red.contains(c.line()); };
  std::vector<std::size_t> order(plan.groups.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rest = std::stable_partition(order.begin(), order.end(), [&](std::size_t g) {
    return std::ranges::any_of(plan.groups[g].cases, is_red);
  });
  if (!quiet)
    fmt::print("first, as red in {}: {} of {} groups of cases\n", file, rest - order.begin(), order.size());
  return order;
}

}  // namespace assay
