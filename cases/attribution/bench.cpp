#include "cases/attribution/bench.hpp"

#include <algorithm>
#include <cmath>

#include "harness/call.hpp"
#include "harness/case_file.hpp"
#include "harness/culprit/crop.hpp"
#include "harness/history.hpp"

namespace assay::attribution {
namespace {

void compare_with_truth(const Inputs& inputs, const Outputs& outputs, Answer& a) {
  a.got = decode_outputs(inputs, outputs);
  if (a.got.size() != a.truths.size()) {  // scales that are none
    a.bad = a.not_finite = true;
    return;
  }
  for (std::size_t o = 0; o < a.truths.size(); ++o) {
    const Comparison comparison = compare(a.truths[o], a.got[o]);
    a.bad = a.bad || !comparison.ok;
    a.worst = std::max(a.worst, comparison.worst_ratio);
    for (std::size_t i = 0; i < a.got[o].size(); ++i)
      if (std::isfinite(a.truths[o].value[i]) && !std::isfinite(a.got[o][i])) a.not_finite = true;
  }
}

}  // namespace

Bench::Bench(const Case& c, const InputLists& lists, Workers& workers, const JudgeOptions& options)
    : c_(c), lists_(lists), workers_(workers), options_(options), inputs_(make_inputs(c, lists)) {
  replay_calls(c, lists, workers, options);
  TruthCache truths;
  JudgeOptions watched = options;
  watched.observe = [&](const RunResult& run) {
    runs_ += static_cast<int>(run.wall_ns.size());
    original_.ran = true;
    original_.status = run.status;
    original_.got = decode_outputs(inputs_, run.outputs);
  };
  const Judge judge{inputs_, truths, workers, watched};
  first_ = judge.judge(c);
  original_.tensors = inputs_.tensors;
  original_.set = inputs_.set;
  original_.bad = first_.verdict.status != Status::pass;
  original_.worst = first_.verdict.worst_ratio;
  original_.attributes = c.attributes;
  if (first_.contract.empty() || first_.verdict.status == Status::impossible) return;
  try {
    original_.truths = judge.truths_of(first_);
    original_.contract = contract();
  } catch (const InputError&) {
    return;
  }
  answers_.push_back(original_);
  for (std::size_t o = 0; o < std::min(original_.got.size(), original_.truths.size()); ++o)
    for (std::size_t i = 0; i < original_.got[o].size(); ++i)
      if (std::isfinite(original_.truths[o].value[i]) && !std::isfinite(original_.got[o][i]))
        original_.not_finite = true;
}

Contract Bench::contract() const { return Contract::parse(first_.contract, c_.op->contract); }

Case Bench::changed(const std::vector<Change>& changes) const {
  CaseSet set = parse_case(c_.line());
  for (const auto& [key, value] : changes) {
    std::erase_if(set.sets, [&](const auto& s) { return s.first == key; });
    set.sets.emplace_back(key, std::vector{value});
  }
  // A file holds data of the case's own shapes alone.
  const bool from_file = !changes.empty() && file_of_fill(c_.fill);
  std::erase_if(set.sets, [&](const auto& s) {
    return s.first == "after" || s.first == "fault" || (from_file && s.first == "fill");
  });
  return expand(set).front();
}

std::optional<Contract> Bench::contract_of(const std::vector<Change>& changes) {
  try {
    const Case c = changed(changes);
    const DeclareResult declared =
        workers_.of(c.backend).worker->declare(make_call(c, make_inputs(c, lists_)), options_.timeout);
    if (declared.status != RunStatus::done) return std::nullopt;
    return Contract::parse(declared.declaration.contract, c.op->contract);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Answer Bench::ask(const std::vector<Change>& changes, const Edit& edit) {
  FullEdit full;
  if (edit)
    full = [&](const Case&, const TensorSet&, const TensorSpec& t, std::vector<float>& x) { edit(t, x); };
  return ask(changes, full);
}

Answer Bench::ask(const std::vector<Change>& changes, const FullEdit& edit) {
  Answer a = asked(changes, edit);
  if (a.ran) answers_.push_back(a);
  return a;
}

Answer Bench::asked(const std::vector<Change>& changes, const FullEdit& edit) {
  Answer a;
  try {
    const Case c = changed(changes);
    culprit::Specimen from{c_, inputs_};
    from.c.fault = "none", from.inputs.fault = nullptr;
    from.inputs.clean.clear(), from.inputs.corrupted.clear();
    std::optional<Inputs> inputs;
    if (changes.empty())
      inputs = std::move(from.inputs);
    else if (!(inputs = culprit::cropped(from, c, {}, false, lists_)))
      inputs = make_inputs(c, lists_);
    if (edit)
      for (const TensorSpec& t : inputs->tensors) {
        if (t.role != TensorRole::data) continue;
        Encoded& stored = inputs->set.at(t.name);
        std::vector<float> numbers = culprit::numbers_of(stored);
        const std::vector<float> before = numbers;
        edit(c, inputs->set, t, numbers);
        const auto differs = [](float x, float y) { return !(x == y); };
        if (!std::equal(numbers.begin(), numbers.end(), before.begin(), std::not_fn(differs)))
          stored = culprit::encoded_as(stored, numbers);
      }
    Workers::Entry& backend = workers_.of(c.backend);
    RunRequest request;
    request.call = make_call(c, *inputs);
    request.timeout = options_.timeout;
    request.alignment = std::max<std::size_t>(1, backend.choice.info.alignment);
    request.second_run = false;
    const DeclareResult declared = backend.worker->declare(request.call, options_.timeout);
    if (declared.status != RunStatus::done) return a;
    a.contract = Contract::parse(declared.declaration.contract, c.op->contract);
    a.attributes = c.attributes;
    a.truths = c.op->truth(c.attributes, inputs->set, *a.contract);
    request.alignment = std::max(request.alignment, declared.declaration.alignment);
    ++runs_;
    const RunResult run = backend.worker->run(request);
    a.ran = true;
    a.status = run.status;
    a.tensors = inputs->tensors;
    a.set = inputs->set;
    if (run.status != RunStatus::done)
      a.bad = true;
    else
      compare_with_truth(*inputs, run.outputs, a);
  } catch (const InputError&) {
    a.ran = false;
  }
  return a;
}

}  // namespace assay::attribution
