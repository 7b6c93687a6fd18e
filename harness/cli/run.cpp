// assay run: cases against backends.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "harness/budget.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/commit.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/promises.hpp"
#include "harness/cli/run_arguments.hpp"
#include "harness/cli/run_cost.hpp"
#include "harness/cli/run_made.hpp"
#include "harness/cli/run_order.hpp"
#include "harness/cli/stoppable.hpp"
#include "harness/expectations.hpp"
#include "harness/runner.hpp"
#include "harness/smallest_seen.hpp"
#include "harness/strangers.hpp"
#include "harness/worker/process.hpp"
#include "reference/near_names.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kShareOfLaws = 0.25;  // of the budget, the most that promised laws take

// Opens each backend of the plan once: its description heads the report, and a device that is missing ends
// the run before it begins.
std::map<std::string, std::string> describe_backends(const Plan& plan, Workers& workers) {
  std::map<std::string, std::string> described;
  for (const auto& g : plan.groups)
    for (const auto& c : g.cases)
      if (!described.contains(c.backend)) described[c.backend] = workers.open(c.backend).description;
  return described;
}

// A plan in which no backend has the op of any of its cases is a slip of the pen, and no list of gaps, unless
// the list of expectations has it. Throws InputError.
void refuse_ops_of_none(const Plan& plan, Workers& workers, const std::vector<Expectation>& expected) {
  std::set<std::string> asked, here;
  Verdict gap;
  gap.status = Status::unsupported;
  for (const auto& g : plan.groups)
    for (const auto& c : g.cases) {
      if (std::ranges::any_of(expected, [&](const Expectation& e) { return explains(e, c, gap); })) return;
      const std::vector<std::string> ops = workers.open(c.backend).ops;
      if (ops.empty() || std::ranges::find(ops, c.op->name) != ops.end()) return;
      asked.emplace(c.op->name);
      here.insert(ops.begin(), ops.end());
    }
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("no backend of this run has a kernel of {}; allowed: {}",
                               fmt::join(asked, ", "), fmt::join(here, " ")));
}

// What is wrong with the variant of the plan's first case, where its backend lists none of such a name: a
// list need not be whole, so that it is told when nothing was judged.
std::string unknown_variant(const Plan& plan, Workers& workers) {
  const Case& c = plan.groups.front().cases.front();
  if (c.variant.empty()) return "";
  std::vector<std::string> allowed;
  for (const std::string& name : workers.open(c.backend).variants)
    if (const auto variant = variant_for(*c.op, name)) allowed.push_back(*variant);
  if (std::ranges::find(allowed, c.variant) != allowed.end()) return "";
  if (allowed.empty()) return fmt::format("backend '{}' has no variants of {}", c.backend, c.op->name);
  return fmt::format("backend '{}' has no variant '{}' of {}; {}", c.backend, c.variant, c.op->name,
                     suggest(c.variant, allowed));
}

// Where the results go as they come, when no --record says so: beside the report, while that is not there
// yet. What an earlier run left at that place, because it was killed, is kept under another name.
std::string record_beside(const RunArguments& a) {
  for (const std::string& report : a.reports) {
    struct stat found{};
    if (report.empty()) continue;
    if (stat(report.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) continue;
    const std::string path = report + ".jsonl";
    if (lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode))
      std::rename(path.c_str(), (path + ".old").c_str());
    return path;
  }
  return "";
}

// All that listens to a run. What one of them cannot write is told at the end, and hides no finding.
class Outputs {
 public:
  explicit Outputs(const RunArguments& a) : arguments_(a) {
    reporters_.push_back(console_reporter(a.detail));
    for (std::size_t i = 0; i < report_kinds().size(); ++i)
      if (!a.reports[i].empty()) reporters_.push_back(report_kinds()[i].make(a.reports[i]));
  }

  void begin(const RunHeader& header, const RecordHeader& run, const Record* resumed) {
    record_path_ = resumed != nullptr ? arguments_.resume : arguments_.record;
    if (record_path_.empty()) {
      record_path_ = record_beside(arguments_);
      passing_ = true;
    }
    if (!record_path_.empty()) record_.emplace(record_path_, run, resumed);
    for (auto& r : reporters_) r->begin(header);
  }
  void found(const CaseResult& r) {
    for (auto& reporter : reporters_) reporter->found(r);
  }
  void finished(std::size_t place, const CaseResult& r) {
    if (record_) record_->result(place, r);
    found(r);
  }
  void in_order(const CaseResult& r) {
    for (auto& reporter : reporters_) reporter->result(r);
  }
  // False when something could not be written.
  bool end(const Summary& s) {
    bool written = true;
    const auto failed = [&](const std::string& what) {
      complain(what);
      written = false;
    };
    if (record_) record_->end(s);
    if (record_ && !record_->failure().empty())
      failed(fmt::format("record '{}' could not be continued: {}", record_path_, record_->failure()));
    for (auto& reporter : reporters_) {
      try {
        reporter->end(s);
      } catch (const std::exception& e) {
        failed(e.what());
      }
    }
    if (!record_path_.empty() && passing_ && written && s.ended_by.empty())
      unlink(record_path_.c_str());
    else if (!record_path_.empty() && !s.ended_by.empty())
      fmt::print("go on with: assay run --resume {}{}\n", record_path_,
                 record_ ? " --chain " + record_->chain() : "");
    return written;
  }

 private:
  const RunArguments& arguments_;
  std::vector<std::unique_ptr<Reporter>> reporters_;
  std::string record_path_;
  bool passing_ = false;  // the record is removed once the reports are there
  std::optional<RecordWriter> record_;
};

int run(RunArguments a, const InputLists& lists, std::span<const Law> laws, const StopSignals& signals) {
  const auto start = std::chrono::steady_clock::now();
  // Each case makes and drops tensors of megabytes: keep the pages instead of having the kernel clear new
  // ones.
  mallopt(M_MMAP_THRESHOLD, 1 << 25);  // the most that is taken
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::optional<Record> resumed;
  if (!a.resume.empty()) {
    resumed = read_record(a.resume);
    if (!a.chain.empty() && a.chain != resumed->chain)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("--chain {}: the record '{}' ends with {}: it was written to since",
                                   excerpt(a.chain), a.resume, resumed->chain));
    take_from(resumed->header, a);
  }
  RunSettings settings;
  settings.jobs = a.jobs;
  settings.memory_bytes = a.memory_gib * kGiB;
  settings.judge.timeout = milliseconds(a.timeout_seconds);
  settings.judge.repeats = a.repeats;
  settings.judge.isolate = a.isolate;
  settings.judge.strict = a.strict;
  settings.workers.open_timeout = std::max(settings.workers.open_timeout, settings.judge.timeout);
  settings.workers.stop_descriptor = signals.descriptor();
  if (!a.sandbox.empty()) {
    // Address space is reserved far beyond what is used: four times what there is stops a worker that runs
    // away, no other.
    const double bytes = settings.memory_bytes > 0 ? settings.memory_bytes : 4 * bytes_available();
    settings.workers.sandbox = {std::filesystem::absolute(a.sandbox).string(),
                                static_cast<std::int64_t>(bytes)};
  }
  const auto known = known_backends();
  if (a.words.empty() && are_strangers(a.plan.backends, known)) a.words = {std::string(kStrangers)};
  const bool generated = std::ranges::find(a.words, kStrangers) != a.words.end();
  const double budget = a.budget_seconds > 0 ? a.budget_seconds : generated ? kStrangersBudget : 0;
  if (!resumed && generated) a.most_made = cases_within(budget, a.jobs);
  auto begun = start;  // of the budget: once the cases are made
  // Before it is, no budget is spent: a run on a busy machine says something.
  std::atomic<bool> judged_one = false;
  const auto spent = [&] {
    return budget > 0 && judged_one &&
           std::chrono::steady_clock::now() - begun > std::chrono::duration<double>(budget);
  };
  std::atomic<bool> found_one = false;  // with --exitfirst
  settings.stopped = [&] { return signals.stopped() || spent() || found_one; };

  Workers workers(known, settings.workers);
  const auto variants = [&](const std::string& backend) { return workers.open(backend).variants; };
  MadeSuite made = suite_of(a, generated, known, lists, workers);
  const Plan plan = make_plan(made.lines, a.plan, known, lists, variants);
  if (plan.cases == 0) {
    PlanOptions whole = a.plan;
    whole.filter.clear();
    const Plan all = a.plan.filter.empty() ? Plan{} : make_plan(made.lines, whole, known, lists, variants);
    fmt::print(stderr, "assay: no case is left{}\n",
               all.cases == 0
                   ? ""
                   : fmt::format(" after --filter {}, a regular expression that is looked for in each "
                                 "case's line; of {} the first is: {}",
                                 a.plan.filter, all.cases, all.groups.front().cases.front().line()));
    for (const auto& [name, count] : plan.elsewhere)
      fmt::print(stderr, "assay: {} case{} backend={}, which --backend does not name\n", count,
                 count == 1 ? " requires" : "s require", name);
    return kNothingJudged;
  }
  if (a.list_only && a.cost) {
    set_reference_threads(1);
    return tell_cost(plan, a.jobs, workers, settings.judge);
  }
  if (a.list_only) {
    for (const Group& g : plan.groups)
      for (const Case& c : g.cases) fmt::print("{}\n", c.line());
    return kGreen;
  }
  if (resumed) settings.known = results_of(*resumed, plan);
  auto expected = expectations();
  for (const std::string& file : a.expected)
    for (Expectation& e : read_expectations(file)) expected.push_back(std::move(e));

  settings.order = failed_first(plan, a.failed_first, a.detail.quiet);
  refuse_ops_of_none(plan, workers, expected);
  Outputs outputs(a);
  outputs.begin({a.command(), ASSAY_COMMIT, describe_backends(plan, workers), plan.cases, a.jobs,
                 a.plan.shard, a.plan.shards, plan.elsewhere, weights_of(plan)},
                a.header(plan), resumed ? &*resumed : nullptr);

  // What cases side by side leave of the machine, a large case uses within itself.
  const auto groups = static_cast<int>(std::min<std::size_t>(plan.groups.size(), 1024));
  set_reference_threads(a.jobs / std::max(1, std::min(a.jobs, groups)));
  std::vector<Expectation> of_generated;
  if (generated) of_generated = parse_expectations(kOfMade, "strangers");
  settings.explained = [&](const Case& c, const Verdict& v) {
    const auto says = [&](const Expectation& e) { return explains(e, c, v); };
    return v.green() || std::ranges::any_of(expected, says) || std::ranges::any_of(of_generated, says);
  };
  Summary summary;
  bool all_unsupported = true;
  std::optional<SmallestSeen> smallest;
  if (generated) smallest.emplace(SmallestSeen::of_the_study(lists));
  // False for a case that is no part of the suite after all.
  const auto count = [&](CaseResult& r) {
    judged_one = true;
    all_unsupported = all_unsupported && r.verdict.status == Status::unsupported;
    if (generated && MadeSuite::leaves_out(r.verdict.status)) {
      summary.leave_out(r);
      return false;
    }
    if (smallest) smallest->add(r);
    apply_expectations(of_generated, r.c, r.verdict);
    apply_expectations(expected, r.c, r.verdict);
    summary.add(r);
    if (a.first_only && !r.verdict.green()) found_one = true;
    return true;
  };
  for (auto& [place, r] : settings.known) {
    count(r);
    outputs.found(r);
  }
  // What a backend promises of calls beside each other is part of its suite: of the whole, once, and not of a
  // part of it.
  std::map<std::string, std::vector<SuiteLine>> of_laws;
  if (generated && a.plan.filter.empty() && a.plan.shard == 0)
    for (const auto& backend : judged_backends(a, known))
      of_laws[backend] = lines_for_laws({backend}, a.plan.seed, true, lists, workers);
  begun = std::chrono::steady_clock::now();
  std::size_t broken_promises = 0;  // results beside those of the plan
  if (!of_laws.empty()) {
    const auto out_of_time = [&] {
      const std::chrono::duration<double> past = std::chrono::steady_clock::now() - begun;
      return settings.stopped() || past.count() > kShareOfLaws * budget;
    };
    const auto broken = [&](CaseResult& r) {
      count(r);
      outputs.finished(plan.cases + broken_promises++, r);
      outputs.in_order(r);
    };
    for (const auto& [backend, lines] : of_laws) {
      const std::size_t before = broken_promises;
      const PromisesJudged judged = judge_promises(lines, backend, a.plan.seed, laws, known, lists, workers,
                                                   settings.judge, out_of_time, broken);
      summary.laws_left += judged.left;
      if (judged.checked > 0 && !a.detail.quiet)
        fmt::print("{} promises laws: {} checked, {} broken\n", backend, judged.checked,
                   broken_promises - before);
    }
  }
  if (generated) workers.asked();  // what they take, and promised laws
  settings.opened = &workers;
  RunEvents events;
  events.finished = [&](std::size_t place, CaseResult& r) {
    if (count(r)) outputs.finished(place, r);
  };
  events.in_order = [&](CaseResult& r) {
    if (!generated || !MadeSuite::leaves_out(r.verdict.status)) outputs.in_order(r);
  };
  if (!run_plan(plan, known, settings, events) && !signals.stopped()) {
    summary.left = plan.cases + broken_promises - summary.cases - summary.left_out;
  } else if (signals.stopped()) {
    summary.ended_by = signal_name(signals.signal());
  } else {
    if (!generated)
      for (const Expectation* e : stale(expected))  // of a part of the run they say nothing
        summary.stale.push_back(fmt::format("{}: {} {}{}", e->where, e->verdicts(), e->set.print(),
                                            e->expired ? fmt::format(" (expired {})", e->until) : ""));
  }
  summary.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (smallest) summary.smallest = a.detail.verbose ? smallest->by_format() : smallest->by_op();
  const bool written = outputs.end(summary);
  if (!summary.ended_by.empty()) return 128 + signals.signal();
  if (std::string why = all_unsupported ? unknown_variant(plan, workers) : ""; !why.empty()) {
    fmt::print(stderr, "assay: {}\n", why);
    return kUsage;
  }
  if (summary.headline() == kNotGreen) return kFinding;
  if (!written) return kCannotRun;
  return summary.green() ? kGreen : kNothingJudged;
}

}  // namespace

void add_run(const Command& program, int& exit_code, const InputLists& lists, std::span<const Law> laws) {
  auto arguments = std::make_shared<RunArguments>();
  const Command command = program.subcommand("run", "Run cases against backends");
  add_run_options(command, *arguments);
  command.footer(
      "Examples:\n"
      "  assay run 'softmax rows=4 cols=33,1000 dtype=f32,bf16 fill=gaussian,peaked'\n"
      "  assay run norms transforms --backend cpu --json norms.json --record norms.jsonl\n"
      "  assay run --resume norms.jsonl\n"
      "  assay run 'attention heads=4 d=64 len=512 kv=f16,q8_0 variant=all' -b cpu -v");
  command.callback([command, arguments, &exit_code, lists, laws] {
    complete(*arguments, command);
    exit_code =
        until_stopped([&](const StopSignals& signals) { return run(*arguments, lists, laws, signals); });
  });
}

}  // namespace assay
