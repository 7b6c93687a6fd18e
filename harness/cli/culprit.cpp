// assay export, assay shrink, assay repro: a case with its data in one file, the smallest that still fails,
// and a script that shows it.
#include "harness/culprit/repro.hpp"
#include "harness/culprit/shrink.hpp"

#include <fmt/format.h>

#include <memory>

#include "harness/budget.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/commit.hpp"
#include "harness/cli/stoppable.hpp"
#include "reference/parallel.hpp"
#include "reports/file.hpp"

namespace assay {
namespace {

using culprit::Finding;
using culprit::Provenance;
using culprit::Specimen;

const Provenance kProvenance{ASSAY_VERSION, ASSAY_COMMIT};

struct Arguments {
  std::string word, backend, file, text, counterpart, counterpart_variant;
  double budget_seconds = 25, timeout_seconds = 10;
};

void require_case_file(const std::string& path) {
  if (!is_case_file(path))
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("--out '{}': a case file is named PATH.safetensors", path));
}

struct Judged {
  Specimen specimen;
  Finding finding;
};

// The case of the command line, judged once.
Judged judged(const Arguments& a, const InputLists& lists, const StopSignals& signals) {
  const auto known = known_backends();
  Workers workers(known, stopped_by(signals));
  const Case c = culprit::one_case(a.word, a.backend);
  if (const double bytes = bytes_needed(c), here = bytes_available(); bytes > here)
    throw InputError(InputErrorKind::bad_value, fmt::format("{}: it needs {} of memory, and there are {}",
                                                            c.line(), byte_text(bytes), byte_text(here)));
  (void)workers.open(c.backend);
  Specimen specimen{c, make_inputs(c, lists)};
  JudgeOptions judge;
  judge.timeout = milliseconds(a.timeout_seconds);
  Finding finding = culprit::judge_specimen(specimen, lists, workers, judge);
  return {std::move(specimen), std::move(finding)};
}

int export_case(const Arguments& a, const InputLists& lists, const StopSignals& signals) {
  require_case_file(a.file);
  const auto [specimen, finding] = judged(a, lists, signals);
  write_report(a.file, print_case_file(culprit::case_file_of(specimen, finding, kProvenance)));
  fmt::print("{}: {}{}{}\n", specimen.c.line(), to_string(finding.symptom.status),
             finding.result.verdict.summary.empty() ? "" : ": ", finding.result.verdict.summary);
  fmt::print("written: {}; judge it with: assay run {}\n", a.file, a.file);
  return kGreen;
}

int shrink_case(const Arguments& a, const InputLists& lists, const StopSignals& signals) {
  require_case_file(a.file);
  const auto known = known_backends();
  Workers workers(known, stopped_by(signals));
  const Case c = culprit::one_case(a.word, a.backend);
  const std::string description = workers.open(c.backend).description;
  culprit::ShrinkOptions options;
  options.budget = milliseconds(a.budget_seconds);
  options.judge.timeout = milliseconds(a.timeout_seconds);
  options.counterpart = a.counterpart;
  options.counterpart_variant = a.counterpart_variant;
  if (!a.counterpart.empty()) (void)workers.open(a.counterpart);
  options.stopped = [&] { return signals.stopped(); };
  const culprit::Shrunk shrunk = culprit::shrink(c, lists, workers, options);
  const Status status = shrunk.first.symptom.status;
  if (shrunk.judged == 1) {
    fmt::print("{}: {}: there is nothing to shrink\n", c.line(), to_string(status));
    return status == Status::pass ? kGreen : kNothingJudged;
  }
  if (!shrunk.repeats)
    fmt::print("the finding is not there again in a new process: the case is kept as it was given\n");
  const std::string text =
      culprit::issue_text(shrunk, a.file, kProvenance, fmt::format("backend {}: {}", c.backend, description));
  write_report(a.file, print_case_file(culprit::case_file_of(shrunk.specimen, shrunk.finding, kProvenance)));
  if (!a.text.empty()) write_report(a.text, text);
  fmt::print("{}\n{} cases judged{}\nfrom     {}\nto       {}\nwritten  {}\n", text, shrunk.judged,
             shrunk.done ? "" : "; the budget ended before nothing smaller was left", c.line(),
             shrunk.specimen.c.line(), a.file);
  return kFinding;
}

int repro_case(const Arguments& a, const InputLists& lists, const StopSignals& signals) {
  const auto [specimen, finding] = judged(a, lists, signals);
  if (finding.result.verdict.green()) {
    fmt::print(stderr, "{}: {}: there is nothing to show\n", specimen.c.line(),
               to_string(finding.symptom.status));
    return kNothingJudged;
  }
  const std::string script = culprit::repro_script(specimen, finding, kProvenance,
                                                   choose_backend(specimen.c.backend, known_backends()));
  if (a.file.empty()) {
    fmt::print("{}", script);
  } else {
    write_report(a.file, script);
    fmt::print("written  {}; run it with: python3 {}\n", a.file, a.file);
  }
  return kFinding;
}

using Run = int (*)(const Arguments&, const InputLists&, const StopSignals&);
void add(const Command& command, Run run, const std::shared_ptr<Arguments>& arguments, int& exit_code,
         const InputLists& lists, std::string_view out = "The file to write: PATH.safetensors",
         bool required = true) {
  command.option("case", arguments->word, "A case line, or a case file (*.safetensors)", {.required = true});
  command.option("--backend,-b", arguments->backend, "The backend, in place of the one in the line");
  command.option("--out,-o", arguments->file, std::string(out), {.required = required});
  command.option("--timeout", arguments->timeout_seconds,
                 "Seconds of processor time that a thread may take in one run of a kernel",
                 {.low = 0.001, .high = 86400});
  command.callback([run, arguments, &exit_code, lists] {
    set_reference_threads(available_processors());
    exit_code = until_stopped([&](const StopSignals& signals) { return run(*arguments, lists, signals); });
  });
}

}  // namespace

void add_export(const Command& program, int& exit_code, const InputLists& lists) {
  auto arguments = std::make_shared<Arguments>();
  const Command command =
      program.subcommand("export", "Write a case with its data, truth and limits into one file");
  add(command, export_case, arguments, exit_code, lists);
  command.footer(
      "Example:\n  assay export 'softmax rows=1 cols=4' -b cpu -o softmax.safetensors\n"
      "  assay run softmax.safetensors");
}

void add_shrink(const Command& program, int& exit_code, const InputLists& lists) {
  auto arguments = std::make_shared<Arguments>();
  const Command command =
      program.subcommand("shrink", "From a failing case to the smallest that still fails alike");
  add(command, shrink_case, arguments, exit_code, lists);
  command.option("--budget", arguments->budget_seconds, "Seconds", {.low = 0.1, .high = 86400});
  command.option("--counterpart", arguments->counterpart,
                 "A backend that must pass each smaller case: another build, the release before");
  command.option("--counterpart-variant", arguments->counterpart_variant, "Its variant");
  command.option("--text", arguments->text, "Also write the text for an issue into this file");
  command.footer(
      "Example:\n  assay shrink 'attention heads=2 d=64 len=256 fill=abyss backend=museum "
      "variant=max_from_half_f16' -o small.safetensors\n  assay run small.safetensors");
}

void add_repro(const Command& program, int& exit_code, const InputLists& lists) {
  auto arguments = std::make_shared<Arguments>();
  const Command command = program.subcommand("repro", "A finding as a script that needs nothing of assay");
  add(command, repro_case, arguments, exit_code, lists, "The script to write (default: standard output)",
      false);
  command.footer(
      "It prints the exact value of the worst element, what the kernel made of it and the interval that the "
      "declared\n"
      "arithmetic allows, in at most 60 lines of Python, for the issue tracker of whose kernel it is. A "
      "finding that\n"
      "takes a run to see (leak, overrun, unwritten, nondeterministic, crash, hang and their kin) becomes a "
      "script\n"
      "that runs the kernel between unmapped pages, in poison, and says what it sees.\n"
      "Example:\n  assay repro 'softmax rows=1 cols=96 fill=extreme backend=museum "
      "variant=max_of_first_warp' -o repro.py");
}

}  // namespace assay
