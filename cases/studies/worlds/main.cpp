// assay-worlds: the limits against every member of a contract, in worlds small enough to see all of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cases/studies/worlds/world.hpp"
#include "reference/error.hpp"

int main(int argc, char** argv) {
  CLI::App app("holds every result that a contract admits, in small worlds, against the limits");
  std::string op, only;
  std::size_t budget = 3000;
  bool all = false, json = false, list = false;
  app.add_option("--op", op, "worlds of this op alone");
  app.add_option("--only", only, "worlds whose name has this text in it");
  app.add_option("--budget", budget, "output elements of a world, about");
  app.add_flag("--all", all, "every input of every world");
  app.add_flag("--json", json, "lines of JSON");
  app.add_flag("--list", list, "names alone");
  CLI11_PARSE(app, argc, argv);
  try {
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
