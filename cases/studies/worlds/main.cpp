// assay-worlds: the limits against every member of a contract, in worlds small enough to see all of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cases/studies/worlds/world.hpp"
#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"

int main(int argc, char** argv) {
  CLI::App app("holds every result that a contract admits, in small worlds, against the limits");
  std::string op, only;
  std::size_t budget = 3000;
  std::string unsound;
  double factor = 0;
  bool all = false, json = false, list = false;
  app.add_option("--op", op, "worlds of this op alone");
  app.add_option("--only", only, "worlds whose name has this text in it");
  app.add_option("--budget", budget, "output elements of a world, about");
  app.add_option("--unsound", unsound, "weaken this rule of the limits: its terms count --factor times");
  app.add_option("--factor", factor, "of --unsound; 0 where it is not given");
  app.add_flag("--all", all, "every input of every world");
  app.add_flag("--json", json, "lines of JSON");
  app.add_flag("--list", list, "names alone");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto rule =
        std::ranges::find_if(assay::kRules, [&](const auto& row) { return row.name == unsound; });
    if (!unsound.empty() && rule == assay::kRules.end()) {
      fmt::print(stderr, "no rule '{}'\n", unsound);
      return 2;
    }
    const assay::Unsound weak(unsound.empty() ? assay::Rule::none : rule->rule, unsound.empty() ? 1 : factor);
    std::vector<assay::worlds::Tally> tallies;
    std::size_t violations = 0;
    for (const auto& world : assay::worlds::worlds(op)) {
      if (world.name.find(only) == std::string::npos) continue;
      if (list) {
        fmt::print("{}\n", world.name);
        continue;
      }
      tallies.push_back(assay::worlds::judge(world, all ? SIZE_MAX : budget));
      violations += tallies.back().violations;
      if (json) fmt::print("{}\n", assay::worlds::json_line(tallies.back()));
      for (const auto& [ratio, line] : tallies.back().lines) fmt::print(stderr, "violation: {}\n", line);
      std::fflush(stdout);
    }
    if (!json && !list) fmt::print("{}", assay::worlds::table(tallies));
    return violations == 0 ? 0 : 1;
  } catch (const assay::InputError& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
