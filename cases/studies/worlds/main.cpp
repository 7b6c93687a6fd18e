// assay-worlds: the limits against every member of a contract, in worlds small enough to see all of them.
#include <algorithm>

#include "cases/studies/worlds/world.hpp"
#include "harness/cli/program.hpp"
#include "reference/arithmetic/rule.hpp"

namespace assay::worlds {
namespace {

struct Options {
  std::string op, only, unsound;
  std::size_t budget = 3000;
  double factor = 0;
  bool all = false, json = false, list = false;
};

int run(const Options& o) {
  const auto* const rule = std::ranges::find(kRules, o.unsound, &RuleRow::name);
  if (!o.unsound.empty() && rule == kRules.end())
    throw InputError(InputErrorKind::unknown_name, fmt::format("no rule '{}'", o.unsound));
  const Unsound weak(o.unsound.empty() ? Rule::none : rule->rule, o.unsound.empty() ? 1 : o.factor);
  std::vector<Tally> tallies;
  std::size_t violations = 0;
  for (const World& world : worlds(o.op)) {
    if (world.name.find(o.only) == std::string::npos) continue;
    if (o.list) {
      fmt::print("{}\n", world.name);
      continue;
    }
    tallies.push_back(judge(world, o.all ? SIZE_MAX : o.budget));
    violations += tallies.back().violations;
    if (o.json) fmt::print("{}\n", json_line(tallies.back()));
    for (const auto& [ratio, line] : tallies.back().lines) fmt::print(stderr, "violation: {}\n", line);
    std::fflush(stdout);
  }
  if (!o.json && !o.list) fmt::print("{}", table(tallies));
  return violations == 0 ? kGreen : kFinding;
}

}  // namespace
}  // namespace assay::worlds

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app("holds every result that a contract admits, in small worlds, against the limits");
  worlds::Options o;
  int exit_code = kGreen;
  app.add_option("--op", o.op, "worlds of this op alone");
  app.add_option("--only", o.only, "worlds whose name has this text in it");
  app.add_option("--budget", o.budget, "output elements of a world, about");
  app.add_option("--unsound", o.unsound, "weaken this rule of the limits: its terms count --factor times");
  app.add_option("--factor", o.factor, "of --unsound; 0 where it is not given");
  app.add_flag("--all", o.all, "every input of every world");
  app.add_flag("--json", o.json, "lines of JSON");
  app.add_flag("--list", o.list, "names alone");
  app.callback([&] { exit_code = worlds::run(o); });
  return run_program(app, argc, argv, exit_code);
}
