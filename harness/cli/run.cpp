// assay run: cases against backends.
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <memory>
#include <thread>

#include "harness/cli/commands.hpp"
#include "harness/runner.hpp"
#include "harness/suites.hpp"
#include "reference/parallel.hpp"
#include "reports/reporter.hpp"

namespace assay {
namespace {

struct RunArguments {
  std::vector<std::string> words;
  PlanOptions plan;
  int jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  double timeout_seconds = 10;
  int repeats = 0;
  std::string shard, junit, json;
  ConsoleDetail detail;
};

void parse_shard(const std::string& text, PlanOptions& options) {
  if (text.empty()) return;
  int consumed = 0;
  if (std::sscanf(text.c_str(), "%d/%d%n", &options.shard, &options.shards, &consumed) != 2 ||
      consumed != static_cast<int>(text.size()) || options.shards < 1 || options.shard < 0 ||
      options.shard >= options.shards)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("--shard {}: allowed: i/n with 0 <= i < n", text));
}

// Opens each backend of the plan once: its description heads the report, and a device that is missing ends
// the run before it begins.
std::vector<std::string> describe_backends(const Plan& plan, Workers& workers) {
  std::map<std::string, std::string> described;
  for (const auto& g : plan.groups)
    for (const auto& c : g.cases) {
      if (described.contains(c.backend)) continue;
      described[c.backend] = fmt::format("{}: {}", c.backend, workers.open(c.backend).description);
    }
  std::vector<std::string> rows;
  for (auto& [name, text] : described) rows.push_back(std::move(text));
  return rows;
}

std::string command_of(const RunArguments& a) {
  std::string text = "assay run";
  for (const auto& w : a.words) text += fmt::format(" '{}'", w);
  for (const auto& b : a.plan.backends) text += " --backend " + b;
  if (!a.plan.filter.empty()) text += fmt::format(" --filter '{}'", a.plan.filter);
  if (a.plan.seed_given) text += fmt::format(" --seed {}", a.plan.seed);
  if (!a.shard.empty()) text += " --shard " + a.shard;
  return text;
}

int run(RunArguments a, const InputLists& lists) {
  const auto start = std::chrono::steady_clock::now();
  // Each case makes and drops tensors of megabytes: keep the pages instead of having the kernel clear new ones.
  mallopt(M_MMAP_THRESHOLD, 1 << 25);  // the most that is taken
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  parse_shard(a.shard, a.plan);
  const auto known = known_backends();
  Workers workers(known);
  const auto variants = [&](const std::string& backend) { return workers.open(backend).variants; };
  const Plan plan = make_plan(gather_lines(a.words), a.plan, known, lists, variants);
  if (plan.cases == 0) {
    fmt::print(stderr, "assay: no case is left{}{}\n", a.plan.filter.empty() ? "" : " after --filter ",
               a.plan.filter);
    return kNothingExecuted;
  }

  std::vector<std::unique_ptr<Reporter>> reporters;
  reporters.push_back(console_reporter(a.detail));
  if (!a.junit.empty()) reporters.push_back(junit_reporter(a.junit));
  if (!a.json.empty()) reporters.push_back(json_reporter(a.json));
  const RunHeader header{command_of(a), describe_backends(plan, workers), plan.cases, a.jobs, a.plan.shard,
                         a.plan.shards};
  for (auto& r : reporters) r->begin(header);

  JudgeOptions options;
  options.timeout = std::chrono::milliseconds(static_cast<long>(1000 * a.timeout_seconds));
  options.repeats = a.repeats;
  // What cases side by side leave of the machine, a large case uses within itself.
  const auto groups = static_cast<int>(std::min<std::size_t>(plan.groups.size(), 1024));
  set_reference_threads(a.jobs / std::max(1, std::min(a.jobs, groups)));
  auto expected = expectations();
  Summary summary;
  run_plan(plan, known, a.jobs, options, [&](CaseResult& r) {
    apply_expectations(expected, r.c, r.verdict);
    summary.add(r);
    for (auto& reporter : reporters) reporter->result(r);
  });
  for (const Expectation* e : stale(expected))
    summary.stale.push_back(fmt::format("{}: {} {}", e->where, to_string(e->status), e->set.print()));
  summary.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (auto& r : reporters) r->end(summary);
  // A run of expected gaps only executed no kernel: that must not look like success.
  if (summary.green() && summary.executed == 0) return kNothingExecuted;
  return summary.green() ? kGreen : kFinding;
}

}  // namespace

void add_run(const Command& program, int& exit_code, const InputLists& lists) {
  auto arguments = std::make_shared<RunArguments>();
  const Command command = program.subcommand("run", "Run cases against backends");
  command.option(
      "cases", arguments->words,
      "Case lines ('softmax rows=4 cols=64 dtype=f16'), suite names (assay list suites) or *.cases "
      "files; none: the main job, which is every suite without a / in its name");
  command.option(
      "--backend,-b", arguments->plan.backends,
      "For cases that name none: NAME[:options] or a plug-in's path, separated by commas (default: cpu and "
      "onednn, as far as they were built)",
      {.split = backend_names});
  command.option("--filter,-f", arguments->plan.filter,
                 "Keep the cases whose line matches this regular expression");
  command.option("--seed", arguments->plan.seed, "For cases that name none", {.shown = "1"});
  command.option("--shard", arguments->shard, "i/n: run part i of n");
  command.option("--jobs,-j", arguments->jobs, "Cases run side by side", {.low = 1, .high = 1024});
  command.option("--timeout", arguments->timeout_seconds, "Seconds that one run of a kernel may take",
                 {.low = 0.001, .high = 86400});
  command.option("--repeats", arguments->repeats,
                 "Further runs of each case, all of which must give the same bits",
                 {.low = 0, .high = 1'000'000});
  command.option("--junit", arguments->junit, "Write JUnit XML to this file");
  command.option("--json", arguments->json, "Write the results as JSON to this file");
  command.flag("--quiet,-q", arguments->detail.quiet, "Findings and the summary only");
  command.flag("--verbose,-v", arguments->detail.verbose,
               "Every format in the table, known findings one by one, and where the time went");
  command.footer(
      "Examples:\n"
      "  assay run 'softmax rows=4 cols=33,1000 dtype=f32,bf16 fill=gaussian,peaked'\n"
      "  assay run norms transforms --backend cpu --json norms.json\n"
      "  assay run 'attention heads=4 d=64 len=512 kv=f16,q8_0 variant=all' -b cpu -v");
  command.callback([command, arguments, &exit_code, lists] {
    arguments->plan.seed_given = command.count("--seed") > 0;
    exit_code = run(*arguments, lists);
  });
}

}  // namespace assay
