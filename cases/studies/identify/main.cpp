// assay identify: which arithmetic ran, from the bits alone.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "cases/lists.hpp"
#include "cases/studies/identify/card.hpp"
#include "cases/studies/identify/card_cases.hpp"
#include "cases/studies/identify/invariance.hpp"
#include "cases/studies/identify/replay_level.hpp"
#include "cases/studies/identify/worker_subject.hpp"
#include "harness/backend_names.hpp"
#include "harness/cli/program.hpp"
#include "harness/plan.hpp"
#include "harness/suites.hpp"
#include "reference/ops/op.hpp"
#include "reference/parallel.hpp"
#include "reference/replay/declared.hpp"
#include "reports/file.hpp"

namespace assay {
namespace {

int identify(const Options& options) {
  set_reference_threads(options.threads);
  std::unique_ptr<ReportFile> file;
  if (!options.json.empty())
    file = std::make_unique<ReportFile>(options.json);  // refused now rather than at the end
  std::optional<AnswerFile> answers;
  if (!options.record.empty()) answers.emplace(options.record, AnswerFile::Mode::write);
  if (!options.answers.empty()) answers.emplace(options.answers, AnswerFile::Mode::read);
  const auto known_list = known_backends();
  Workers workers(known_list);
  const Kernels kernels{workers, answers ? &*answers : nullptr};
  const Plan plan = make_plan(gather_lines(options.words), {options.backends, "", 0, 1, false, 1}, known_list,
                              input_lists(), [&](const std::string& b) { return workers.open(b).variants; });
  std::map<std::string, Card> cards;
  std::vector<std::string> order;
  std::map<std::string, std::vector<Schedule>> found;
  AttentionCases attention(options, kernels);
  RowCases rows(options, kernels);
  MoeCases moe(options, kernels);
  bool finding = false, nothing = true;
  std::string json = "[\n";
  std::vector<Case> cases;
  for (const Group& group : plan.groups)
    for (const Case& c : group.cases) cases.push_back(c);
  std::map<std::string, std::unique_ptr<GemmSubject>> subjects;
  for (const Case& c : cases) {
    if (c.op->name == "attention") {
      attention.take(c);
      continue;
    }
    if (has_row_schedule(c.op->name)) {
      rows.take(c);
      continue;
    }
    if (c.op->name == "moe") {
      moe.take(c);
      continue;
    }
    if (c.op->name != "matmul")
      throw InputError(
          InputErrorKind::bad_value,
          fmt::format(
              "identify: op {}; allowed: matmul, moe, attention, softmax, logsumexp, rmsnorm, layernorm, wht",
              c.op->name));
    std::map<std::string, std::string> given = c.attributes.all();
    const GemmShape shape{c.attributes.integer("m"), c.attributes.integer("n"), c.attributes.integer("k")};
    std::string key = fmt::format("{} a={} b={} dtype={} path={} fill={} backend={}{}", c.op->name,
                                  given["a"], given["b"], given["dtype"], given["path"], c.fill, c.backend,
                                  c.variant.empty() ? "" : " variant=" + c.variant);
    if (!cards.contains(key)) {
      order.push_back(key);
      cards[key].subject = key;
      cards[key].backend = options.answers.empty() ? workers.open(c.backend).description
                                                   : "answers kept in " + options.answers;
      subjects[key] = worker_subject(c, kernels);
    }
    if (!options.schedule.empty()) {
      const Schedule declared = parse_schedule(options.schedule);
      const std::int64_t outputs = std::max<std::int64_t>(1, shape.m * shape.n);
      const int seeds =
          static_cast<int>(std::clamp<std::int64_t>((options.outputs + outputs - 1) / outputs, 2, 1000));
      const ReplayVerdict verdict = judge_by_replay(*subjects[key], shape, declared, seeds);
      fmt::print("{}  {}", c.line(), describe(verdict, declared));
      finding |= !verdict.ok(), nothing = false;
      continue;
    }
    Card& card = cards[key];
    ShapeCard one = identify_shape(*subjects[key], shape, found[key],
                                   {.most_mask_calls = options.masks,
                                    .least_outputs = options.outputs,
                                    .search_seconds = options.seconds});
    for (const RowPiece& p : one.pieces) {
      if (!p.schedule) continue;
      std::vector<Schedule>& list = found[key];
      std::vector<Schedule> candidates{*p.schedule};
      candidates.insert(candidates.end(), p.also.begin(), p.also.end());
      for (const Schedule& s : candidates)
        if (std::ranges::find(list, s) == list.end()) list.push_back(s);
    }
    card.shapes.push_back(std::move(one));
    fmt::print(stderr, "{} {}x{}x{}: {} calls, {:.1f} s\n", key, shape.m, shape.n, shape.k,
               card.shapes.back().calls, card.shapes.back().seconds);
  }
  rows.finish();
  attention.finish();
  finding |= rows.finding || attention.finding || moe.finding,
      nothing &= rows.nothing && attention.nothing && moe.nothing;
  for (const std::string& more : {attention.json, rows.json, moe.json})
    json += (json.size() > 2 && !more.empty() ? ",\n" : "") + more;
  for (const std::string& key : options.schedule.empty() ? order : std::vector<std::string>{}) {
    Card& card = cards[key];
    unify(card.shapes);
    for (std::size_t i = 1; i < card.shapes.size(); ++i) {
      const ShapeCard &low = card.shapes[i - 1], &high = card.shapes[i];
      if (!low.identified() || !high.identified() || low.pieces.size() != 1 || high.pieces.size() != 1 ||
          *low.pieces[0].schedule == *high.pieces[0].schedule)
        continue;
      const bool m = low.shape.m < high.shape.m, n = low.shape.n < high.shape.n,
                 k = low.shape.k < high.shape.k;
      if (m + n + k != 1) continue;
      if (const auto border = find_border(*subjects[key], low, high, m ? 'm' : n ? 'n' : 'k'))
        card.borders.push_back(*border);
    }
    if (options.invariance) decide_invariance(card, *subjects[key]);
    fmt::print("{}", card_text(card));
    for (const ShapeCard& shape : card.shapes) {
      nothing &= !shape.refused.empty();
      if (!shape.identified() || shape.declared_contract.empty()) continue;
      const Contract contract = Contract::parse(shape.declared_contract, op("matmul").contract);
      for (const RowPiece& p : shape.pieces) {
        const std::string against = contradiction(contract, *p.schedule, shape.shape.k);
        // Fields that other values explain as well accuse nobody.
        const bool sure =
            contract.text("acc") != p.schedule->acc
                ? shape.concludes("acc")
                : std::ranges::all_of(std::array{"order", "lanes", "chunk", "split"},
                                      [&](const char* field) { return shape.concludes(field); });
        if (against.empty() || !sure) continue;
        finding = true;
        fmt::print("\n  fallback {}x{}x{}: {}\n", shape.shape.m, shape.shape.n, shape.shape.k, against);
        break;
      }
    }
    finding |= card.invariance == "refuted";
    json += (json.size() > 2 ? ",\n" : "") + card_json(card);
    fmt::print("\n");
  }
  if (file != nullptr) {
    file->stream() << json << "]\n";
    file->finish();
  }
  return nothing ? kNothingExecuted : finding ? kFinding : kGreen;
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
  app.add_option("--outputs", options.outputs, "Outputs to compare for each shape, at least")
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
