#include "harness/faulted.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "harness/call.hpp"

namespace assay {
namespace {

bool same_bytes(const TensorSet& a, const TensorSet& b) {
  for (const auto& [name, tensor] : a) {
    const auto& other = b.at(name);
    for (std::size_t p = 0; p < tensor.planes.size(); ++p)
      if (tensor.planes[p].bytes != other.planes[p].bytes) return false;
  }
  return true;
}

// A run without a fault of its own, and what it left.
struct Run {
  CaseResult result;
  TensorSet outputs;  // empty when the run ended early
};

Run run_plain(const Judge& judge, const Inputs& inputs, TruthCache& truths, const Case& c) {
  Run run;
  Judge plain{inputs, truths, judge.workers, judge.options};
  plain.options.strict = false;  // what is blind is told once, of the case with its fault
  plain.options.observe = [&](const RunResult& r) {
    if (r.status == RunStatus::done) run.outputs = output_tensors(inputs, r.outputs);
    if (judge.options.observe) judge.options.observe(r);
  };
  run.result = plain.judge(c);
  return run;
}

// The verdict without the fault, which must be a pass for the fault to be judged.
CaseResult not_judged(CaseResult clean, std::string_view without) {
  if (clean.verdict.status != Status::unsupported)
    clean.verdict.summary = fmt::format("without the {}: {}", without, clean.verdict.summary);
  return clean;
}

void add_time(CaseResult& r, const CaseResult& other) {
  r.kernel_seconds += other.kernel_seconds;
  r.reference_seconds += other.reference_seconds;
  r.worker_seconds += other.worker_seconds;
  r.total_seconds += other.total_seconds;
}

void set(CaseResult& r, Status status, std::string summary) {
  r.verdict.status = status;
  r.verdict.summary = std::move(summary);
}

// `contain` and `conceal`: the elements that the fault does not reach keep their bits. One whose truth is
// another finite number with the fault (a format without NaN stores something else) is neither reached nor
// kept. A kernel that is not deterministic gives other bits without a fault as well: its elements are held to
// their limits alone, which they are within by now.
void check_bits(CaseResult& r, Requirement requirement, const Run& faulted, const Run& clean,
                const std::vector<Truth>& truths, const std::vector<Truth>& clean_truths) {
  std::size_t reached = 0, kept = 0;
  for (std::size_t n = 0; n < truths.size(); ++n) {
    const Truth& t = truths[n];
    const std::vector<double> with = decode_tensor(faulted.outputs.at(t.output));
    const std::vector<double> without = decode_tensor(clean.outputs.at(t.output));
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (requirement == Requirement::contain && !(std::isfinite(t.value[i]) && std::isfinite(t.limit[i]))) {
        ++reached;
        continue;
      }
      if (requirement == Requirement::contain && t.value[i] != clean_truths[n].value[i]) continue;
      ++kept;
      if (!r.deterministic) continue;
      if (std::bit_cast<std::uint64_t>(with[i]) == std::bit_cast<std::uint64_t>(without[i])) continue;
      r.verdict.bad = 1;
      set(r, Status::leak,
          fmt::format("{}[{}] does not see the fault and changes with it: {:.9g} without, {:.9g} with it",
                      t.output, i, without[i], with[i]));
      return;
    }
  }
  if (kept == 0 || (requirement == Requirement::contain && reached == 0)) {
    set(r, Status::distrust,
        fmt::format("the fault reaches {} elements and leaves {}: containment is not tested", reached, kept));
    return;
  }
  const std::string_view how =
      r.deterministic ? "keep their bits" : "are within their limits (deterministic=no)";
  r.verdict.summary = requirement == Requirement::contain
                          ? fmt::format("contained: {} elements reached, {} {}", reached, kept, how)
                          : fmt::format("concealed: {} elements {}", kept, how);
}

CaseResult judge_input_fault(const Judge& judge, Inputs plain, const Case& c) {
  Inputs clean_inputs = plain;
  clean_inputs.set = judge.inputs.clean;
  TruthCache clean_truths;
  const Run clean = run_plain(judge, clean_inputs, clean_truths, c);
  if (clean.result.verdict.status != Status::pass) return not_judged(clean.result, "fault");
  plain.set = judge.inputs.set;
  const Run faulted = run_plain(judge, plain, judge.truths, c);
  CaseResult r = faulted.result;
  add_time(r, clean.result);
  const Requirement requirement = judge.inputs.fault->requirement;
  if (r.verdict.status == Status::pass && requirement != Requirement::judge)
    check_bits(r, requirement, faulted, clean, judge.truths_of(r),
               clean_truths.of(clean.result.c, clean_inputs,
                               Contract::parse(clean.result.contract, c.op->contract)));
  return r;
}

// Whether a kernel that is faithful to the corrupted bytes is beyond the limits of the clean ones. Bytes that
// the reference refuses to read (a scale of 0) count as such.
bool must_show(const Judge& judge, const CaseResult& result) {
  const Case& c = result.c;
  const std::vector<Truth>& clean = judge.truths_of(result);
  try {
    const std::vector<Truth> corrupted =
        c.op->truth(c.attributes, judge.inputs.corrupted, Contract::parse(result.contract, c.op->contract));
    for (std::size_t t = 0; t < clean.size(); ++t)
      for (std::size_t i = 0; i < clean[t].value.size(); ++i) {
        if (std::isinf(corrupted[t].limit[i]) || std::isinf(clean[t].limit[i]))
          continue;  // nothing is claimed
        const double moved = std::fabs(corrupted[t].value[i] - clean[t].value[i]);
        if (!(moved <= corrupted[t].limit[i] + clean[t].limit[i])) return true;
      }
    return false;
  } catch (const InputError&) {
    return true;
  }
}

CaseResult judge_corruption(const Judge& judge, Inputs plain, const Case& c) {
  plain.set = judge.inputs.set;
  const Run clean = run_plain(judge, plain, judge.truths, c);
  if (clean.result.verdict.status != Status::pass) return not_judged(clean.result, "corruption");
  plain.corrupted = judge.inputs.corrupted;
  CaseResult r = run_plain(judge, plain, judge.truths, c).result;
  add_time(r, clean.result);
  Verdict& v = r.verdict;
  // A backend that refuses such bytes with a reason has noticed them as well; and one that follows a
  // corrupted page table or length into keys of no sequence reads their poison.
  if (v.status == Status::wrong || v.status == Status::leak || v.status == Status::failed) {
    v.summary = fmt::format("caught: {}: {}", to_string(v.status), v.summary);
    v.status = Status::pass;
    v.detail.clear();
    v.bad = 0, v.worst_ratio = 0, v.errors = {}, v.where = {};
  } else if (v.status == Status::pass) {
    if (must_show(judge, r)) {
      set(r, Status::missed, "the outputs pass although the corrupted bytes stand for others");
    } else {
      set(r, Status::distrust, "the corruption moves no output beyond its limit: it shows nothing");
    }
  }
  return r;
}

}  // namespace

CaseResult judge_faulted(const Judge& judge, const Case& c) {
  const Inputs& inputs = judge.inputs;
  const bool corruption = inputs.fault->kind == FaultKind::corruption;
  if (same_bytes(inputs.set, corruption ? inputs.corrupted : inputs.clean)) {
    CaseResult r;
    r.c = c;
    set(r, Status::distrust, fmt::format("fault {} changed no byte of these inputs", inputs.fault->name));
    return r;
  }
  Inputs plain;
  plain.tensors = inputs.tensors;
  plain.unused = inputs.unused;
  return corruption ? judge_corruption(judge, std::move(plain), c)
                    : judge_input_fault(judge, std::move(plain), c);
}

}  // namespace assay
