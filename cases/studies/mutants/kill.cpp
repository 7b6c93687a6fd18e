#include "cases/studies/mutants/kill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <set>
#include <sstream>

#include "cases/lists.hpp"
#include "cases/studies/mutants/rules.hpp"
#include "cases/studies/mutants/usual_truth.hpp"
#include "harness/backend_names.hpp"
#include "harness/call.hpp"
#include "harness/judge.hpp"
#include "reference/parallel.hpp"

namespace assay::mutants {
namespace {

using Clock = std::chrono::steady_clock;

using Decoded = std::vector<std::vector<double>>;  // by output

// One run of the kernel within a case: a case with a fault makes two, without the fault and with it.
struct Stage {
  Decoded truth;      // as the usual rules know it
  Decoded reference;  // of the correct counterpart
  bool gaussian;      // what the usual checks run: gaussian inputs, no fault, rows side by side
};

// One case of the corpus with all that its mutants share.
struct Prepared {
  Case c;
  Inputs inputs;
  TruthCache cache;
  std::vector<Stage> stages;
  std::vector<std::string> formats;  // of the outputs
  std::vector<bool> usable;          // which rules accept the correct counterpart
  std::set<int> reached;             // mutants that the counterpart reaches
  bool gaussian = false, integers = false, fp8 = false;
  double seconds = 0;  // of one run of the counterpart
};

bool accepts(const Rule& rule, const Prepared& p, const Stage& stage, const Decoded& got) {
  if (got.size() != stage.truth.size()) return false;
  for (std::size_t o = 0; o < got.size(); ++o)
    if (!rule.accepts({stage.truth[o], got[o], stage.reference[o], p.formats[o], p.fp8, p.integers}))
      return false;
  return true;
}
// Of the runs that there were.
bool accepts(const Rule& rule, const Prepared& p, const std::vector<Decoded>& runs) {
  for (std::size_t i = 0; i < std::min(runs.size(), p.stages.size()); ++i)
    if (!accepts(rule, p, p.stages[i], runs[i])) return false;
  return true;
}

bool same_numbers(const Decoded& a, const Decoded& b) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return std::ranges::equal(a, b,
                            [&](const auto& x, const auto& y) { return std::ranges::equal(x, y, same); });
}

std::set<int> parse_ranges(const std::string& text) {
  std::set<int> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    int first = 0, last = 0;
    if (std::sscanf(word.c_str(), "%d-%d", &first, &last) == 2)
      for (int i = first; i <= last; ++i) ids.insert(i);
  }
  return ids;
}

class Engine {
 public:
  Engine(const std::vector<BackendInfo>& known, const KillOptions& options)
      : known_(known), options_(options), timeout_(static_cast<long>(1000 * options.timeout_seconds)) {}

  void prepare(const std::vector<SuiteLine>& corpus, KillTable& table) {
    std::vector<Case> cases;
    for (const auto& line : corpus)
      for (auto& c : expand(parse_case(line.text, line.where), line.where)) cases.push_back(std::move(c));
    table.cases = cases.size();
    std::mutex mutex;
    parallel_units(
        cases.size(),
        [&](std::size_t i) {
          auto p = std::make_unique<Prepared>();
          p->c = cases[i];
          FalseAlarms found = counterpart(*p);
          if (found.runs > 0) correct_variants(*p, found);
          const std::lock_guard lock(mutex);
          if (found.runs == 0) {
            table.distrusted.push_back(p->c.line());
            return;
          }
          prepared_.push_back(std::move(p));
          add(table.correct, found);
        },
        options_.jobs);
    std::ranges::sort(prepared_, {}, [](const auto& p) { return std::pair(p->seconds, p->c.line()); });
  }

  KillRow judge(const Manifest& m) {
    KillRow row;
    row.id = std::to_string(m.id);
    row.group = m.kind;
    row.place = fmt::format("{}:{}", m.file, m.line);
    row.before = m.before, row.after = m.after;
    row.rules.resize(rules().size());
    row.reached = false;
    Workers workers(known_);
    for (auto& p : prepared_) {
      if (!p->reached.contains(m.id)) continue;
      row.reached = true;
      const auto decided = [&](const Judged2& j) { return j.all && (j.gaussian || !p->gaussian); };
      bool nothing_new = decided(row.assay);
      for (std::size_t r = 0; r < rules().size(); ++r)
        nothing_new = nothing_new && (decided(row.rules[r]) || !p->usable[r]);
      if (nothing_new) continue;
      Case c = p->c;
      c.backend = fmt::format("{}:{}", escaped_path(options_.plugin), m.id);
      std::vector<Decoded> runs;
      RunStatus status = RunStatus::failed;
      Judge assay{p->inputs, p->cache, workers, {.timeout = timeout_, .first_step = false}};
      // A mutant that is as slow as its counterpart on a busy machine does not hang.
      assay.options.timeout =
          std::max(timeout_, std::chrono::milliseconds(static_cast<long>(20'000 * p->seconds)));
      assay.options.observe = [&](const RunResult& run) {
        status = run.status;
        runs.push_back(decode_outputs(p->inputs, run.outputs));
      };
      const CaseResult result = assay.judge(c);
      const auto kill = [&](Judged2& j, bool gaussian) {
        j.all = true;
        j.gaussian = j.gaussian || gaussian;
      };
      const bool plain = runs.size() <= 1 && p->gaussian;  // the last run was one of the usual ones
      if (result.verdict.status != Status::pass) {
        if (!row.assay.all) {
          row.verdict = to_string(result.verdict.status);
          row.case_line = p->c.line();
        }
        kill(row.assay, plain);
        if (options_.first) return row;
      }
      // A crash, a hang or a refusal is noticed by whoever runs the kernel at all.
      const bool no_output = status == RunStatus::crash || status == RunStatus::hang ||
                             status == RunStatus::failed || status == RunStatus::unsupported;
      row.differs = row.differs || no_output;
      // A write past the end stops in a guard page that the usual checks do not have; they see nothing of it,
      // and here there is nothing to show them.
      if (status == RunStatus::overrun && !runs.empty() && runs.back().empty()) runs.pop_back();
      for (std::size_t i = 0; i < std::min(runs.size(), p->stages.size()); ++i)
        row.differs = row.differs || !same_numbers(runs[i], p->stages[i].reference);
      for (std::size_t r = 0; r < rules().size(); ++r) {
        if (!p->usable[r]) continue;
        if (no_output) kill(row.rules[r], plain);
        for (std::size_t i = 0; i < std::min(runs.size(), p->stages.size()); ++i)
          if (!(no_output && i + 1 == runs.size()) && !accepts(rules()[r], *p, p->stages[i], runs[i]))
            kill(row.rules[r], p->stages[i].gaussian);
      }
      if (status != RunStatus::hang) continue;
      for (auto& j : row.rules) kill(j, plain);
      break;  // one wait is enough
    }
    return row;
  }

 private:
  const std::vector<BackendInfo>& known_;
  const KillOptions& options_;
  std::chrono::milliseconds timeout_;  // of a mutant, which may not end
  std::vector<std::unique_ptr<Prepared>> prepared_;

  static void add(FalseAlarms& sum, const FalseAlarms& more) {
    sum.runs += more.runs;
    sum.outputs += more.outputs;
    sum.assay += more.assay;
    sum.rules.resize(rules().size(), 0);
    for (std::size_t r = 0; r < more.rules.size(); ++r) sum.rules[r] += more.rules[r];
    sum.assay_cases.insert(sum.assay_cases.end(), more.assay_cases.begin(), more.assay_cases.end());
  }

  void count(FalseAlarms& found, const Prepared& p, const CaseResult& result,
             const std::vector<Decoded>& runs) const {
    found.rules.resize(rules().size(), 0);
    ++found.runs;
    found.outputs += result.verdict.elements;
    if (result.verdict.status != Status::pass) {
      found.assay += std::max<std::size_t>(1, result.verdict.bad);
      found.assay_cases.push_back(fmt::format("{}: {} {}", result.c.line(), to_string(result.verdict.status),
                                              result.verdict.summary));
    }
    for (std::size_t r = 0; r < rules().size(); ++r)
      if (!accepts(rules()[r], p, runs)) ++found.rules[r];
  }

  // A kernel that is expected to end, and what its runs left.
  static CaseResult run_correct(const Case& c, Prepared& p, Workers& workers, std::vector<Decoded>& runs) {
    Judge assay{p.inputs, p.cache, workers, {.timeout = std::chrono::seconds(60), .first_step = false}};
    assay.options.observe = [&](const RunResult& run) {
      runs.push_back(decode_outputs(p.inputs, run.outputs));
    };
    return assay.judge(c);
  }

  // The unmutated run: truth, reference output, which mutants lie on its way, which rules can be used.
  FalseAlarms counterpart(Prepared& p) const {
    p.inputs = make_inputs(p.c, input_lists());
    p.gaussian = p.c.fill == "gaussian" && p.c.layout == "dense";
    p.integers = p.c.fill == "integers";
    for (const auto& t : p.inputs.tensors) {
      if (t.role == TensorRole::output) p.formats.push_back(t.format);
      const ScalarFormat* scalar = find_scalar_format(t.format);
      if (t.role == TensorRole::data && (scalar == nullptr || scalar->bits <= 8)) p.fp8 = true;
    }
    Case c = p.c;
    c.backend = escaped_path(options_.plugin) + ":record";
    Workers workers(known_);
    std::vector<Decoded> runs;
    const CaseResult result = run_correct(c, p, workers, runs);
    if (result.verdict.status == Status::distrust) return {};  // no test at all: left out, and named
    if (runs.empty() || runs.back().empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: the correct counterpart gives no output: {} {}", p.c.line(),
                                   to_string(result.verdict.status), result.verdict.summary));
    for (const auto& [key, value] : result.notes)
      if (key == "mutants") p.reached = parse_ranges(value);
    const Contract contract = Contract::parse(result.contract, p.c.op->contract);
    const auto add_stage = [&](TruthCache& cache, const Inputs& inputs, bool gaussian) {
      p.stages.push_back({usual_truth(p.c, inputs.set, cache.of(p.c, inputs, contract)),
                          runs.at(p.stages.size()), gaussian});
    };
    if (p.inputs.fault != nullptr) {
      TruthCache cache;
      Inputs clean = p.inputs;
      clean.set = p.inputs.clean;
      add_stage(cache, clean, p.gaussian);
    }
    add_stage(p.cache, p.inputs, p.gaussian && p.inputs.fault == nullptr);
    p.seconds = result.kernel_seconds + 1e-8 * static_cast<double>(result.verdict.elements);
    for (const auto& rule : rules())
      p.usable.push_back(accepts(rule, p, runs) && (p.integers || &rule != &rules().back()));
    FalseAlarms found;
    count(found, p, result, runs);
    return found;
  }

  // Other kernels and other instruction sets, all correct.
  void correct_variants(Prepared& p, FalseAlarms& found) const {
    if (options_.correct.empty()) return;
    Workers workers(known_);
    const auto opened = workers.of(options_.correct).worker->open();
    const auto* here = std::get_if<reply::Opened>(&opened);
    if (here == nullptr) return;
    std::vector<std::string> names{""};
    for (const auto& v : here->variants) {
      const auto colon = v.find(':');
      if (colon != std::string::npos && v.substr(0, colon) != p.c.op->name) continue;
      names.push_back(colon == std::string::npos ? v : v.substr(colon + 1));
    }
    for (const auto& name : names) {
      Case c = p.c;
      c.backend = options_.correct, c.variant = name;
      std::vector<Decoded> runs;
      const CaseResult result = run_correct(c, p, workers, runs);
      // The same inputs may show nothing under another kernel's wider contract.
      if (result.verdict.status != Status::unsupported && result.verdict.status != Status::distrust)
        count(found, p, result, runs);
    }
  }
};

}  // namespace

std::vector<const Manifest*> chosen_mutants(const std::vector<Manifest>& mutants,
                                            const KillOptions& options) {
  for (const int id : options.only)
    if (std::ranges::find(mutants, id, &Manifest::id) == mutants.end())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("--only {}: there is no mutant of this number", id));
  std::vector<const Manifest*> chosen;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const bool sampled = static_cast<int>(i) % options.every == options.offset;
    const bool named = std::ranges::find(options.only, mutants[i].id) != options.only.end();
    if (options.generated && (options.only.empty() ? sampled : named)) chosen.push_back(&mutants[i]);
  }
  return chosen;
}

KillTable kill_table(const std::vector<SuiteLine>& corpus, const std::vector<Manifest>& mutants,
                     std::span<const Excuse> list, const std::vector<BackendInfo>& known,
                     const KillOptions& options) {
  const auto start = Clock::now();
  const std::vector<const Manifest*> chosen = chosen_mutants(mutants, options);
  KillTable table;
  table.title = "Mutants of assay's CPU kernels";
  const Excused excuses = excused(list, mutants);
  table.list_faults = excuses.faults;
  for (const auto& r : rules()) table.rules.push_back({std::string(r.name), std::string(r.source)});
  table.correct.rules.assign(table.rules.size(), 0);
  if (chosen.empty()) return table;
  Engine engine(known, options);
  engine.prepare(corpus, table);

  table.rows.resize(chosen.size());
  std::mutex mutex;
  std::size_t done = 0;
  parallel_units(
      chosen.size(),
      [&](std::size_t i) {
        KillRow row = engine.judge(*chosen[i]);
        const Excuse* excuse = excuses.find(chosen[i]->id);
        const std::lock_guard lock(mutex);
        if (excuse != nullptr && row.assay.all)
          table.list_faults.push_back(killed_after_all(*excuse, *chosen[i], "'" + row.case_line + "'"));
        else if (excuse != nullptr)
          row.equivalent = excuse->reason;
        table.rows[i] = std::move(row);
        if (options.progress) options.progress(++done, chosen.size());
      },
      options.jobs);
  table.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return table;
}

}  // namespace assay::mutants
