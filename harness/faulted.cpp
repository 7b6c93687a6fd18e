#include "harness/faulted.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace assay {
namespace {

using Elements = std::map<std::string, std::vector<double>>;  // output name -> decoded elements

bool same_bytes(const TensorSet& a, const TensorSet& b) {
  for (const auto& [name, tensor] : a) {
    const auto& other = b.at(name);
    for (std::size_t p = 0; p < tensor.planes.size(); ++p)
      if (tensor.planes[p].bytes != other.planes[p].bytes) return false;
  }
  return true;
}

// What a run gave, as far as it can be decoded (a quantised output with a scale of 0 cannot).
struct Run {
  CaseResult result;
  std::map<std::string, Encoded> outputs;
};

Run run_plain(const Case& c, const Inputs& inputs, TruthCache& truths, Workers& workers,
              const RunOptions& options) {
  Run run;
  RunOptions observed = options;
  observed.observe = [&](const RunResult& r) {
    if (r.status == RunStatus::done) run.outputs = read_outputs(inputs, r.outputs);
    if (options.observe) options.observe(r);
  };
  run.result = run_case(c, inputs, truths, workers, observed);
  return run;
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

// `contain` and `conceal`: the elements that the fault does not reach keep their bits.
void check_bits(CaseResult& r, Duty duty, const Run& faulted, const Run& clean,
                const std::vector<Truth>& truths) {
  std::size_t reached = 0, kept = 0;
  for (const auto& t : truths) {
    const std::vector<double> with = decode_tensor(faulted.outputs.at(t.output));
    const std::vector<double> without = decode_tensor(clean.outputs.at(t.output));
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (duty == Duty::contain && !(std::isfinite(t.value[i]) && std::isfinite(t.limit[i]))) {
        ++reached;
        continue;
      }
      ++kept;
      if (std::bit_cast<std::uint64_t>(with[i]) == std::bit_cast<std::uint64_t>(without[i])) continue;
      r.verdict.bad = 1;
      set(r, Status::leak,
          fmt::format("{}[{}] does not see the fault and changes with it: {:.9g} without, {:.9g} with it",
                      t.output, i, without[i], with[i]));
      return;
    }
  }
  if (kept == 0 || (duty == Duty::contain && reached == 0)) {
    set(r, Status::distrust,
        fmt::format("the fault reaches {} elements and leaves {}: containment is not tested", reached, kept));
    return;
  }
  r.verdict.summary = duty == Duty::contain
                          ? fmt::format("contained: {} elements reached, {} keep their bits", reached, kept)
                          : fmt::format("concealed: {} elements keep their bits", kept);
}

CaseResult judge_input_fault(const Case& c, const Inputs& inputs, Inputs plain, TruthCache& truths,
                             Workers& workers, const RunOptions& options) {
  const Fault& fault = *inputs.fault;
  plain.set = inputs.clean;
  TruthCache clean_truths;
  const Run clean = run_plain(c, plain, clean_truths, workers, options);
  if (clean.result.verdict.status != Status::pass) {
    CaseResult r = clean.result;
    if (r.verdict.status != Status::unsupported)
      r.verdict.summary = "without the fault: " + r.verdict.summary;
    return r;
  }
  plain.set = inputs.set;
  const Run faulted = run_plain(c, plain, truths, workers, options);
  CaseResult r = faulted.result;
  add_time(r, clean.result);
  if (r.verdict.status == Status::pass && fault.duty != Duty::judge) {
    bool fresh = false;
    const Contract contract = Contract::parse(r.contract, c.op->contract);
    check_bits(r, fault.duty, faulted, clean, truths.of(c, plain, contract, fresh).truths);
  }
  return r;
}

// Whether a kernel that is faithful to the corrupted bytes is beyond the limits of the clean ones. Bytes that
// the reference refuses to read (a scale of 0) count as such.
bool must_show(const Case& c, const Inputs& inputs, const std::vector<Truth>& clean,
               const Contract& contract) {
  try {
    const std::vector<Truth> corrupted = c.op->truth(c.attributes, inputs.corrupted, contract);
    for (std::size_t t = 0; t < clean.size(); ++t)
      for (std::size_t i = 0; i < clean[t].value.size(); ++i) {
        const double moved = std::fabs(corrupted[t].value[i] - clean[t].value[i]);
        if (!(moved <= corrupted[t].limit[i] + clean[t].limit[i])) return true;
      }
    return false;
  } catch (const InputError&) {
    return true;
  }
}

CaseResult judge_corruption(const Case& c, const Inputs& inputs, Inputs plain, TruthCache& truths,
                            Workers& workers, const RunOptions& options) {
  plain.set = inputs.set;
  const Run clean = run_plain(c, plain, truths, workers, options);
  if (clean.result.verdict.status != Status::pass) {
    CaseResult r = clean.result;
    if (r.verdict.status != Status::unsupported)
      r.verdict.summary = "without the corruption: " + r.verdict.summary;
    return r;
  }
  plain.corrupted = inputs.corrupted;
  CaseResult r = run_plain(c, plain, truths, workers, options).result;
  add_time(r, clean.result);
  Verdict& v = r.verdict;
  // A backend that refuses such bytes with a reason has noticed them as well; and one that follows a
  // corrupted page table or length into keys of no sequence reads their poison.
  if (v.status == Status::wrong || v.status == Status::leak || v.status == Status::failed) {
    v.summary = fmt::format("caught: {}: {}", to_string(v.status), v.summary);
    v.status = Status::pass;
    v.detail.clear();
    v.bad = 0, v.worst_ratio = 0;
  } else if (v.status == Status::pass) {
    bool fresh = false;
    const Contract contract = Contract::parse(r.contract, c.op->contract);
    if (must_show(c, inputs, truths.of(c, plain, contract, fresh).truths, contract)) {
      set(r, Status::missed, "the outputs pass although the corrupted bytes stand for others");
    } else {
      set(r, Status::distrust, "the corruption moves no output beyond its limit: it shows nothing");
    }
  }
  return r;
}

}  // namespace

CaseResult run_faulted(const Case& c, const Inputs& inputs, TruthCache& truths, Workers& workers,
                       const RunOptions& options) {
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
  return corruption ? judge_corruption(c, inputs, std::move(plain), truths, workers, options)
                    : judge_input_fault(c, inputs, std::move(plain), truths, workers, options);
}

}  // namespace assay
