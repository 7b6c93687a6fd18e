// assay laws: relations between calls of one kernel, which need no reference and no backend to know of them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "harness/cli/commands.hpp"
#include "harness/cli/commit.hpp"
#include "harness/cli/promises.hpp"
#include "harness/cli/stoppable.hpp"
#include "harness/plan.hpp"
#include "harness/shell.hpp"
#include "harness/suites.hpp"
#include "reference/near_names.hpp"
#include "reports/file.hpp"
#include "reports/laws.hpp"

namespace assay {
namespace {

struct LawArguments {
  std::vector<std::string> words, backends;
  std::string law, markdown, json;
  int at = 0;
  bool at_given = false;
  double timeout_seconds = 10, budget_seconds = 0;
  std::uint64_t seed = 1;
  bool verbose = false;

  std::string command() const {
    std::string text = "assay laws";
    for (const auto& w : words) text += " " + shell_quoted(w);
    for (const auto& b : backends) text += " -b " + shell_quoted(b);
    if (!law.empty()) text += " --law " + law;
    if (at_given) text += fmt::format(" --at {}", at);
    if (seed != 1) text += fmt::format(" --seed {}", seed);
    return text;
  }
};

// Each as `assay run` would plan it: those that were given, or one for each format that a backend takes.
std::vector<Case> cases_of(const LawArguments& a, const std::vector<BackendInfo>& known,
                           const InputLists& lists, Workers& workers) {
  const auto lines =
      a.words.empty() ? lines_for_laws(a.backends, a.seed, false, lists, workers) : gather_lines(a.words);
  std::vector<Case> cases = planned_cases(lines, a.backends, a.seed, known, lists, workers);
  std::ranges::stable_sort(cases, {}, &Case::backend);
  return cases;
}

int run_laws(const LawArguments& a, const InputLists& lists, std::span<const Law> laws,
             const StopSignals& signals) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> names;
  for (const Law& law : laws) names.emplace_back(law.name);
  if (!a.law.empty() && std::ranges::find(names, a.law) == names.end())
    throw unknown_name("law", a.law, names);
  if (a.at_given && a.law.empty())
    throw InputError(InputErrorKind::bad_value, "--at: it needs a --law whose points it counts");
  const auto known = known_backends();
  Workers workers(known, stopped_by(signals));
  JudgeOptions options;
  options.timeout = milliseconds(a.timeout_seconds);
  const auto cases = cases_of(a, known, lists, workers);
  std::vector<LawResult> results;
  std::size_t left = 0;
  for (const Case& c : cases) {
    if (signals.stopped()) throw Stopped{};
    if (a.budget_seconds > 0 &&
        std::chrono::steady_clock::now() - start > std::chrono::duration<double>(a.budget_seconds)) {
      ++left;
      continue;
    }
    LawCall base{c, {}};
    try {
      base.inputs = make_inputs(c, lists);
    } catch (const InputError& e) {
      fmt::print(stderr, "assay: {}: {}\n", c.line(), e.what());
      continue;
    }
    for (const Law& law : laws) {
      if (!a.law.empty() && law.name != a.law) continue;
      std::optional<LawResult> r;
      try {
        r = check_law(law, base, workers, lists, options,
                      a.at_given ? std::optional<std::int64_t>(a.at) : std::nullopt);
      } catch (const InputError& e) {  // the reference has no truth of it, or the contract cannot be read
        r = LawResult{};
        r->law = &law, r->c = c, r->why = e.what();
      }
      if (!r) continue;
      if (r->red() || (a.verbose && r->outcome != LawOutcome::bitwise)) fmt::print("{}\n", describe(*r));
      results.push_back(std::move(*r));
    }
  }
  if (results.empty()) {
    fmt::print(stderr, "assay: no law says anything of these cases\n");
    return kNothingJudged;
  }
  const std::string table = law_table(results);
  const auto red = std::ranges::count_if(results, &LawResult::red);
  const auto executed =
      std::ranges::count_if(results, [](const LawResult& r) { return r.outcome != LawOutcome::not_run; });
  fmt::print("\n{}\n{} laws checked on {} cases{}; {} broken\n", table, results.size(), cases.size(),
             left > 0 ? fmt::format(" ({} were left when the budget was spent)", left) : "", red);
  if (!a.markdown.empty()) write_report(a.markdown, table);
  if (!a.json.empty()) write_report(a.json, law_json(a.command(), ASSAY_COMMIT, results));
  return red > 0 ? kFinding : executed > 0 ? kGreen : kNothingJudged;
}

}  // namespace

void add_laws(const Command& program, int& exit_code, const InputLists& lists, std::span<const Law> laws) {
  auto a = std::make_shared<LawArguments>();
  const Command command = program.subcommand(
      "laws", "Check relations between calls of one kernel: batch invariance, chunks, order, pages, replay");
  command.option("cases", a->words, "Case lines; none: one for each op and format that the backend takes");
  command.option("--backend,-b", a->backends, "What is judged, as for run",
                 {.required = true, .split = backend_names});
  command.option("--law", a->law,
                 "This law alone: batch, order, chunk, heads, pages, padding, replay, calls, paths");
  command.option("--at", a->at, "This relation of it alone: a count of rows, a cut",
                 {.low = -1e9, .high = 1e9});
  command.option("--seed", a->seed, "For cases that name none", {.shown = "1"});
  command.option("--timeout", a->timeout_seconds, "Seconds, as for run", {.low = 0.001, .high = 86400});
  command.option("--budget", a->budget_seconds, "Seconds after which no further case is begun",
                 {.low = 0.001, .high = 1e9});
  command.option("--markdown", a->markdown, "Write the table of laws, ops and formats to this file");
  command.option("--json", a->json, "Write every law on every case to this file (reports/schema.md)");
  command.flag("--verbose,-v", a->verbose, "Facts too: each law that is not bitwise");
  command.footer(
      "Examples:\n  assay laws 'softmax rows=40 cols=1000' -b cpu --law batch\n  assay laws 'attention "
      "heads=4 kv_heads=2 d=64 q=9 len=100 mask=causal' -b cpu");
  command.callback([command, a, &exit_code, lists, laws] {
    a->at_given = command.count("--at") > 0;
    exit_code = until_stopped([&](const StopSignals& signals) { return run_laws(*a, lists, laws, signals); });
  });
}

}  // namespace assay
