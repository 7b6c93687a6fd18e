// assay identify: which arithmetic ran, from the bits alone.
#include <fmt/format.h>

#include <optional>

#include "cases/lists.hpp"
#include "cases/studies/identify/card_cases.hpp"
#include "cases/studies/identify/matmul_cases.hpp"
#include "harness/backend_names.hpp"
#include "harness/cli/program.hpp"
#include "harness/plan.hpp"
#include "harness/suites.hpp"
#include "reference/ops/op.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

int identify(const Options& options) {
  set_reference_threads(options.threads);
  CardList list(options.json);
  std::optional<AnswerFile> answers;
  if (!options.record.empty()) answers.emplace(options.record, AnswerFile::Mode::write);
  if (!options.answers.empty()) answers.emplace(options.answers, AnswerFile::Mode::read);
  const auto known_list = known_backends();
  Workers workers(known_list);
  const Kernels kernels{workers, answers ? &*answers : nullptr};
  const Plan plan = make_plan(gather_lines(options.words), {options.backends, "", 0, 1, false, 1}, known_list,
                              input_lists(), [&](const std::string& b) { return workers.open(b).variants; });
  std::vector<Case> cases;
  for (const Group& group : plan.groups) cases.insert(cases.end(), group.cases.begin(), group.cases.end());
  for (const Case& c : cases)
    if (c.op->name != "matmul" && c.op->name != "attention" && c.op->name != "moe" &&
        !has_row_schedule(c.op->name))
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format(
              "identify: op {}; allowed: matmul, moe, attention, softmax, logsumexp, rmsnorm, layernorm, wht",
              c.op->name));
  MatmulCases matmul(options, kernels, list);
  AttentionCases attention(options, kernels, list);
  RowCases rows(options, kernels, list);
  MoeCases moe(options, kernels, list);
  for (const Case& c : cases)
    if (c.op->name == "matmul") matmul.expect(c);
  for (const Case& c : cases) {
    if (c.op->name == "attention")
      attention.take(c);
    else if (c.op->name == "moe")
      moe.take(c);
    else if (c.op->name == "matmul")
      matmul.take(c);
    else
      rows.take(c);
  }
  rows.finish();
  attention.finish();
  list.finish();
  const bool finding = rows.finding || attention.finding || moe.finding || matmul.finding;
  const bool nothing = rows.nothing && attention.nothing && moe.nothing && matmul.nothing;
  return nothing ? kNothingJudged : finding ? kFinding : kGreen;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{"Finds the schedule of a kernel's sums from its outputs, and proves it bit by bit"};
  app.name("assay identify");
  app.footer(
      "Examples:\n  assay identify 'matmul m=4,64 n=64 k=512 a=bf16 dtype=f32' -b cpu\n"
      "  assay identify 'matmul m=1,16,64 n=64 k=512 a=f32 dtype=f32' -b onednn --invariance");
  Options options;
  app.add_option(
         "case", options.words,
         "Case lines of matmul (sets of m, n and k are the shapes), moe, attention, softmax, logsumexp, "
         "rmsnorm, layernorm or wht")
      ->required();
  std::string backends;
  app.add_option("--backend,-b", backends, "Whose kernels");
  app.add_option("--json", options.json, "Write the cards to this file");
  app.add_option_function<double>(
         "--outputs", [&](double outputs) { options.outputs = static_cast<std::int64_t>(outputs); },
         "Outputs to compare for each shape, at least")
      ->check(CLI::Range(1.0, 1e12));
  app.add_option("--masks", options.masks, "Most calls with masks for each shape; 0: none")
      ->check(CLI::Range(0, 1000));
  app.add_option("--seconds", options.seconds, "Of search for each shape and family of schedules, at most")
      ->check(CLI::Range(0.1, 1e6));
  app.add_option("--threads", options.threads, "Threads of the search")->check(CLI::Range(1, 1024));
  app.add_option("--schedule", options.schedule,
                 "Judge instead: every stored bit must be that of this schedule, or the first step that "
                 "differs is named");
  CLI::Option* record = app.add_option(
      "--record", options.record, "Keep what the kernels answer in this file, for --answers on any machine");
  app.add_option("--answers", options.answers, "Ask this file in place of the kernels")->excludes(record);
  app.add_flag("--invariance", options.invariance,
               "Whether all values of m, of rows, or of batch, q and len have one schedule");
  int exit_code = kGreen;
  app.callback([&] {
    if (!backends.empty()) options.backends = typed_backends(backends);
    exit_code = identify(options);
  });
  return run_program(app, argc, argv, exit_code);
}
