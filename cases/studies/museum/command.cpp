// assay museum: defects that shipped, each judged beside its correct counterpart.
#include <fmt/format.h>

#include <chrono>

#include "cases/studies/museum/museum.hpp"
#include "harness/cli/program.hpp"

namespace assay {
namespace {

int visit(const std::vector<std::string>& names, bool table) {
  if (table) {
    fmt::print("{}", museum::table());
    return kGreen;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto known = known_backends();
  Workers workers(known);
  std::vector<const museum::Exhibit*> chosen;
  for (const auto& name : names) chosen.push_back(&museum::find_exhibit(name));
  if (names.empty())
    for (const auto& e : museum::exhibits()) chosen.push_back(&e);
  std::size_t killed = 0, all = 0, scenarios = 0, alarms = 0, outputs = 0, unseen = 0;
  for (const auto* e : chosen) {
    const museum::Shown shown = museum::show(*e, workers);
    fmt::print("{}", names.empty() ? museum::show_line(shown) : museum::story(shown));
    if (e->scenario) {
      ++scenarios;
      continue;
    }
    ++all;
    if (shown.caught) ++killed;
    if (shown.missed_by_rules()) ++unseen;
    alarms += shown.false_alarms;
    outputs += shown.outputs;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("\n{} exhibits of state belong to scenarios; all usual rules together miss {} of {}; {:.1f} s\n",
             scenarios, unseen, all, seconds);
  fmt::print("killed {} of {}, equivalent 0, false alarms {} of {} outputs\n", killed, all, alarms, outputs);
  if (all == 0) return kNothingJudged;
  return killed == all && alarms == 0 ? kGreen : kFinding;
}

}  // namespace

}  // namespace assay

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{"Judges defects that shipped, each beside its correct counterpart"};
  app.name("assay museum");
  app.footer("Examples:\n  assay museum\n  assay museum 5");
  std::vector<std::string> names;
  bool table = false;
  app.add_option("exhibit", names, "Names or numbers: tells their story (default: all, a line each)");
  app.add_flag("--table", table, "Print the list as a Markdown table");
  int exit_code = kGreen;
  app.callback([&] { exit_code = visit(names, table); });
  return run_program(app, argc, argv, exit_code);
}
