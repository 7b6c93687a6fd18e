// assay kill-table: mutants of our own kernels, and what assay and the usual rules say of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

#include "cases/studies/museum/museum.hpp"
#include "cases/studies/mutants/kill.hpp"
#include "cases/studies/mutants/planted.hpp"
#include "cases/studies/mutants/provenance.hpp"
#include "cases/studies/mutants/report.hpp"
#include "harness/cli/program.hpp"
#include "harness/suites.hpp"
#include "reports/page_text.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlugin = "assay_backend_cpu_mutants.so";

struct KillArguments {
  mutants::KillOptions options;
  std::string directory, corpus, equivalent, out, sample, command;
  std::int64_t planted_keys = 4096;
  bool planted_alone = false, quiet = false, replay = false;
};

// What the whole table must reach, of the mutants that are not excused: what it has reached, 96 %, less one
// in a hundred, which a change of the kernels may cost by mutants that nobody has looked at yet.
constexpr double kLeastKilled = 0.95;

std::string among_suites(const std::string& name) { return suites_directory() + "/studies/" + name; }

// Beside the program of a build tree, or where an installation has it.
std::string mutants_directory() {
  const fs::path built = fs::path(program_directory()) / "mutants";
  const fs::path installed = fs::path(program_directory()).parent_path() / "lib" / "assay" / "mutants";
  for (const auto& directory : {built, installed})
    if (fs::exists(directory / "mutants.json") && fs::exists(directory / kPlugin)) return directory.string();
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("no mutants in {} or {}: build the targets assay_mutated_kernels and "
                               "assay_backend_cpu_mutants, or name their directory by --mutants",
                               built.string(), installed.string()));
}

void read_sample(const std::string& text, mutants::KillOptions& options) {
  if (text.empty()) return;
  int end = -1;
  if (std::sscanf(text.c_str(), "%d/%d%n", &options.offset, &options.every, &end) != 2 ||
      end != static_cast<int>(text.size()) || options.every < 1 || options.offset < 0 ||
      options.offset >= options.every)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("--sample {}: allowed: i/n with 0 <= i < n", text));
}

// Of n mutants drawn from a table of which a share p is killed, n (1 - p) survive on average, with a standard
// deviation of sqrt(n p (1 - p)). Two deviations more are allowed, and never all n.
std::size_t allowed_survivors(std::size_t n, double p) {
  const double count = static_cast<double>(n);
  const auto allowed = static_cast<std::size_t>(count * (1 - p) + 2 * std::sqrt(count * p * (1 - p)));
  return n == 0 ? 0 : std::min(allowed, n - 1);
}

int kill(KillArguments a) {
  const std::string commit = source_commit();  // before it can change
  read_sample(a.sample, a.options);
  a.options.generated = !a.planted_alone;
  if (a.replay) {
    if (a.corpus.empty()) a.corpus = among_suites("replay.cases");
    a.planted_keys = 0, a.options.correct = "";
  }
  const bool named = !a.options.only.empty();
  const bool whole = a.options.every == 1 && !named && !a.planted_alone && a.planted_keys > 0;
  if (a.directory.empty()) a.directory = mutants_directory();
  a.options.plugin = (fs::path(a.directory) / kPlugin).string();
  if (!a.quiet)
    a.options.progress = [](std::size_t done, std::size_t of) {
      if (done % 50 == 0 || done == of) fmt::print(stderr, "\r{} of {} mutants", done, of);
      if (done == of) fmt::print(stderr, "\n");
    };
  const auto list =
      mutants::read_excuses(a.equivalent.empty() ? among_suites("kill_table_equivalent.list") : a.equivalent);
  KillTable table = mutants::kill_table(
      read_suite(a.corpus.empty() ? among_suites("kill_table.cases") : a.corpus),
      mutants::read_manifest(a.directory + "/mutants.json"), list, known_backends(), a.options);
  const std::size_t chosen = table.generated();
  const std::size_t judged = table.total();  // of the chosen ones, those that are not excused
  const std::size_t survivors = table.survivors();
  if (a.planted_keys > 0) mutants::add_planted({a.planted_keys, a.options.jobs}, table);
  if (whole) {
    const auto known = known_backends();
    Workers workers(known);
    museum::add_exhibits(workers, table);
  }
  table.command = a.command;
  table.machine = machine();
  table.commit = commit;
  fmt::print("{}", kill_table_text(table));

  bool good = true;
  const auto require = [&](bool ok, const std::string& what) {
    if (!ok) fmt::print(stderr, "short: {}\n", what);
    good = good && ok;
  };
  if (named) {
    require(survivors == 0, fmt::format("--only: {} of {} survive", survivors, judged));
  } else if (a.replay) {
    require(table.differing(true) == table.differing(false),
            fmt::format("{} of {} mutants that differ in a bit survive",
                        table.differing(false) - table.differing(true), table.differing(false)));
  } else if (!whole && !a.planted_alone) {
    const std::size_t allowed = allowed_survivors(judged, kLeastKilled);
    require(survivors <= allowed, fmt::format("{} of {} survive; a sample of so many may have {} survivors",
                                              survivors, judged, allowed));
  }
  if (whole) {
    require(static_cast<double>(table.killed()) >= kLeastKilled * static_cast<double>(table.total()),
            fmt::format("{:.0f} % of the mutants that are not excused must be killed", 100 * kLeastKilled));
    require(100 * table.missed_by_all_rules(true) >= 30 * table.total(),
            "30 % of them must escape every usual rule on gaussian inputs");
  }
  require(table.list_faults.empty(),
          fmt::format("the list of equivalent mutants is wrong in {} places", table.list_faults.size()));
  require(table.correct.assay == 0, "no correct kernel may be accused");
  const auto caught = [&](const std::string& group) {
    return std::ranges::count_if(table.rows,
                                 [&](const KillRow& r) { return r.group == group && r.assay.all; });
  };
  if (a.planted_keys > 0) {
    require(caught("planted f16 P") == 23, "23 of 23 planted defects with 16-bit P must be killed");
    require(caught("planted fp8 P") >= 21, "21 of 23 planted defects with fp8 P must be killed");
  }
  if (!a.out.empty()) write_kill_table(table, a.out);
  fmt::print("{}\n", a.out.empty()
                         ? "no report written: --out DIR writes kill_table.{txt,json,html}"
                         : "written: " + fs::absolute(a.out).string() + "/kill_table.{txt,json,html}");
  fmt::print("{}\n", table.last_line());
  // Nothing that could have been killed was run.
  if (good && (a.planted_alone ? table.total() == 0 : chosen == 0 || judged == 0)) {
    fmt::print(stderr, "{}\n",
               chosen == 0 ? "no mutant was chosen" : "every mutant that was chosen is excused");
    return kNothingJudged;
  }
  return good ? kGreen : kFinding;
}

}  // namespace

}  // namespace assay

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{"Judges mutants of our own kernels, by assay and by the usual rules"};
  app.name("assay kill-table");
  app.footer("Example:\n  assay kill-table --sample 0/40 --planted 0");
  KillArguments a;
  a.options.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  app.add_option("--mutants", a.directory, "Directory of the plug-in of mutants and of mutants.json");
  app.add_option("--corpus", a.corpus, "Case file (default: cases/suites/studies/kill_table.cases)");
  app.add_option("--equivalent", a.equivalent,
                 "List of equivalent mutants (default: cases/suites/studies/kill_table_equivalent.list)");
  app.add_option("--out", a.out, "Directory for kill_table.{txt,json,html}; without it nothing is written");
  app.add_option("--sample", a.sample, "i/n: every n-th mutant, from the i-th on");
  app.add_option("--only", a.options.only, "These mutants alone")->delimiter(',');
  app.add_flag(
      "--replay", a.replay,
      "Judge by replay (suite replay.cases, no planted defects): every mutant that differs from the correct "
      "kernel in one bit of one output must be killed");
  app.add_flag("--first", a.options.first,
               "Of each mutant the first case that kills it: what the usual rules say is not asked");
  app.add_flag("--planted-alone", a.planted_alone,
               "The planted defects alone, none of the generated mutants");
  app.add_option("--correct", a.options.correct, "Backend whose variants must not be accused; empty: none");
  app.add_option("--planted", a.planted_keys, "Keys of the planted defects of attention; 0: none");
  app.add_option("--jobs,-j", a.options.jobs, "Mutants side by side")->check(CLI::Range(1, 1024));
  app.add_option("--timeout", a.options.timeout_seconds, "Seconds that one run may take")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--quiet,-q", a.quiet, "No progress");
  a.command = command_line("assay kill-table", argc, argv);
  int exit_code = kGreen;
  app.callback([&] { exit_code = kill(a); });
  return run_program(app, argc, argv, exit_code);
}
