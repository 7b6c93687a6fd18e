// assay: finds out whether LLM inference kernels compute what they claim, and by the path that they claim.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cases/attribution/report.hpp"
#include "cases/laws/laws.hpp"
#include "cases/lists.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/commit.hpp"
#include "harness/cli/program.hpp"
#include "harness/studies.hpp"
#include "reference/ops/formula/library.hpp"

namespace {

constexpr const char* kFooter =
    "A case is one line of text, the same in a suite, on the command line and in a repro:\n"
    "  OP key=value ...     a comma is a set, and sets multiply: cols=33,1000 dtype=f32,bf16 is four cases\n"
    "    attributes         of the op: assay manual OP lists them, with what is allowed and the defaults\n"
    "    fill=NAME          how the inputs are made; default gaussian (assay list fills)\n"
    "    seed=N             of the fill; default 1\n"
    "    fault=NAME         what is done to the inputs afterwards; default none (assay list faults)\n"
    "    layout=WORD        dense; gaps: poisoned space behind each row; unaligned: one unit of it\n"
    "                       behind each entry of each axis; far: rows 2^32 units apart\n"
    "    backend=NAME       in place of --backend; options follow a colon: cuda:guards=no\n"
    "                       or a plug-in's path, in which %20 is a blank and %2C a comma\n"
    "    variant=NAME       one kernel of the backend, or all (assay doctor -v lists them)\n"
    "  --op FILE.op         takes an op from a formula of your own (docs/formulas.md); -b formula:FILE runs "
    "it plainly\n"
    "\n"
    "Examples:\n"
    "  assay run 'softmax rows=4 cols=1000 dtype=f32,bf16 fill=gaussian,peaked,deep'\n"
    "  assay run softmax norms -b cpu\n"
    "  assay explain 'softmax rows=4 cols=1000 dtype=bf16' -b cpu\n"
    "  assay manual softmax\n"
    "  assay list verdicts\n"
    "\n"
    "Exit codes: 0 all green, 1 a finding, 2 wrong usage, 3 nothing was judged, 125 cannot be built or "
    "run.";

// The text of an attribution.
std::string attribute_case(const assay::Case& c, const assay::InputLists& lists, assay::Workers& workers,
                           const assay::JudgeOptions& options) {
  return assay::attribution::report(assay::attribution::attribute(c, lists, workers, options));
}

// Takes every "--op FILE.op" out of the command line (studies have an --op NAME of their own): the file's
// formula is an op from then on, in programs that are started too. Throws InputError.
std::vector<char*> with_formulas(int argc, char** argv) {
  std::vector<char*> left;
  std::string files;
  if (const char* had = std::getenv(assay::formula::kFilesVariable)) files = had;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool joined = word.starts_with("--op="), apart = word == "--op" && i + 1 < argc;
    if (!(joined && word.ends_with(".op")) && !(apart && std::string_view(argv[i + 1]).ends_with(".op"))) {
      left.push_back(argv[i]);
      continue;
    }
    files += (files.empty() ? "" : ":") + (joined ? word.substr(5) : std::string(argv[++i]));
  }
  if (!files.empty()) {
    setenv(assay::formula::kFilesVariable, files.c_str(), 1);
    (void)assay::formula::find("");  // a file that is none is told at once
  }
  return left;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace assay;
  if (!has_proc()) return kCannotRun;  // below it, formulas and studies are looked for beside the program
  int exit_code = kGreen;
  std::vector<char*> words;
  try {
    words = with_formulas(argc, argv);
  } catch (const InputError& e) {
    std::fprintf(stderr, "assay: %s\n", e.what());
    return kUsage;
  }
  words.push_back(nullptr);
  argc = static_cast<int>(words.size()) - 1;
  argv = words.data();
  std::vector<Study> studies;
  try {
    studies = known_studies();
  } catch (const InputError& e) {  // a list that is damaged does not end the commands that need none of it
    std::fprintf(stderr, "assay: %s\n", e.what());
  }
  // What stands behind the name of a study is the study's own, a "--" too.
  const auto named = [&](const Study& study) { return argc > 1 && study.name == argv[1]; };
  const int parsed = std::ranges::any_of(studies, named) ? 2 : argc;
  const auto add = [&](const Command& program) {
    add_run(program, exit_code, input_lists(), laws());
    add_compare(program, exit_code);
    add_history(program, exit_code);
    add_judge(program, exit_code);
    add_laws(program, exit_code, input_lists(), laws());
    add_speed(program, exit_code, input_lists());
    add_list(program, exit_code, input_lists());
    add_explain(program, exit_code, input_lists());
    add_contract(program, exit_code, input_lists());
    add_export(program, exit_code, input_lists());
    add_shrink(program, exit_code, input_lists());
    add_repro(program, exit_code, input_lists());
    add_attribute(program, exit_code, input_lists(), attribute_case);
    add_hunt(program, exit_code, input_lists(), laws(), attribute_case);
    add_manual(program, exit_code);
    add_doctor(program, exit_code);
    add_selftest(program, exit_code);
    for (const auto& study : studies)
      program.passed_on(study.name, study.what, "Studies").callback([study, argv] {
        become_study(study, argv + 2);
      });
  };
  return run_commands(
      "assay",
      "Judges kernels of LLM inference engines against a high-precision reference with proven error bounds.",
      kFooter, ASSAY_VERSION " (commit " ASSAY_COMMIT ", " ASSAY_BUILD ")", parsed, argv, exit_code, add);
}
