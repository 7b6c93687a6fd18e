// assay kill-table: mutants of our own kernels, and what assay and the usual rules say of them.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cases/museum/museum.hpp"
#include "cases/mutants/kill.hpp"
#include "cases/mutants/planted.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/sources.hpp"
#include "reports/kill_table.hpp"

namespace assay {
namespace {

struct KillArguments {
  mutants::KillOptions options;
  std::string directory = program_directory() + "/mutants";
  std::string corpus, equivalent, out = "reports";
  std::string sample;
  std::int64_t planted_keys = 4096;
  bool quiet = false;
};

std::string beside_suites(const std::string& name) { return suites_directory() + "/../mutants/" + name; }

int kill(KillArguments a) {
  if (!a.sample.empty() &&
      (std::sscanf(a.sample.c_str(), "%d/%d", &a.options.offset, &a.options.every) != 2 ||
       a.options.every < 1 || a.options.offset < 0 || a.options.offset >= a.options.every))
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("--sample {}: allowed: i/n with 0 <= i < n", a.sample));
  a.options.plugin = a.directory + "/assay_backend_cpu_mutants.so";
  if (!a.quiet)
    a.options.progress = [](std::size_t done, std::size_t of) {
      if (done % 50 == 0 || done == of) fmt::print(stderr, "\r{} of {} mutants", done, of);
      if (done == of) fmt::print(stderr, "\n");
    };
  auto equivalents =
      mutants::read_equivalents(a.equivalent.empty() ? beside_suites("equivalent.list") : a.equivalent);
  KillTable table = mutants::kill_table(
      read_suite(a.corpus.empty() ? beside_suites("corpus.cases") : a.corpus),
      mutants::read_manifest(a.directory + "/mutants.json"), equivalents, known_backends(), a.options);
  if (a.planted_keys > 0) mutants::add_planted({a.planted_keys, a.options.jobs}, table);
  if (a.options.only.empty() && a.options.every == 1) {
    const auto known = known_backends();
    Workers workers(known);
    museum::add_exhibits(workers, table);
  }
  if (a.options.every == 1 && a.options.only.empty())
    for (const auto& e : equivalents)
      if (!e.used)
        fmt::print("no mutant has this line of equivalent.list any more: {} @ {} @ {}\n", e.file, e.text,
                   e.change);
  if (!a.out.empty()) write_kill_table(table, a.out);
  fmt::print("{}", kill_table_text(table));
  const auto caught = [&](const std::string& group) {
    return std::ranges::count_if(table.rows,
                                 [&](const KillRow& r) { return r.group == group && r.assay.all; });
  };
  bool good = true;
  const auto require = [&](bool ok, const std::string& what) {
    if (!ok) fmt::print(stderr, "short: {}\n", what);
    good = good && ok;
  };
  // Of a sample one survivor is no rate.
  const std::size_t survivors = table.total() - table.killed();
  const bool whole = a.options.every == 1 && a.options.only.empty();
  require(table.total() > 0 && (100 * survivors <= table.total() || (!whole && survivors <= 1)),
          "99 % of the mutants must be killed");
  require(!whole || 100 * table.missed_by_all_rules(true) >= 30 * table.total(),
          "30 % of them must escape every usual rule on gaussian inputs");
  require(table.correct.assay == 0, "no correct kernel may be accused");
  if (a.planted_keys > 0) {
    require(caught("planted f16 P") == 23, "23 of 23 planted defects with 16-bit P must be killed");
    require(caught("planted fp8 P") >= 21, "21 of 23 planted defects with fp8 P must be killed");
  }
  fmt::print("{}\n", table.last_line());
  return good ? kGreen : kFinding;
}

}  // namespace

void add_kill_table(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<KillArguments>();
  a->options.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  CLI::App* command =
      app.add_subcommand("kill-table", "Judge mutants of our own kernels, by assay and by the usual rules");
  command->add_option("--mutants", a->directory, "Directory of the plug-in of mutants and of mutants.json");
  command->add_option("--corpus", a->corpus, "Case file (default: cases/mutants/corpus.cases)");
  command->add_option("--equivalent", a->equivalent,
                      "List of equivalent mutants (default: cases/mutants/equivalent.list)");
  command->add_option("--out", a->out, "Directory for kill_table.{txt,json,html}; empty: none");
  command->add_option("--sample", a->sample, "i/n: every n-th mutant, from the i-th on");
  command->add_option("--only", a->options.only, "These mutants alone")->delimiter(',');
  command->add_option("--correct", a->options.correct,
                      "Backend whose variants must not be accused; empty: none");
  command->add_option("--planted", a->planted_keys, "Keys of the planted defects of attention; 0: none");
  command->add_option("--jobs,-j", a->options.jobs, "Mutants side by side")->check(CLI::Range(1, 1024));
  command->add_option("--timeout", a->options.timeout_seconds, "Seconds that one run may take")
      ->check(CLI::Range(0.1, 3600.0));
  command->add_flag("--quiet,-q", a->quiet, "No progress");
  command->callback([a, &exit_code] { exit_code = kill(*a); });
}

}  // namespace assay
