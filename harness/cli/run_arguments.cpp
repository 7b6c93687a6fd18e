#include "harness/cli/run_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "harness/cli/commands.hpp"
#include "harness/shell.hpp"

namespace assay {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw InputError(InputErrorKind::bad_value, what); }

// All of the text as a number without a sign.
bool parse_whole(std::string_view text, int& value) {
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

void parse_shard(const std::string& text, PlanOptions& options) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || !parse_whole(std::string_view(text).substr(0, slash), options.shard) ||
      !parse_whole(std::string_view(text).substr(slash + 1), options.shards) ||
      options.shard >= options.shards)
    refuse(fmt::format("--shard {}: allowed: i/n with 0 <= i < n", text));
}

std::vector<std::string> one_word(const std::string& text) { return {text}; }

}  // namespace

std::string RunArguments::command() const {
  std::string text = "assay run";
  for (const auto& w : words) text += " " + shell_quoted(w);
  for (const auto& b : plan.backends) text += " --backend " + shell_quoted(b);
  if (!plan.filter.empty()) text += " --filter " + shell_quoted(plan.filter);
  if (plan.seed_given) text += fmt::format(" --seed {}", plan.seed);
  if (!shard.empty()) text += " --shard " + shard;
  if (timeout_seconds != RunArguments{}.timeout_seconds)
    text += fmt::format(" --timeout {}", timeout_seconds);
  if (budget_seconds > 0) text += fmt::format(" --budget {}", budget_seconds);
  if (repeats > 0) text += fmt::format(" --repeats {}", repeats);
  for (const auto& list : expected) text += " --expected " + shell_quoted(list);
  if (isolate) text += " --isolate";
  if (strict) text += " --strict";
  if (first_only) text += " --exitfirst";
  if (!sandbox.empty()) text += " --sandbox " + shell_quoted(sandbox);
  return text;
}

RecordHeader RunArguments::header(const Plan& made) const {
  return {command(),
          words,
          plan.backends,
          plan.filter,
          plan.seed_given ? fmt::format("{}", plan.seed) : "",
          shard,
          timeout_seconds,
          repeats,
          isolate,
          strict,
          sandbox,
          most_made,
          made.cases,
          plan_digest(made)};
}

void take_from(const RecordHeader& header, RunArguments& arguments) {
  arguments.words = header.words;
  arguments.plan.backends = header.backends;
  arguments.plan.filter = header.filter;
  arguments.plan.seed_given = !header.seed.empty();
  if (arguments.plan.seed_given) {
    const auto [end, error] =
        std::from_chars(header.seed.data(), header.seed.data() + header.seed.size(), arguments.plan.seed);
    if (error != std::errc{} || end != header.seed.data() + header.seed.size())
      refuse(fmt::format("the record's seed '{}' is none", header.seed));
  }
  arguments.shard = header.shard;
  if (!header.shard.empty()) parse_shard(header.shard, arguments.plan);
  arguments.timeout_seconds = header.timeout_seconds;
  arguments.repeats = header.repeats;
  arguments.isolate = header.isolate;
  arguments.strict = header.strict;
  arguments.sandbox = header.sandbox;
  arguments.most_made = header.most_made;
}

void complete(RunArguments& a, const Command& command) {
  if (a.cost && !a.list_only)
    refuse("--cost says what the cases of --list will take: assay run --list --cost");
  using Text = std::pair<std::string_view, const std::string*>;
  std::vector<Text> files = {{"--record", &a.record}, {"--resume", &a.resume}};
  for (std::size_t i = 0; i < report_kinds().size(); ++i)
    files.emplace_back(report_kinds()[i].option, &a.reports[i]);
  std::vector<Text> texts = {
      {"--shard", &a.shard}, {"--sandbox", &a.sandbox}, {"--chain", &a.chain}, {"--filter", &a.plan.filter}};
  texts.insert(texts.end(), files.begin(), files.end());
  for (const auto& [name, text] : texts)
    if (command.count(std::string(name)) > 0 && text->empty())
      refuse(fmt::format("{} '': it needs a value", name));
  if (command.count("--shard") > 0) parse_shard(a.shard, a.plan);
  a.plan.seed_given = command.count("--seed") > 0;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!files[i].second->empty() && *files[i].second == *files[j].second)
        refuse(fmt::format("{} and {} name one file: {}", files[j].first, files[i].first, *files[i].second));
  if (a.resume.empty() && !a.chain.empty()) refuse("--chain is what a record ends with, and needs --resume");
  if (a.resume.empty()) return;
  for (const char* name : {"cases", "--backend", "--filter", "--seed", "--shard", "--timeout", "--repeats",
                           "--isolate", "--strict", "--sandbox", "--record"})
    if (command.is_typed(name))
      refuse(fmt::format("--resume takes cases and options from the record, and no {}", name));
}

void add_run_options(const Command& command, RunArguments& a) {
  a.jobs = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
  command.option(
      "cases", a.words,
      "Case lines ('softmax rows=4 cols=64 dtype=f16'), suite names (assay list suites) or *.cases "
      "files; strangers: a suite made from what the backend takes, within --budget; none: that for plug-ins "
      "named by a path and for ggml, otherwise the main job, which is every suite without a / in its name");
  command.option("--backend,-b", a.plan.backends,
                 "What is judged: NAME[:options] or a plug-in's path, separated by commas; a case that names "
                 "another backend is "
                 "not run (default: cpu and onednn, as far as they were built, and what a case names)",
                 {.split = backend_names});
  command.option("--filter,-f", a.plan.filter, "Keep the cases whose line matches this regular expression");
  command.option("--seed", a.plan.seed, "For cases that name none", {.shown = "1"});
  command.option("--shard", a.shard, "i/n: run part i of n");
  command.option("--jobs,-j", a.jobs, "Cases run side by side", {.low = 1, .high = 1024});
  command.option(
      "--memory", a.memory_gib,
      "GiB that all jobs together may take; a case that needs more is too_big (default: four fifths of "
      "what is available)",
      {.low = 0.001, .high = 1e6});
  command.option("--timeout", a.timeout_seconds,
                 "Seconds of processor time that a thread may take in one run of a kernel; five times as "
                 "long by the clock",
                 {.low = 0.001, .high = 86400});
  command.option(
      "--budget", a.budget_seconds,
      "Seconds by the clock after which no further case is begun, though always one (default: none; 20 "
      "for the suite strangers)",
      {.low = 0.001, .high = 1e9});
  command.option("--repeats", a.repeats, "Further runs of each case, all of which must give the same bits",
                 {.low = 0, .high = 1'000'000});
  command.flag(
      "--isolate", a.isolate,
      "Make each further run of a case in a new process: finds kernels that remember what they computed");
  command.flag(
      "--strict", a.strict,
      "A pass that could not have shown an error of 10 % in half of its elements is red (blind), and so "
      "is one beyond what is likely (suspect)");
  command.flag("--exitfirst,-x", a.first_only, "Begin no further case once there is a finding");
  command.option("--failed-first", a.failed_first,
                 "A report (--json) or record of before: cases that were red in it are begun first; none "
                 "yet: as without");
  command.flag("--list", a.list_only, "Print the line of each case, and run none");
  command.flag(
      "--cost", a.cost,
      "With --list: the seconds and the memory that each case will take, from a few that are judged");
  command.option("--sandbox", a.sandbox,
                 "Let workers write into this folder alone, without network, other processes and more "
                 "address space than "
                 "--memory; refused where the machine cannot do that");
  a.reports.resize(report_kinds().size());
  for (std::size_t i = 0; i < report_kinds().size(); ++i)
    command.option(std::string(report_kinds()[i].option), a.reports[i], std::string(report_kinds()[i].help));
  command.option(
      "--record", a.record,
      "Append each result to this file as soon as it is there, as JSON Lines (with --json or --junit: to "
      "FILE.jsonl until they are written)");
  command.option(
      "--expected", a.expected,
      "A list of findings that are known, whose lines end with their reasons: they are green, and one that "
      "is not there any more is red (assay list known; --write-expected makes one)",
      {.split = one_word});
  command.option("--resume", a.resume, "Go on with the run whose record this is");
  command.option("--chain", a.chain,
                 "With --resume: what the record ends with, as the run said that was ended");
  command.flag("--quiet,-q", a.detail.quiet, "Findings and the summary only");
  command.flag("--verbose,-v", a.detail.verbose,
               "Every format in the table, known findings one by one, and where the time went");
}

}  // namespace assay
