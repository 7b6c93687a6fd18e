// assay attribution: what `assay attribute` says of defects whose stage is known, and how often it is right.
//
// The corpus (corpus.json) was fixed before there was a hypothesis: exhibits of the museum by hand, generated
// mutants by the source line that they change (stages.list); a list for --corpus may have kernels of other
// plug-ins too. A row has one stage, or several that no output tells apart, any of which is right. precision
// = right / named, recall = right / all: `unknown` counts against recall alone.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>

#include "cases/attribution/attribute.hpp"
#include "cases/attribution/exhibits.hpp"
#include "cases/lists.hpp"
#include "cases/studies/attribution/labels.hpp"
#include "cases/studies/museum/exhibits.hpp"
#include "cases/studies/mutants/mutant_list.hpp"
#include "harness/backend_names.hpp"
#include "harness/cli/program.hpp"
#include "harness/json_list.hpp"
#include "harness/suite_text.hpp"

namespace assay {
namespace {

struct Row {
  std::string name;  // "museum max_from_half_f16", "backends/cpu/attention.cpp: a -> b", a plug-in's variant
  std::string stages;  // separated by commas
  std::string where;
  std::string line;  // the case with its backend
  std::string half;  // of a list whose rows say so
  int number = 0;    // in the corpus, whatever this build lacks: which half a row is in never changes
};

struct Options {
  std::string corpus = ASSAY_CORPUS, mutants, filter, half;
  std::vector<std::string> kill_tables;  // to be listed
  int every = 1, offset = 0;
  std::vector<int> numbers;  // these rows alone; empty: all
  bool verbose = false, museum_alone = false;
  double least_precision = 0, least_recall = 0;  // in per cent
};

std::string mutants_folder(const Options& o) {
  return o.mutants.empty() ? program_directory() + "/mutants" : o.mutants;
}

std::vector<Row> corpus(const Options& o) {
  const std::string folder = mutants_folder(o);
  const auto manifest = mutants::read_manifest(folder + "/mutants.json");
  const std::string plugin = escaped_path(folder + "/assay_backend_cpu_mutants.so");
  std::vector<Row> rows;
  int number = 0;
  for (const JsonRow& row : parse_json_list(read_text(o.corpus, "corpus"), o.corpus)) {
    Row r{"", row.text("stages"), row.optional_text("where"), "", row.optional_text("half"), number++};
    if (const std::string exhibit = row.optional_text("exhibit"); !exhibit.empty()) {
      const auto found = std::ranges::find(museum::exhibits(), exhibit, &museum::Exhibit::name);
      if (found == museum::exhibits().end()) row.refuse(fmt::format("there is no exhibit '{}'", exhibit));
      const auto near = std::ranges::find(attribution::exhibits(), exhibit, &attribution::Exhibit::name);
      if (near == attribution::exhibits().end() || near->stages != r.stages)
        row.refuse(fmt::format("cases/attribution/exhibits.cpp says otherwise of '{}'", exhibit));
      r.name = "museum " + exhibit;
      const std::string other = row.optional_text("case");  // than the exhibit's own
      r.line = fmt::format("{} backend=museum variant={}", other.empty() ? found->line : other, exhibit);
    } else if (const std::string kernels = row.optional_text("plugin"); !kernels.empty()) {
      r.name = row.text("variant");
      r.line = fmt::format("{} backend={} variant={}", row.text("case"), escaped_path(kernels), r.name);
    } else {
      std::int64_t left = row.integer("which", 1, 1000);
      int id = 0;
      for (const auto& m : manifest)
        if (m.file == row.text("file") && m.text == row.text("text") && m.before == row.text("before") &&
            m.after == row.text("after") && --left == 0)
          id = m.id;
      if (id == 0) {
        fmt::print(stderr, "{}: this build has no such mutant\n", row.where());
        continue;
      }
      r.name = fmt::format("{} {}: {} -> {}", id, row.text("file"), row.text("before"), row.text("after"));
      r.line = fmt::format("{} backend={}:{}", row.text("case"), plugin, id);
    }
    rows.push_back(std::move(r));
  }
  return rows;
}

bool is_right(const std::string& stages, const std::string& stage) {
  std::istringstream words(stages);
  for (std::string word; std::getline(words, word, ',');)
    if (word == stage) return true;
  return false;
}

// These stages, and all of `one` where one of them is among it.
std::string together(const std::string& stages, const std::string& one) {
  std::istringstream words(one);
  for (std::string word; std::getline(words, word, ',');)
    if (is_right(stages, word)) return stages + "," + one;
  return stages;
}

// Labels that no observation of a kernel tells apart count as one. README.md has the argument of each.
std::string merged(const Row& r, const Case& c, Status status, const std::string& what) {
  const auto has = [&](std::string_view label) { return r.stages == label; };
  std::string stages = r.stages;
  if (c.op->name == "kv_write" && has("codec")) stages += ",kv_write";
  if ((status == Status::overrun || status == Status::unwritten) && has("output")) stages += ",addressing";
  if (c.op->name == "attention" && has("pv") &&
      r.name.find(": weights[j] -> weights[j] in ") != std::string::npos)
    stages += ",p_cast";
  if (c.op->name == "matmul" && r.name.find("epilogue_scale(") != std::string::npos) stages += ",scale";
  if (c.op->name == "matmul" && r.name.find(": f32_at(*planes.scale") != std::string::npos)
    stages = together(stages, "codec,scale");
  if (has("addressing") && r.name.find(": load<") != std::string::npos)
    stages += c.op->name == "matmul"                          ? ",codec,scale"
              : r.line.find("sinks=yes") != std::string::npos ? ",codec,sink"
                                                              : ",codec";
  if (what == "scale: 0 times the truth" || what == "scale: -0 times the truth")
    stages = together(stages, c.op->name == "attention" ? "mask,exp,p_cast,pv,output"
                              : c.op->name == "matmul"  ? "addressing,codec,dot,scale,output"
                                                        : "");
  if (what.starts_with("scale: logits are 0 times")) stages = together(stages, "addressing,codec,qk,scale");
  return stages;
}

struct Count {
  int all = 0, named = 0, right = 0, runs = 0, where = 0, where_right = 0;
  void add(const Row& r, const attribution::Attribution& a) {
    ++all;
    runs += a.runs;
    if (a.stage != "unknown") ++named;
    if (is_right(r.stages, a.stage)) ++right;
    if (!r.where.empty()) ++where, where_right += (a.where + ",").starts_with(r.where + ",") ? 1 : 0;
  }
  std::string print() const {
    return fmt::format("{:>5} {:>6} {:>6} {:>10.1f} {:>8.1f} {:>6.1f}", all, named, right,
                       named > 0 ? 100.0 * right / named : 0.0, all > 0 ? 100.0 * right / all : 0.0,
                       all > 0 ? static_cast<double>(runs) / all : 0.0);
  }
};

int measure(const Options& o) {
  const auto start = std::chrono::steady_clock::now();
  const auto known = known_backends();
  std::map<std::string, Count> by_op, by_stage, by_kind;
  Count total;
  std::vector<Row> rows = corpus(o);
  for (Row& r : rows) {
    if (r.number % o.every != o.offset || r.name.find(o.filter) == std::string::npos) continue;
    if (!o.half.empty() && r.half != o.half) continue;
    if (!o.numbers.empty() && std::ranges::find(o.numbers, r.number) == o.numbers.end()) continue;
    const bool exhibit = r.name.starts_with("museum ");
    if (o.museum_alone && !exhibit) continue;
    Workers workers(known);
    const Case c = expand(parse_case(r.line)).front();
    JudgeOptions judge;
    judge.timeout = std::chrono::milliseconds(2000);
    const attribution::Attribution a = attribution::attribute(c, input_lists(), workers, judge);
    if (a.first.verdict.status == Status::pass) {
      fmt::print("passes    {} | {}\n", r.name, r.line);
      continue;
    }
    const std::string op(c.op->name), label = r.stages;
    r.stages = merged(r, c, a.first.verdict.status, a.what);
    by_op[op].add(r, a), by_stage[label].add(r, a), total.add(r, a);
    by_kind[exhibit ? "museum" : "mutants"].add(r, a);
    const bool right = is_right(r.stages, a.stage);
    if (o.verbose || (!right && a.stage != "unknown")) {
      fmt::print("{} {} for {} | row {} {} | {} | {} {}\n",
                 right                  ? "right    "
                 : a.stage == "unknown" ? "unknown  "
                                        : "wrong    ",
                 a.stage, r.stages, r.number, r.name, r.line.substr(0, r.line.find(" backend=")), a.what,
                 a.where);
      if (o.verbose)
        for (const auto& text : a.support) fmt::print("            + {}\n", text);
      if (o.verbose)
        for (const auto& text : a.against) fmt::print("            - {}\n", text);
    }
  }
  const auto table = [](const char* title, const std::map<std::string, Count>& counts) {
    fmt::print("\n{:<24}   all  named  right  precision   recall   runs\n", title);
    for (const auto& [key, count] : counts) fmt::print("{:<24} {}\n", key, count.print());
  };
  table("stage", by_stage);
  table("op", by_op);
  table("corpus", by_kind);
  fmt::print("{:<24} {}\n", "together", total.print());
  fmt::print("places named of those that have one: {} of {}\n", total.where_right, total.where);
  fmt::print("{:.0f} s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (total.all == 0) return kNothingJudged;
  const bool enough = total.named > 0 && 100.0 * total.right >= o.least_precision * total.named &&
                      100.0 * total.right >= o.least_recall * total.all;
  return enough ? kGreen : kFinding;
}

// A list of what the corpus does not have, from a kill table of this build.
int list_beyond(const Options& o) {
  const auto rows = attribution::beyond(
      o.kill_tables, o.corpus, mutants::read_manifest(mutants_folder(o) + "/mutants.json"),
      attribution::parse_labels(read_text(ASSAY_STAGES, "labels"), "stages.list"), ASSAY_SOURCE_DIR);
  fmt::print("{}", attribution::to_json(rows));
  return rows.empty() ? kNothingJudged : kGreen;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{"Attributes defects whose stage is known, and counts how often that is right"};
  app.name("assay attribution");
  Options o;
  app.add_option("--corpus", o.corpus, "The list of defects");
  app.add_option("--mutants", o.mutants, "Directory of the plug-in of mutants and of mutants.json");
  app.add_option("--filter", o.filter, "Rows whose name has this text");
  app.add_option("--half", o.half, "Of a list that has halves, as beyond.json, this one")
      ->check(CLI::IsMember({"looked_at", "held_out"}));
  app.add_option("--beyond", o.kill_tables,
                 "Measures nothing: prints what these kill_table.json kill and the corpus has not, with its "
                 "stages, as a list for --corpus")
      ->delimiter(',');
  app.add_option("--every", o.every, "Every so many-th row")->check(CLI::Range(1, 100000));
  app.add_option("--offset", o.offset, "From this one on");
  app.add_option("--rows", o.numbers, "Rows of these numbers alone, counted from 0")->delimiter(',');
  app.add_option("--least-precision", o.least_precision, "Per cent; less is a finding")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--least-recall", o.least_recall, "Per cent; less is a finding")
      ->check(CLI::Range(0.0, 100.0));
  app.add_flag("--museum-alone", o.museum_alone, "The exhibits alone");
  app.add_flag("--verbose,-v", o.verbose, "Every row with its evidence");
  int exit_code = kGreen;
  app.callback([&] { exit_code = o.kill_tables.empty() ? measure(o) : list_beyond(o); });
  return run_program(app, argc, argv, exit_code);
}
