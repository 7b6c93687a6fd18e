// assay contract: the arithmetic that a kernel's outputs allow, and what of it changed from one build to
// the next.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "harness/call.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/stoppable.hpp"
#include "harness/contract_search.hpp"
#include "reference/error.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

struct Arguments {
  std::vector<std::string> words, backends;
  int seeds = 10;
};

bool says(const std::string& line, std::string_view key) {
  return line.find(fmt::format(" {}=", key)) != std::string::npos;
}

// The cases of the words: an op stands for its example; without a fill every one that knows the op, without
// a seed so many.
std::vector<Case> cases_of(const Arguments& a, const InputLists& lists) {
  std::vector<Case> all;
  for (const std::string& word : a.words) {
    std::string line = word;
    if (const Op* named = find_op(word))
      for (const auto& [key, value] : example_of(*named)) line += fmt::format(" {}={}", key, value);
    const bool one_fill = says(line, "fill"), one_seed = says(line, "seed");
    for (const Case& c : expand(parse_case(line)))
      for (const Fill& fill : lists.fills) {
        if (one_fill ? fill.name != c.fill
                     : (!fill.op.empty() && fill.op != c.op->name) || !fill.bare.empty())
          continue;
        for (int n = 0; n < (one_seed ? 1 : a.seeds); ++n) {
          Case& one = all.emplace_back(c);
          one.fill = fill.name;
          if (!one_seed) one.seed = static_cast<std::uint64_t>(n + 1);
        }
      }
  }
  if (all.empty()) throw InputError(InputErrorKind::bad_value, "assay contract: no case is left");
  for (const Case& c : all)
    if (c.op != all.front().op || c.fault != "none")
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: a contract is of one op, and of inputs without a fault", c.line()));
  return all;
}

struct Found {
  Proposal proposal;
  std::string declared;
  std::map<std::string, std::size_t> not_run;  // by the reason
};

Found found_of(const std::string& backend, std::vector<Case> cases, const InputLists& lists, Workers& workers,
               const StopSignals& signals) {
  Found found;
  std::vector<RecordedCall> calls;
  for (Case& c : cases) {
    if (signals.stopped()) break;
    c.backend = backend;
    try {
      RecordedCall call{c, make_inputs(c, lists), {}};
      TruthCache truths;
      JudgeOptions options;
      options.first_step = false;
      std::optional<Outputs> left;
      options.observe = [&](const RunResult& run) {
        if (run.status == RunStatus::done) left = run.outputs;
      };
      const CaseResult r = Judge{call.inputs, truths, workers, options}.judge(c);
      if (!left) {
        ++found.not_run[fmt::format("{}: {}", to_string(r.verdict.status), r.verdict.summary)];
        continue;
      }
      if (found.declared.empty()) found.declared = r.contract;
      call.outputs = output_tensors(call.inputs, *left);
      calls.push_back(std::move(call));
    } catch (const InputError& e) {  // a fill that does not fit the shape
      ++found.not_run[e.what()];
    }
  }
  if (calls.empty()) return found;
  const Contract first = Contract::parse(found.declared, cases.front().op->contract);
  found.proposal = propose_contract(first, calls, [&] { return signals.stopped(); });
  return found;
}

// The words that say something: those that are not the op's defaults.
std::string short_text(const Contract& contract, const Op& op) {
  std::string text;
  for (const KeySpec& key : op.contract) {
    const std::string_view value = contract.text(key.name);
    const bool same = value == key.fallback ||
                      (key.fallback.starts_with('@') && value == contract.text(key.fallback.substr(1)));
    if (!same) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.name, value);
  }
  return text.empty() ? "the defaults" : text;
}

void print_found(const std::string& backend, const Found& found, const Op& op) {
  const Proposal& p = found.proposal;
  fmt::print("{}: {} calls, {} contracts tried\n", backend, p.calls, p.tried);
  for (const auto& [reason, count] : found.not_run) fmt::print("  not run   {} x {}\n", count, reason);
  if (p.calls == 0) return;
  fmt::print("  declared   {}\n", short_text(Contract::parse(found.declared, op.contract), op));
  if (p.inside < p.calls) {
    fmt::print(
        "  no words of {} were found to hold: at best {} of {} calls are within the limits, and not {}\n",
        op.name, p.inside, p.calls, p.outside);
    return;
  }
  fmt::print("  proposed   {}\n", short_text(p.proposed, op));
  for (const ProposedWord& word : p.words)
    if (word.narrower)
      fmt::print("    {}={}: beside the other words {} is ruled out by {}: {}\n", word.key, word.value,
                 word.narrower->value, word.narrower->line, word.narrower->what);
  fmt::print(
      "  narrowest  {} (all that these calls ask for; errors are mostly a tenth of their limit, so that it "
      "is no contract)\n",
      short_text(p.narrowest, op));
}

int contract(const Arguments& a, const InputLists& lists, const StopSignals& signals) {
  if (a.backends.empty() || a.backends.size() > 2)
    throw InputError(InputErrorKind::bad_value,
                     "assay contract: -b BACKEND proposes one, -b OLD -b NEW compares two");
  set_reference_threads(available_processors());
  const auto known = known_backends();
  const std::vector<Case> cases = cases_of(a, lists);
  const Op& op = *cases.front().op;
  std::vector<Found> found;
  for (const std::string& backend : a.backends) {
    Workers workers(known, stopped_by(signals));
    (void)workers.open(backend);
    found.push_back(found_of(backend, cases, lists, workers, signals));
    if (signals.stopped()) {
      fmt::print("{}: stopped before the search ended: nothing is proposed\n", backend);
      return 128 + signals.signal();
    }
    print_found(backend, found.back(), op);
    if (found.back().proposal.calls == 0) return kNothingJudged;
  }
  if (found.size() == 1) return found[0].proposal.inside == found[0].proposal.calls ? kGreen : kFinding;
  const Proposal &old = found[0].proposal, &now = found[1].proposal;
  std::size_t changed = 0;
  for (std::size_t i = 0; i < old.words.size(); ++i) {
    const std::string& key = old.words[i].key;
    const std::string before(old.narrowest.text(key)), after(now.narrowest.text(key));
    if (old.words[i].value != now.words[i].value) {
      ++changed;
      const auto& shown = now.words[i].narrower ? now.words[i].narrower : old.words[i].narrower;
      fmt::print("changed    {}: {} -> {}{}\n", key, old.words[i].value, now.words[i].value,
                 shown ? fmt::format(", shown by {}", shown->line) : "");
    } else if (before != after) {
      fmt::print("narrowest  {}: {} -> {}\n", key, before, after);
    }
  }
  fmt::print("{} word{} changed\n", changed, changed == 1 ? "" : "s");
  return changed == 0 ? kGreen : kFinding;
}

}  // namespace

void add_contract(const Command& program, int& exit_code, const InputLists& lists) {
  auto arguments = std::make_shared<Arguments>();
  const Command command = program.subcommand(
      "contract", "Propose the contract of a kernel from its outputs, or compare those of two builds");
  command.option(
      "cases", arguments->words,
      "An op, or case lines of one: without fill= and seed= every fill that knows the op, and --seeds",
      {.required = true});
  command.option("--backend,-b", arguments->backends,
                 "Whose; given twice: what changed from the first to the second", {.split = backend_names});
  command.option("--seeds", arguments->seeds, "Seeds of each fill", {.low = 1, .high = 1000});
  command.footer(
      "The narrowest words under which every call stays within its limits, each with the call that rules out "
      "the next narrower one.\n"
      "It holds for these calls: read the kernel's source before it is declared.\n"
      "Examples:\n"
      "  assay contract 'softmax rows=4 cols=33,1000' -b ./mine.so\n"
      "  assay contract 'rmsnorm rows=4 cols=4096 dtype=bf16' -b ./release-1.so -b ./release-2.so");
  command.callback([arguments, &exit_code, lists] {
    exit_code =
        until_stopped([&](const StopSignals& signals) { return contract(*arguments, lists, signals); });
  });
}

}  // namespace assay
