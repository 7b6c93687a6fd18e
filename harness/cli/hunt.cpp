// assay attribute, assay hunt: from a red result to the stage that is wrong, and to a story of it.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <tuple>

#include "harness/cli/commands.hpp"
#include "harness/cli/commit.hpp"
#include "harness/cli/hunt_laws.hpp"
#include "harness/cli/promises.hpp"
#include "harness/cli/stoppable.hpp"
#include "harness/culprit/shrink.hpp"
#include "harness/culprit/story.hpp"
#include "harness/expectations.hpp"
#include "harness/runner.hpp"
#include "harness/shell.hpp"
#include "harness/suites.hpp"
#include "reports/file.hpp"
#include "reports/laws.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> words;
  PlanOptions plan;
  std::string folder;
  double budget_seconds = 60, bisect_seconds = 1800, timeout_seconds = 10;
  int most = 3;
  bool laws = false;
  std::string repository, good, bad, build, plugin;
};

// One finding of each verdict, op, backend and variant, the first ones; with the history that it needs.
std::vector<CaseResult> findings(const Arguments& a, const InputLists& lists,
                                 const std::vector<BackendInfo>& known, Workers& workers,
                                 const StopSignals& signals, std::size_t& judged) {
  const Plan plan = make_plan(gather_lines(a.words, !a.plan.backends.empty()), a.plan, known, lists,
                              [&](const std::string& b) { return workers.open(b).variants; });
  RunSettings settings;
  settings.judge.timeout = milliseconds(a.timeout_seconds);
  settings.workers.stop_descriptor = signals.descriptor();
  settings.stopped = [&] { return signals.stopped(); };
  auto expected = expectations();
  std::vector<CaseResult> found;
  std::set<std::tuple<Status, const Op*, std::string, std::string>> kinds;
  RunEvents events;
  events.finished = [&](std::size_t, CaseResult& r) {
    ++judged;
    apply_expectations(expected, r.c, r.verdict);
    if (r.verdict.green()) return;
    if (kinds.emplace(r.verdict.status, r.c.op, r.c.backend, r.c.variant).second) found.push_back(r);
  };
  run_plan(plan, known, settings, events);
  fmt::print("{} cases judged, findings of {} kinds\n", judged, found.size());
  for (CaseResult& r : found)
    if (!r.after.empty()) r.c.after = r.after;
  return found;
}

// What `assay bisect` says of a case file or a line (`find`: its --find); it is a program of its own, which
// keeps what it has built and asked when its time is over.
std::string bisection(const Arguments& a, const std::string& asked, const std::string& find, double seconds) {
  if (a.good.empty()) return "";
  std::string command = shell_quoted(program_directory() + "/assay") + " bisect";
  for (const auto& [option, value] : {std::pair{"--repository", &a.repository},
                                      {"--good", &a.good},
                                      {"--bad", &a.bad},
                                      {"--build", &a.build},
                                      {"--backend", &a.plugin},
                                      {"--case", &asked},
                                      {"--find", &find}})
    if (!value->empty()) command += fmt::format(" {} {}", option, shell_quoted(*value));
  std::string text = command + "\n";
  FILE* pipe = popen(fmt::format("timeout {:.0f} {} 2>&1", std::ceil(seconds), command).c_str(), "r");
  if (pipe == nullptr) return text + "could not be started\n";
  std::array<char, 4096> part{};
  while (const std::size_t n = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), n);
  const int status = pclose(pipe);
  constexpr int kTimeIsOver = 124;  // of timeout(1)
  if (WIFEXITED(status) && WEXITSTATUS(status) == kTimeIsOver)
    text += "its time is over: the same command goes on from here\n";
  else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    text += fmt::format("it ended with {}\n", WIFEXITED(status) ? WEXITSTATUS(status) : status);
  return text;
}

void write_story(const culprit::Story& story, const std::string& base) {
  write_report(base + ".md", culprit::text_of(story));
  write_report(base + ".html", culprit::page_of(story));
}

// Laws that are broken: told behind the cases, numbered on.
std::size_t tell_laws(const Arguments& a, std::span<const Law> laws, const std::vector<BackendInfo>& known,
                      const LawHunt& hunt, std::size_t told) {
  const auto lines = a.words.empty()
                         ? lines_for_laws(a.plan.backends, a.plan.seed, false, hunt.lists, hunt.workers)
                         : gather_lines(a.words, !a.plan.backends.empty());
  std::vector<Case> cases;
  const Plan plan = make_plan(lines, a.plan, known, hunt.lists,
                              [&](const std::string& b) { return hunt.workers.open(b).variants; });
  for (const auto& group : plan.groups) cases.insert(cases.end(), group.cases.begin(), group.cases.end());
  const std::vector<LawResult> found = broken_laws(cases, laws, hunt);
  fmt::print("{} laws broken\n", found.size());
  const std::size_t most = std::min(found.size(), static_cast<std::size_t>(a.most));
  for (std::size_t i = 0; i < most && !hunt.stopped(); ++i) {
    const LawResult small =
        smallest_case(found[i], milliseconds(a.budget_seconds / static_cast<double>(most)), hunt);
    culprit::Story story;
    story.title = fmt::format("{}: law {}", found[i].c.op->name, found[i].law->name);
    story.found = describe(found[i]);
    story.shrunk = describe(small);
    story.attribution =
        "A law compares calls of one kernel, whose numbers may each be right: no stage is looked for.";
    story.bisection = bisection(a, small.c.line(), "law:" + std::string(found[i].law->name),
                                a.bisect_seconds / static_cast<double>(most));
    story.repeat = law_command(small) + "\n";
    const std::string base = fmt::format("{}/finding-{}", a.folder, told + i + 1);
    write_story(story, base);
    fmt::print("\n{}\nwritten: {}.md, .html\n", story.shrunk, base);
  }
  return found.size();
}

int hunt(const Arguments& a, const InputLists& lists, std::span<const Law> laws, const StopSignals& signals,
         AttributeCase attribute) {
  if (a.good.empty() != a.bad.empty() || (!a.good.empty() && (a.build.empty() || a.plugin.empty())))
    throw InputError(InputErrorKind::bad_value, "a history needs all of --good, --bad, --build and --plugin");
  fs::create_directories(a.folder);
  const auto known = known_backends();
  Workers workers(known, stopped_by(signals));
  std::size_t judged = 0;
  const std::vector<CaseResult> found = findings(a, lists, known, workers, signals, judged);
  const std::size_t told = std::min(found.size(), static_cast<std::size_t>(a.most));
  const culprit::Provenance provenance{ASSAY_VERSION, ASSAY_COMMIT};
  for (std::size_t i = 0; i < told && !signals.stopped(); ++i) {
    const CaseResult& r = found[i];
    const std::string base = fmt::format("{}/finding-{}", a.folder, i + 1);
    const std::string file = base + ".safetensors";
    culprit::ShrinkOptions options;
    options.budget = milliseconds(a.budget_seconds / static_cast<double>(told));
    options.judge.timeout = milliseconds(a.timeout_seconds);
    options.stopped = [&] { return signals.stopped(); };
    const std::string description =
        fmt::format("backend {}: {}", r.c.backend, workers.open(r.c.backend).description);
    const culprit::Shrunk shrunk = culprit::shrink(r.c, lists, workers, options);
    write_report(file, print_case_file(culprit::case_file_of(shrunk.specimen, shrunk.finding, provenance)));
    culprit::Story story;
    story.title = fmt::format("{}: {}", r.c.op->name, to_string(r.verdict.status));
    story.found = fmt::format("{}\n{}\n{}", r.c.line(), r.verdict.summary, r.verdict.detail);
    story.shrunk = culprit::issue_text(shrunk, fs::path(file).filename().string(), provenance, description);
    story.attribution = attribute(r.c, lists, workers, options.judge);
    story.bisection = bisection(a, file, "verdict", a.bisect_seconds / static_cast<double>(told));
    story.repeat = fmt::format("assay run {}\n{}\n", shell_quoted(file), repro_command(r));
    write_story(story, base);
    fmt::print("\n{}\nwritten: {}.md, .html, .safetensors\n", story.attribution, base);
  }
  if (told < found.size())
    fmt::print("{} more kinds of findings: --most {}\n", found.size() - told, found.size());
  std::size_t broken = 0;
  if (a.laws && !signals.stopped()) {
    JudgeOptions judge;
    judge.timeout = milliseconds(a.timeout_seconds);
    broken = tell_laws(a, laws, known, {lists, workers, judge, [&] { return signals.stopped(); }}, told);
  }
  if (signals.stopped()) return 128 + signals.signal();
  if (judged == 0) return kNothingJudged;
  return found.empty() && broken == 0 ? kGreen : kFinding;
}

struct One {
  std::string word, backend;
  double timeout_seconds = 10;
};

}  // namespace

void add_attribute(const Command& program, int& exit_code, const InputLists& lists, AttributeCase attribute) {
  auto a = std::make_shared<One>();
  const Command command =
      program.subcommand("attribute", "Say which stage of a kernel a failing case is wrong in");
  command.option("case", a->word, "A case line, or a case file (*.safetensors)", {.required = true});
  command.option("--backend,-b", a->backend, "The backend, in place of the one in the line");
  command.option("--timeout", a->timeout_seconds,
                 "Seconds of processor time that a thread may take in one run of a kernel",
                 {.low = 0.001, .high = 86400});
  command.footer(
      "Example:\n  assay attribute 'attention heads=2 d=64 len=96 fill=ramp backend=museum "
      "variant=rescale_skipped'");
  command.callback([a, &exit_code, lists, attribute] {
    exit_code = until_stopped([&](const StopSignals& signals) {
      const auto known = known_backends();
      Workers workers(known, stopped_by(signals));
      const Case c = culprit::one_case(a->word, a->backend);
      (void)workers.open(c.backend);
      JudgeOptions judge;
      judge.timeout = milliseconds(a->timeout_seconds);
      fmt::print("{}", attribute(c, lists, workers, judge));
      return kGreen;
    });
  });
}

void add_hunt(const Command& program, int& exit_code, const InputLists& lists, std::span<const Law> laws,
              AttributeCase attribute) {
  auto a = std::make_shared<Arguments>();
  const Command command = program.subcommand(
      "hunt", "Run cases; what is red is shrunk, attributed, and told in a text and a page of HTML");
  command.option("cases", a->words, "As of assay run");
  command.option("--backend,-b", a->plan.backends, "As of assay run", {.split = backend_names});
  command.option("--filter,-f", a->plan.filter, "Keep the cases whose line matches this regular expression");
  command.option("--out,-o", a->folder, "The folder for finding-N.md, .html and .safetensors",
                 {.required = true});
  command.option("--budget", a->budget_seconds, "Seconds for shrinking, all findings together",
                 {.low = 0.1, .high = 86400});
  command.option("--bisect-budget", a->bisect_seconds, "Seconds for bisecting, all findings together",
                 {.low = 1, .high = 86400});
  command.option("--most", a->most, "Findings that are told, one of each kind", {.low = 1, .high = 1000});
  command.option("--timeout", a->timeout_seconds,
                 "Seconds of processor time that a thread may take in one run of a kernel",
                 {.low = 0.001, .high = 86400});
  command.flag("--laws", a->laws, "The laws of `assay laws` on these cases as well");
  command.option("--repository", a->repository,
                 "The history in which each finding is bisected (assay bisect)");
  command.option("--good", a->good, "A commit of it without the finding");
  command.option("--bad", a->bad, "A commit of it with the finding");
  command.option("--build", a->build, "The command that builds a commit");
  command.option("--plugin", a->plugin, "The plug-in that the build leaves, a path inside the work tree");
  command.footer(
      "Example:\n  assay hunt softmax -b ./mine.so -o hunt\n"
      "With a history, in which each finding is bisected as well:\n"
      "  assay hunt softmax -b ./kernels.so -o hunt --repository . --good v1.0 --bad HEAD --build 'make "
      "kernels.so' "
      "--plugin kernels.so");
  command.callback([a, &exit_code, lists, laws, attribute] {
    exit_code =
        until_stopped([&](const StopSignals& signals) { return hunt(*a, lists, laws, signals, attribute); });
  });
}

}  // namespace assay
