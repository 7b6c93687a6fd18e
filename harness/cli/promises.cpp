#include "harness/cli/promises.hpp"

#include <algorithm>
#include <optional>

#include "harness/call.hpp"
#include "harness/plan.hpp"
#include "harness/strangers.hpp"
#include "harness/suites.hpp"
#include "reports/laws.hpp"

namespace assay {
namespace {

CaseResult as_result(const LawResult& r, const std::string& contract) {
  CaseResult result;
  result.c = r.c;
  result.verdict.status = Status::law;
  result.verdict.summary = law_summary(r);
  result.verdict.detail = law_evidence(r);
  result.contract = contract;
  result.command = law_command(r);
  return result;
}

// A text that cannot be read promises no law: the plan's own cases are `failed` by it.
Promises promises_of(const std::string& text) {
  Promises promises;
  std::string why;
  (void)read_promises(text, promises, why);
  return promises;
}

// Nothing where the law says nothing of the case, or the reference has no truth of it.
std::optional<LawResult> checked(const Law& law, const LawCall& base, Workers& workers,
                                 const InputLists& lists, const JudgeOptions& options) {
  try {
    return check_law(law, base, workers, lists, options);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Case> planned_cases(const std::vector<SuiteLine>& lines, const std::vector<std::string>& backends,
                                std::uint64_t seed, const std::vector<BackendInfo>& known,
                                const InputLists& lists, Workers& workers) {
  PlanOptions options;
  options.backends = backends;
  options.seed = seed, options.seed_given = seed != 1;
  std::vector<Case> cases;
  const auto variants_of = [&](const std::string& backend) { return workers.open(backend).variants; };
  for (const auto& group : make_plan(lines, options, known, lists, variants_of).groups)
    cases.insert(cases.end(), group.cases.begin(), group.cases.end());
  return cases;
}

std::vector<SuiteLine> lines_for_laws(const std::vector<std::string>& backends, std::uint64_t seed,
                                      bool variants, const InputLists& lists, Workers& workers) {
  auto factors = read_suite(suites_directory() + "/laws.factors");
  for (SuiteLine& line : factors)
    if (variants) line.text += " variant=all";
  std::vector<SuiteLine> lines;
  for (const auto& backend : backends)
    for (auto& line : generate_singles(factors, backend, seed, lists, workers).lines)
      lines.push_back(std::move(line));
  return lines;
}

PromisesJudged judge_promises(const std::vector<SuiteLine>& lines, const std::string& backend,
                              std::uint64_t seed, std::span<const Law> laws,
                              const std::vector<BackendInfo>& known, const InputLists& lists,
                              Workers& workers, const JudgeOptions& options,
                              const std::function<bool()>& stopped,
                              const std::function<void(CaseResult&)>& found) {
  PromisesJudged judged;
  const std::vector<Case> cases = planned_cases(lines, {backend}, seed, known, lists, workers);
  std::vector<WorkerCall> calls;
  for (const Case& c : cases) calls.push_back(make_empty_call(c));
  const std::vector<DeclareResult> declared = workers.of(backend).worker->declare(calls);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (declared[i].status != RunStatus::done) continue;
    const Promises promises = promises_of(declared[i].declaration.promises);
    std::optional<LawCall> base;
    for (const Law& law : laws) {
      if (!promises.law(law.name)) continue;
      if (stopped()) {
        ++judged.left;
        continue;
      }
      if (!base) base = LawCall{cases[i], make_inputs(cases[i], lists)};
      const auto r = checked(law, *base, workers, lists, options);
      if (!r || r->outcome == LawOutcome::not_run) continue;
      ++judged.checked;
      if (!r->red()) continue;
      CaseResult result = as_result(*r, declared[i].declaration.contract);
      found(result);
    }
  }
  return judged;
}

}  // namespace assay
