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
#include "cases/studies/identify/attention_regions.hpp"
#include "cases/studies/identify/attention_subject.hpp"
#include "cases/studies/identify/card.hpp"
#include "cases/studies/identify/invariance.hpp"
#include "cases/studies/identify/moe_subject.hpp"
#include "cases/studies/identify/replay_level.hpp"
#include "cases/studies/identify/row_regions.hpp"
#include "cases/studies/identify/row_subject.hpp"
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

struct Options {
  std::vector<std::string> words, backends;
  std::string json, schedule;
  std::int64_t outputs = 10'000;
  int masks = 8, threads = 1;
  double seconds = 20;
  bool invariance = false;
};

// A schedule that was found is the first hypothesis for the next case.
template <typename T>
void remember(std::vector<T>& known, const std::optional<T>& schedule) {
  if (schedule && std::ranges::find(known, *schedule) == known.end()) known.push_back(*schedule);
}

// Cases of which each is a card, or is judged by a declared schedule.
struct CardCases {
  CardCases(const Options& given, Workers& those) : options(given), workers(those) {}
  const Options& options;
  Workers& workers;
  bool finding = false, nothing = true;
  std::string json;

 protected:
  void judged(const Case& c, const std::string& text, bool ok) {
    fmt::print("{}  {}", c.line(), text);
    finding |= !ok, nothing = false;
  }
  void show(const std::string& text, const std::string& as_json, bool refused) {
    fmt::print("{}\n", text);
    json += (json.empty() ? "" : ",\n") + as_json;
    nothing &= refused;
  }
  // Whether one schedule holds over calls of a kernel that differ in what `over` names; an entry of the list as a card is.
  void decided(const std::string& key, const std::string& over, const std::string& verdict,
               const std::string& detail) {
    const nlohmann::ordered_json entry = {
        {"subject", key}, {"invariance", {{"over", over}, {"result", verdict}, {"detail", detail}}}};
    json += (json.empty() ? "" : ",\n") + entry.dump(1);
    finding |= verdict == "refuted";
  }
};

// Cases of ops on rows: cards one by one, and the counts of rows of one kernel side by side.
struct RowCases : CardCases {
  using CardCases::CardCases;

  void take(const Case& c) {
    const std::int64_t rows = c.attributes.integer("rows"), cols = c.attributes.integer("cols");
    std::map<std::string, std::string> others = c.attributes.all();
    others["rows"] = "*";
    std::string key = fmt::format("{} {} {}", c.op->name, c.backend, c.variant);
    for (const auto& [name, value] : others) key += fmt::format(" {}={}", name, value);
    Kernel& kernel = kernels_[key];
    if (kernel.subject == nullptr) kernel.subject = row_subject(c, workers), kernel.cols = cols;
    if (!options.schedule.empty()) {
      const RowSchedule declared = parse_row_schedule(c.op->name, options.schedule);
      const std::int64_t outputs = c.op->name == "logsumexp" ? rows : rows * cols;
      const auto seeds = std::clamp<std::int64_t>((options.outputs + outputs - 1) / outputs, 2, 1000);
      const RowVerdict verdict = judge_rows(*kernel.subject, rows, cols, declared, static_cast<int>(seeds));
      return judged(c, describe(verdict, declared), verdict.ok());
    }
    std::vector<RowSchedule>& known = found_[std::string(c.op->name)];
    RowCard card = identify_rows(*kernel.subject, rows, cols, known, {.outputs = options.outputs});
    card.subject = c.line();
    remember(known, card.schedule);
    show(card_text(card), card_json(card), !card.refused.empty());
    kernel.regions.push_back({rows, std::move(card)});
  }

  void finish() {
    if (!options.invariance) return;
    for (auto& [key, kernel] : kernels_) {
      std::ranges::sort(kernel.regions, {}, &RowRegion::rows);
      const RowInvariance invariance = row_invariance(*kernel.subject, kernel.cols, kernel.regions);
      decided(key, "rows", invariance.verdict, invariance.detail);
      fmt::print("{}\n{}", key, invariance_text(invariance));
    }
  }

 private:
  struct Kernel {
    std::unique_ptr<RowSubject> subject;
    std::int64_t cols = 0;
    std::vector<RowRegion> regions;
  };
  std::map<std::string, Kernel> kernels_;
  std::map<std::string, std::vector<RowSchedule>> found_;
};

// Cases of attention: cards one by one, and calls of one kernel that differ in batch, rows of q or keys side by side.
struct AttentionCases : CardCases {
  using CardCases::CardCases;

  void take(const Case& c) {
    const AttentionAsk ask = attention_subject(c, workers);
    if (!options.schedule.empty()) {
      const AttentionSchedule declared = parse_attention_schedule(options.schedule);
      const AttentionVerdict verdict = judge_attention(ask, declared, options.outputs);
      return judged(c, describe(verdict, declared), verdict.ok());
    }
    AttentionCard card = identify_attention(ask, found_, {.outputs = options.outputs});
    card.subject = c.line();
    remember(found_, card.schedule);
    show(card_text(card), card_json(card), !card.refused.empty());
    std::string key = fmt::format("{} {} {} {}", c.op->name, c.fill, c.backend, c.variant);
    for (const auto& [name, value] : c.attributes.all())
      if (name != "batch" && name != "q" && name != "len") key += fmt::format(" {}={}", name, value);
    kernels_[key].push_back({c.attributes.integer("len"), ask, std::move(card)});
  }

  void finish() {
    if (!options.invariance) return;
    for (const auto& [key, regions] : kernels_) {
      const AttentionInvariance invariance = attention_invariance(regions, options.outputs);
      decided(key, "calls", invariance.verdict, invariance.detail);
      fmt::print("{}\n  invariance over calls: {}: {}\n", key, invariance.verdict, invariance.detail);
    }
  }

 private:
  std::map<std::string, std::vector<AttentionRegion>> kernels_;
  std::vector<AttentionSchedule> found_;
};

// Cases of moe: a card each.
struct MoeCases : CardCases {
  using CardCases::CardCases;

  void take(const Case& c) {
    if (!options.schedule.empty() || options.invariance)
      throw InputError(InputErrorKind::bad_value,
                       "identify: --schedule and --invariance of moe; allowed: its card (a kernel that "
                       "declares a schedule is judged by "
                       "it in every run)");
    const std::unique_ptr<MoeSubject> subject = moe_subject(c, workers);
    MoeCard card = identify_moe(
        *subject, found_, {.outputs = options.outputs, .masks = options.masks, .seconds = options.seconds});
    card.subject = c.line();
    remember(found_, card.schedule);
    finding |= !card.fallback.empty();
    show(card_text(card), card_json(card), !card.refused.empty());
  }

 private:
  std::vector<MoeArithmetic> found_;
};

int identify(const Options& options) {
  set_reference_threads(options.threads);
  std::unique_ptr<ReportFile> file;
  if (!options.json.empty())
    file = std::make_unique<ReportFile>(options.json);  // refused now rather than at the end
  const auto known_list = known_backends();
  Workers workers(known_list);
  const Plan plan = make_plan(gather_lines(options.words), {options.backends, "", 0, 1, false, 1}, known_list,
                              input_lists(), [&](const std::string& b) { return workers.open(b).variants; });
  std::map<std::string, Card> cards;
  std::vector<std::string> order;
  std::map<std::string, std::vector<Schedule>> found;
  AttentionCases attention(options, workers);
  RowCases rows(options, workers);
  MoeCases moe(options, workers);
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
      cards[key].backend = workers.open(c.backend).description;
      subjects[key] = worker_subject(c, workers);
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
  app.add_flag("--invariance", options.invariance,
               "Whether all values of m, of rows, or of batch, q and len have one schedule");
  int exit_code = kGreen;
  app.callback([&] {
    if (!backends.empty()) options.backends = typed_backends(backends);
    exit_code = identify(options);
  });
  return run_program(app, argc, argv, exit_code);
}
