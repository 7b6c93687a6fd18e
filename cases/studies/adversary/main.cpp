// assay adversary: the search for violations of the limits by kernels that keep their contract. Exit code 1
// when an error exceeds its limit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cases/studies/adversary/corpus.hpp"
#include "cases/studies/adversary/family.hpp"
#include "cases/studies/adversary/idle.hpp"
#include "cases/studies/adversary/needed_search.hpp"
#include "cases/studies/adversary/search.hpp"
#include "harness/cli/program.hpp"
#include "reference/near_names.hpp"

namespace assay::adversary {
namespace {

struct Options {
  std::vector<std::string> ops, replay, fixed;
  std::string jsonl, corpus, needed;
  std::vector<std::string> of, idle;
  std::uint64_t seed = 1;
  double seconds = 60;
  std::size_t outputs = 0;
  int climb = 24;
  bool words = false;
  std::string defect = "none";
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string json(const Finding& finding, std::string_view op) {
  return fmt::format(R"({{"op": "{}", "ratio": "{:.6g}", "contract": {}, "where": {}, "point": {}}})", op,
                     finding.shown.ratio, quoted(finding.shown.contract), quoted(finding.shown.where),
                     quoted(print(finding.point)));
}

int replay(const std::vector<std::string>& points) {
  bool violated = false;
  for (const std::string& text : points) {
    const Shown shown = show(parse_point(text));
    if (!shown.possible)
      fmt::print("refused: {}\n", shown.refusal);
    else
      fmt::print("ratio {:.6g}\n  contract  {}\n  worst     {}\n", shown.ratio, shown.contract, shown.where);
    violated = violated || shown.ratio > 1;
  }
  return violated ? kFinding : kGreen;
}

int run_corpus(const std::string& file) {
  bool violated = false;
  fmt::print("| case | ratio | worst |\n|---|---|---|\n");
  for (const KnownPoint& each : read_corpus(file)) {
    const Shown shown = show(parse_point(each.point));
    fmt::print("| {} | {} | {} |\n", each.name,
               shown.possible ? fmt::format("{:.4g}", shown.ratio) : "refused",
               shown.possible ? shown.where : shown.refusal);
    violated = violated || shown.ratio > 1;
  }
  return violated ? kFinding : kGreen;
}

std::vector<const Family*> chosen_families(const Options& o) {
  std::vector<const Family*> chosen;
  for (const Family& each : families())
    if (o.ops.empty() || std::ranges::find(o.ops, each.op) != o.ops.end() ||
        std::ranges::find(o.ops, each.name) != o.ops.end())
      chosen.push_back(&each);
  if (chosen.empty()) throw unknown_name("family or op", o.ops.front(), names_of(families()));
  return chosen;
}

Choices fixed_choices(const Options& o) {
  Choices fixed;
  for (const std::string& pair : o.fixed) {
    const std::size_t is = pair.find('=');
    if (is == std::string::npos)
      throw InputError(InputErrorKind::bad_value, "--fix " + pair + ": name=word is allowed");
    fixed[pair.substr(0, is)] = pair.substr(is + 1);
  }
  return fixed;
}

int run(const Options& o) {
  std::ofstream file;
  if (!o.jsonl.empty()) {
    file.open(o.jsonl);
    if (!file) throw InputError(InputErrorKind::bad_value, "cannot write " + o.jsonl);
  }
  const std::vector<const Family*> chosen = chosen_families(o);
  bool violated = false;
  std::size_t all = 0;
  fmt::print(
      "| family | contract | outputs | worst error / limit | points above 1 |\n|---|---|---|---|---|\n");
  std::vector<std::string> repros;
  for (const Family* each : chosen) {
    SearchOptions options;
    options.seed = o.seed, options.climb = o.climb, options.defect = o.defect;
    options.fixed = fixed_choices(o);
    options.seconds = o.seconds / static_cast<double>(chosen.size());
    options.outputs = o.outputs / chosen.size();
    options.found = [&](const Finding& finding) {
      if (file) file << json(finding, each->op) << std::endl;
    };
    for (const auto& [word, score] : search(*each, options)) {
      if (word.empty()) {
        all += score.outputs;
        violated = violated || score.violations > 0;
        repros.push_back(
            fmt::format("{}: {:.4g}\n  assay adversary --point '{}'", each->name, score.worst, score.repro));
      }
      if (word.empty() || o.words)
        fmt::print("| {} | {} | {} | {:.4g} | {} |\n", each->name, word.empty() ? "(all)" : word,
                   score.outputs, score.worst, score.violations);
    }
    std::fflush(stdout);
  }
  fmt::print("\n{} outputs attacked, seed {}\n\n", all, o.seed);
  for (const std::string& each : repros) fmt::print("{}\n", each);
  return violated ? kFinding : kGreen;
}

// Looks for points that need the rules, or the words; a line as each is found. Exit code 1 where one has
// none. With points: what each of them shows.
int find_needed(const Options& o) {
  if (o.needed != "rules" && o.needed != "words")
    throw InputError(InputErrorKind::bad_value, "--needed " + o.needed + ": rules or words are allowed");
  const std::vector<Wanted> wanted = o.needed == "rules" ? wanted_rules(o.of) : wanted_words(o.of);
  for (const std::string& text : o.replay) {
    const Point point = parse_point(text);
    const Run run = run_of(point);
    const std::vector<Truth> own = truths_of(point, run);
    for (const Wanted& each : wanted)
      if (each.op.empty() || each.op == family(point.family).op)
        if (const double need = each.need(point, run, own); need > 0)
          fmt::print("{:.6g} {}: {}\n", need, each.name,
                     need > 1 ? print(reduced(point, each)) : "not needed");
  }
  if (!o.replay.empty()) return kGreen;
  SearchOptions options;
  options.seed = o.seed, options.seconds = o.seconds, options.climb = o.climb;
  options.fixed = fixed_choices(o);
  const auto missing =
      find_all(wanted, chosen_families(o), options, [](const Wanted& each, const Point& point) {
        fmt::print("{}: {}\n", each.name, print(point));
        std::fflush(stdout);
      });
  for (const Wanted& each : missing) fmt::print("# without a point: {}\n", each.name);
  return missing.empty() ? kGreen : kFinding;
}

}  // namespace
}  // namespace assay::adversary

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{
      "Searches for errors beyond the limit: kernels that keep their contract, adverse orders and roundings"};
  adversary::Options options;
  int exit_code = kGreen;
  app.add_option("--op", options.ops, "ops or families; default all");
  app.add_option("--seed", options.seed, "of the whole search");
  app.add_option("--seconds", options.seconds, "of all families together");
  app.add_option("--outputs", options.outputs, "stop after so many judged outputs of all families together");
  app.add_option("--climb", options.climb, "changes that are tried from each drawn point");
  app.add_option("--defect", options.defect, "plant this defect in every kernel that has it");
  app.add_option("--fix", options.fixed,
                 "an attribute or a choice of the kernels that is not drawn: variance=welford");
  app.add_option("--jsonl", options.jsonl, "findings, a line of JSON each, as they come");
  app.add_flag("--words", options.words, "a row for each word of the contracts");
  app.add_option("--point", options.replay, "run these points instead of a search");
  app.add_option("--corpus", options.corpus, "run the points of this file instead of a search");
  app.add_option(
      "--needed", options.needed,
      "rules: finds a kernel that each rule of a limit is needed for; words: for each word of a contract; "
      "with --point: what it shows of them");
  app.add_option("--idle", options.idle,
                 "case lines: which words of a contract move no limit of these calls, and are not refused");
  app.add_option("--of", options.of, "with --needed: those that begin so");
  app.callback([&] {
    for (const std::string& line : options.idle) {
      fmt::print("{}", adversary::idle_words(line));
      std::fflush(stdout);
    }
    if (!options.idle.empty()) return;
    exit_code = !options.needed.empty()   ? adversary::find_needed(options)
                : !options.replay.empty() ? adversary::replay(options.replay)
                : !options.corpus.empty() ? adversary::run_corpus(options.corpus)
                                          : adversary::run(options);
  });
  return run_program(app, argc, argv, exit_code);
}
