// assay run: cases against backends.
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <memory>
#include <thread>

#include "harness/cli/commands.hpp"
#include "harness/cli/sources.hpp"
#include "harness/runner.hpp"
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
  bool quiet = false;
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
      const auto opened = workers.of(c.backend).worker->open();
      if (const auto* refused = std::get_if<reply::Refused>(&opened))
        throw std::runtime_error(fmt::format("backend '{}' cannot run here: {}", c.backend, refused->reason));
      described[c.backend] = fmt::format("{}: {}", c.backend, std::get<reply::Opened>(opened).description);
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

int run(RunArguments a) {
  const auto start = std::chrono::steady_clock::now();
  // Each case makes and drops tensors of megabytes: keep the pages instead of having the kernel clear new
  // ones.
  mallopt(M_MMAP_THRESHOLD, 1 << 25);  // the most that is taken
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  parse_shard(a.shard, a.plan);
  const auto known = known_backends();
  Workers workers(known);
  const auto variants = [&](const std::string& backend) {
    const auto opened = workers.of(backend).worker->open();
    if (const auto* refused = std::get_if<reply::Refused>(&opened))
      throw std::runtime_error(fmt::format("backend '{}' cannot run here: {}", backend, refused->reason));
    return std::get<reply::Opened>(opened).variants;
  };
  const Plan plan = make_plan(gather_lines(a.words), a.plan, known, variants);
  if (plan.cases == 0) {
    fmt::print(stderr, "assay: no case is left{}{}\n", a.plan.filter.empty() ? "" : " after --filter ",
               a.plan.filter);
    return kNothingExecuted;
  }

  std::vector<std::unique_ptr<Reporter>> reporters;
  reporters.push_back(console_reporter(a.quiet));
  if (!a.junit.empty()) reporters.push_back(junit_reporter(a.junit));
  if (!a.json.empty()) reporters.push_back(json_reporter(a.json));
  const RunHeader header{command_of(a), describe_backends(plan, workers), plan.cases, a.jobs, a.plan.shard,
                         a.plan.shards};
  for (auto& r : reporters) r->begin(header);

  RunOptions options;
  options.jobs = a.jobs;
  options.timeout = std::chrono::milliseconds(static_cast<long>(1000 * a.timeout_seconds));
  options.repeats = a.repeats;
  // What cases side by side leave of the machine, a large case uses within itself.
  const auto groups = static_cast<int>(std::min<std::size_t>(plan.groups.size(), 1024));
  set_reference_threads(a.jobs / std::max(1, std::min(a.jobs, groups)));
  auto expected = expectations();
  Summary summary;
  run_plan(plan, known, options, [&](CaseResult& r) {
    settle(expected, r.c, r.verdict);
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

void add_run(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run cases against backends");
  command->add_option(
      "cases", arguments->words,
      "Case lines ('softmax cols=64 dtype=f16'), suite names or *.cases files; none: every suite");
  command
      ->add_option("--backend,-b", arguments->plan.backends,
                   "For cases that name none (default: all that were built)")
      ->delimiter(',')
      ->allow_extra_args(false);  // what follows its value is a case
  command->add_option("--filter,-f", arguments->plan.filter,
                      "Keep the cases whose line matches this regular expression");
  command->add_option("--seed", arguments->plan.seed, "For cases that name none")->default_val(1);
  command->add_option("--shard", arguments->shard, "i/n: run part i of n");
  command->add_option("--jobs,-j", arguments->jobs, "Cases run side by side")->check(CLI::Range(1, 1024));
  command->add_option("--timeout", arguments->timeout_seconds, "Seconds that one run of a kernel may take")
      ->check(CLI::Range(0.001, 86400.0));
  command
      ->add_option("--repeats", arguments->repeats,
                   "Further runs of each case, all of which must give the same bits")
      ->check(CLI::Range(0, 1'000'000));
  command->add_option("--junit", arguments->junit, "Write JUnit XML to this file");
  command->add_option("--json", arguments->json, "Write the results as JSON to this file");
  command->add_flag("--quiet,-q", arguments->quiet, "Findings and the summary only");
  command->callback([command, arguments, &exit_code] {
    arguments->plan.seed_given = command->count("--seed") > 0;
    exit_code = run(*arguments);
  });
}

}  // namespace assay
