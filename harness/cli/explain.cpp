// assay explain: what an op is, or what would be judged in one case: contract, limit, its largest terms, and
// what the inputs can show.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/call.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/manual.hpp"
#include "harness/judge.hpp"
#include "harness/plan.hpp"
#include "harness/suites.hpp"
#include "harness/verdict.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

std::vector<double> finite_limits(const Truth& t) {
  std::vector<double> limits;
  for (std::size_t i = 0; i < t.limit.size(); ++i)
    if (std::isfinite(t.limit[i]) && std::isfinite(t.value[i])) limits.push_back(t.limit[i]);
  return limits;
}

// Of output n under another contract; nothing where the reference has no truth of it.
std::optional<double> median_limit(const Case& c, const Inputs& inputs, const Contract& contract,
                                   std::size_t n) {
  try {
    return median(finite_limits(c.op->truth(c.attributes, inputs.set, contract).at(n)));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void explain_truth(const Case& c, const Inputs& inputs, const Contract& contract) {
  const auto truths = c.op->truth(c.attributes, inputs.set, contract);
  for (std::size_t n = 0; n < truths.size(); ++n) {
    const Truth& t = truths[n];
    std::vector<double> magnitude;
    std::size_t unclaimed = 0;
    for (std::size_t i = 0; i < t.value.size(); ++i) {
      if (std::isinf(t.limit[i])) ++unclaimed;
      if (std::isfinite(t.value[i])) magnitude.push_back(std::fabs(t.value[i]));
    }
    const Comparison zeros = compare(t, std::vector<double>(t.value.size(), 0.0));
    const std::vector<double> limits = finite_limits(t);
    const double limit = median(limits);
    fmt::print("\n{}: {} elements, {} finite; median |value| {:.4g}, ", t.output, t.value.size(),
               magnitude.size(), median(magnitude));
    if (limits.empty())
      fmt::print("no element has a limit\n");
    else
      fmt::print("median limit {:.4g}\n", limit);
    fmt::print("  limit  <- {}\n", t.limit_origin);
    if (unclaimed > 0)
      fmt::print("  open   {} elements, of which nothing is claimed: an intermediate result may overflow\n",
                 unclaimed);
    std::vector<std::pair<double, std::string>> terms;
    for (const auto& key : c.op->contract)
      if (const auto better = made_exact(contract, key, c.op->contract)) {
        const std::optional<double> ideal = median_limit(c, inputs, *better, n);
        const double share = limit > 0 && ideal ? 1 - *ideal / limit : 0;
        if (ideal) terms.emplace_back(share, fmt::format("{}={}", key.name, contract.text(key.name)));
      }
    std::ranges::sort(terms, std::greater<>{});
    fmt::print("  terms  (how much smaller the median limit would be if that step were exact)\n");
    for (const auto& [share, name] : terms)  // a tree may be wider than the order that is declared
      fmt::print("    {:>5.1f} %  {}\n", 100 * std::max(share, 0.0), name);
    const Sharpness seen = sharpness(std::span(&t, 1), inputs.tensors);
    fmt::print(
        "  shows  an error of {} in half of the elements, {} in the sharpest{}; an all-zero output {}\n",
        percent(seen.half, "no size"), percent(seen.some, "no size"), is_blind(seen) ? " (blind)" : "",
        zeros.ok ? "would pass (verdict distrust)" : fmt::format("fails in {} elements", zeros.bad));
  }
}

// With the planes that it has apart from its elements, and what a function of Python calls those.
void print_tensor(const TensorSpec& t) {
  fmt::print("  {:<12} {} {}\n", t.name, to_string(t.shape), t.format);
  for (const PlaneSpec& plane : planes(format(t.format), t.shape))
    if (!plane.suffix.empty()) {
      std::string argument = t.name + plane.suffix;
      std::ranges::replace(argument, '.', '_');
      fmt::print("    {:<10} {} {}, in Python {}\n", t.name + plane.suffix, to_string(plane.shape),
                 plane.format, argument);
    }
}

int explain(const std::vector<std::string>& words, const std::vector<std::string>& backends,
            const InputLists& lists) {
  if (words.size() == 1 && find_op(words[0]) && backends.empty()) {
    fmt::print("{}", manual_page(op(words[0]), false));
    return kGreen;
  }
  set_reference_threads(available_processors());
  const auto known = known_backends();
  Workers workers(known);
  const Plan plan = make_plan(gather_lines(words, !backends.empty()), {backends, "", 0, 1, false, 1}, known,
                              lists, [&](const std::string& b) {
                                const auto opened = workers.of(b).worker->open();
                                const auto* here = std::get_if<reply::Opened>(&opened);
                                return here ? here->variants : std::vector<std::string>{};
                              });
  for (const auto& group : plan.groups) {
    const Inputs inputs = make_inputs(group.cases.front(), lists);
    for (const auto& c : group.cases) {
      fmt::print("{}\n  {}\n", c.line(), c.op->formula);
      for (const auto& t : inputs.tensors) print_tensor(t);
      const auto declared = workers.of(c.backend).worker->declare(make_call(c, inputs));
      if (declared.status != RunStatus::done) {
        fmt::print("  {}: {}\n", to_string(declared.status), declared.reason);
        continue;
      }
      const Contract contract = Contract::parse(declared.declaration.contract, c.op->contract);
      fmt::print("\ncontract of {} (path {})\n", c.backend,
                 declared.declaration.path.empty() ? "not claimed" : declared.declaration.path);
      std::size_t width = 12;
      for (const auto& k : c.op->contract) width = std::max(width, k.name.size());
      for (const auto& k : c.op->contract)
        fmt::print("  {:<{}} = {:<12} {}\n", k.name, width, contract.text(k.name), k.meaning);
      explain_truth(c, inputs, contract);
      fmt::print("\n");
    }
  }
  for (const auto& [name, count] : plan.elsewhere)
    fmt::print(stderr, "assay: {} case{} backend={}, which --backend does not name\n", count,
               count == 1 ? " requires" : "s require", name);
  return plan.cases > 0 ? kGreen : kNothingJudged;
}

}  // namespace

void add_explain(const Command& program, int& exit_code, const InputLists& lists) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto backends = std::make_shared<std::vector<std::string>>();
  const Command command = program.subcommand("explain", "Explain an op, or what is judged in a case and how");
  command.option("case", *words, "An op, or a case line", {.required = true});
  command.option("--backend,-b", *backends, "Whose contract", {.split = backend_names});
  command.footer(
      "Example:\n  assay explain 'attention heads=8 kv_heads=2 d=128 len=4096 kv=e4m3fn_tok fill=needle' -b "
      "cpu");
  command.callback([words, backends, &exit_code, lists] { exit_code = explain(*words, *backends, lists); });
}

}  // namespace assay
