#include "harness/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/call.hpp"
#include "harness/faulted.hpp"
#include "harness/first_step.hpp"
#include "harness/history.hpp"
#include "harness/path_check.hpp"
#include "harness/worker/printable.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/second_opinion.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status status_of(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return Status::pass;
    case RunStatus::unsupported:
      return Status::unsupported;
    case RunStatus::failed:
      return Status::failed;
    case RunStatus::crash:
      return Status::crash;
    case RunStatus::hang:
      return Status::hang;
    case RunStatus::overrun:
      return Status::overrun;
    case RunStatus::unwritten:
      return Status::unwritten;
    case RunStatus::leak:
      return Status::leak;
    case RunStatus::nondeterministic:
      return Status::nondeterministic;
    case RunStatus::input_changed:
      return Status::input_changed;
    case RunStatus::too_big:
      return Status::too_big;
  }
  return Status::failed;
}

void set(Verdict& v, Status status, std::string summary) {
  v.status = status;
  v.summary = std::move(summary);
}

std::int64_t tensor_bytes(const WorkerCall& call) {
  std::size_t bytes = 0;
  for (const auto* planes : {&call.inputs, &call.outputs})
    for (const auto& plane : *planes) bytes += plane.bytes;
  return static_cast<std::int64_t>(bytes);
}

// "; .scale[3] is inf; ..." of an output that has such a scale, whose elements are NaN.
std::string refused_scale(const Encoded& output) {
  try {
    (void)decode_tensor(output);
    return "";
  } catch (const InputError& e) {
    return fmt::format("; {}", e.what());
  }
}

// Numbers first, then the path: a wrong result by a wrong path is wrong. A kernel that may give other bits
// each time is judged on both runs.
Verdict judge_run(const Case& c, const Contract& contract, const Inputs& inputs,
                  const std::vector<Truth>& truths, const RunResult& run, const PathFinding& path,
                  double* seconds) {
  Verdict v = judge_outputs(c, contract, inputs, truths, output_tensors(inputs, run.outputs), seconds);
  if (v.status == Status::wrong) return v;
  if (!run.second.empty()) {
    Verdict second = judge_outputs(c, contract, inputs, truths, output_tensors(inputs, run.second), seconds);
    second.elements += v.elements;
    second.worst_ratio = std::max(second.worst_ratio, v.worst_ratio);
    if (second.status == Status::wrong) {
      second.summary += " (second run)";
      return second;
    }
    if (second.status == Status::distrust && v.status == Status::pass) set(second, Status::pass, "");
    v = std::move(second);
  }
  if (path.kind == PathFinding::Kind::unwitnessed)
    v.unwitnessed = path.summary;
  else if (path.kind != PathFinding::Kind::none)
    set(v, path.kind == PathFinding::Kind::fallback ? Status::fallback : Status::failed, path.summary);
  return v;
}

}  // namespace

Verdict judge_numbers(const Inputs& inputs, const std::vector<Truth>& truths, const TensorSet& outputs,
                      double* seconds) {
  Verdict v;
  bool shows_something = false;
  for (const auto& truth : truths) {
    std::vector<double> got;
    try {
      const auto start = Clock::now();
      got = decode_output(outputs.at(truth.output));
      if (seconds != nullptr) *seconds += seconds_since(start);
    } catch (const InputError& e) {
      set(v, Status::wrong, fmt::format("{} cannot be decoded: {}", truth.output, e.what()));
      return v;
    }
    const Comparison comparison = compare(truth, got);
    v.elements += comparison.elements;
    v.bad += comparison.bad;
    for (std::size_t i = 0; i < kOctaves; ++i) v.errors[i] += comparison.errors[i];
    v.worst_ratio = std::max(v.worst_ratio, comparison.worst_ratio);
    shows_something = shows_something || !(comparison.zeros_would_pass || comparison.unclaimed);
    if (comparison.ok) continue;
    const auto spec = std::ranges::find(inputs.tensors, truth.output, &TensorSpec::name);
    v.detail = describe(truth, comparison, got, *spec);
    v.where = bad_elements(truth, got, *spec);
    set(v, Status::wrong,
        fmt::format("{}: {} of {} elements beyond the limit, worst {:.3g} x{}", truth.output, comparison.bad,
                    comparison.elements, comparison.worst_ratio, refused_scale(outputs.at(truth.output))));
    return v;
  }
  if (shows_something) {
    set(v, Status::pass, "");
  } else {
    set(v, Status::distrust, "an all-zero output would have passed: these inputs show nothing");
  }
  return v;
}

Verdict judge_outputs(const Case& c, const Contract& contract, const Inputs& inputs,
                      const std::vector<Truth>& truths, const TensorSet& outputs, double* seconds) {
  if (!c.op->truth_given) return judge_numbers(inputs, truths, outputs, seconds);
  const auto start = Clock::now();
  const std::vector<Truth> given = c.op->truth_given(c.attributes, inputs.set, contract, outputs);
  if (seconds != nullptr) *seconds += seconds_since(start);
  return judge_numbers(inputs, given, outputs, seconds);
}

Workers::Entry& Workers::of(const std::string& backend) {
  const auto found = entries_.find(backend);
  if (found != entries_.end()) return found->second;
  Entry entry{choose_backend(backend, known_), nullptr, {}, 0};
  WorkerOptions options = worker_options(entry.choice);
  options.open_timeout = settings_.open_timeout;
  options.stop_descriptor = settings_.stop_descriptor;
  options.sandbox = settings_.sandbox;
  entry.worker = std::make_unique<Worker>(std::move(options));
  return entries_.emplace(backend, std::move(entry)).first->second;
}

Workers::Entry& Workers::current(const std::string& backend) {
  Entry& entry = of(backend);
  if (entry.worker->starts() != entry.process) entry.calls.clear(), entry.asked = false;
  entry.process = entry.worker->starts();
  return entry;
}

reply::Opened Workers::open(const std::string& backend) {
  Entry& entry = of(backend);
  const auto start = Clock::now();
  const auto opened = entry.worker->open();
  if (entry.opening_seconds == 0) entry.opening_seconds = seconds_since(start);
  if (const auto* refused = std::get_if<reply::Refused>(&opened)) {
    if (refused->mistake)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("backend '{}' cannot be opened: {}", backend, refused->reason));
    throw std::runtime_error(fmt::format("backend '{}' cannot run here: {}", backend, refused->reason));
  }
  const auto& here = std::get<reply::Opened>(opened);
  // A file may have kernels of formulas that this run does not know, beside others.
  const bool any =
      std::ranges::any_of(here.ops, [](const std::string& name) { return find_op(name) != nullptr; });
  for (const std::string& name : here.ops)
    if (find_op(name) == nullptr && (!any || !nearest_name(name, op_names()).empty()))
      throw InputError(
          InputErrorKind::unknown_name,
          fmt::format(
              "backend '{}' has a kernel of op '{}', which is none (one of a formula: --op FILE.op); {}",
              backend, excerpt(name), suggest(name, op_names())));
  return here;
}

void Workers::asked() {
  for (auto& [name, entry] : entries_) {
    (void)current(name);  // of this process from here on
    entry.asked = true;
  }
}

double Workers::opening_seconds() const {
  double sum = 0;
  for (const auto& [name, entry] : entries_) sum += entry.opening_seconds;
  return sum;
}

const std::vector<Truth>& TruthCache::of(const Case& c, const Inputs& inputs, const Contract& contract,
                                         double* seconds) {
  const std::lock_guard lock(mutex_);
  const std::string key = contract.print();
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  const auto start = Clock::now();
  auto truths = c.op->truth(c.attributes, inputs.set, contract);
  if (seconds != nullptr) *seconds += seconds_since(start);
  return entries_.emplace(key, std::move(truths)).first->second;
}

CaseResult Judge::judge(const Case& c) const {
  CaseResult r = inputs.fault != nullptr ? judge_faulted(*this, c) : judge_plain(c);
  if (options.strict && r.verdict.status == Status::pass && r.verdict.suspect())
    set(r.verdict, Status::suspect,
        fmt::format("{:.3g} x what {:g} sqrt(n) roundings of either sign add up to", r.verdict.likely_ratio,
                    kLikely));
  if (options.strict && r.verdict.status == Status::pass && r.verdict.blind())
    set(r.verdict, Status::blind,
        fmt::format(
            "half of the elements would show an error only beyond {:.3g} %, the sharpest beyond {:.3g} %",
            100 * r.verdict.seen.half, 100 * r.verdict.seen.some));
  if (options.strict && r.verdict.status == Status::pass && !r.verdict.unwitnessed.empty())
    set(r.verdict, Status::unwitnessed, r.verdict.unwitnessed);
  return r;
}

const std::vector<Truth>& Judge::truths_of(const CaseResult& result) const {
  return truths.of(result.c, inputs, Contract::parse(result.contract, result.c.op->contract));
}

// Some 20 more runs and truths: not where one truth alone takes seconds.
void Judge::name_first_step(const Case& c, const Contract& contract, CaseResult& r) const {
  constexpr double kMostSeconds = 2;
  if (!options.first_step || c.op->stages == nullptr) return;
  const std::vector<ReplayStage> stages = c.op->stages(c.attributes, inputs.set, contract);
  if (stages.empty()) return;
  const std::string step = r.reference_seconds > kMostSeconds
                               ? "not looked for: the replay takes too long; ask a smaller case"
                               : first_differing_step(c, inputs, contract, stages, workers, options.timeout);
  if (!step.empty()) r.verdict.detail += "\n  first  " + step;
}

void Judge::ask_again(const Case& c, const Contract& contract, const RunResult& run, CaseResult& r) const {
  const std::optional<Contract> likely = second_opinion(*c.op, c.attributes, inputs.set, contract);
  if (!likely) return;
  std::vector<Truth> truths_again = truths.of(c, inputs, *likely, &r.reference_seconds);
  keep_silent_with(truths.of(c, inputs, contract), truths_again);
  const Verdict again = judge_outputs(c, *likely, inputs, truths_again, output_tensors(inputs, run.outputs),
                                      &r.reference_seconds);
  r.verdict.likely_ratio = again.worst_ratio;
  if (again.status == Status::wrong) r.verdict.detail = again.detail;
}

CaseResult Judge::judge_plain(const Case& c) const {
  const auto start = Clock::now();
  CaseResult r;
  r.c = c;
  Workers::Entry& backend = workers.of(c.backend);
  RunRequest request;
  request.call = make_call(c, inputs);
  request.timeout = options.timeout;
  request.alignment = std::max<std::size_t>(1, backend.choice.info.alignment);
  request.repeats = options.repeats;
  request.isolate = options.isolate;

  const auto asked = Clock::now();
  const DeclareResult declared = backend.worker->declare(request.call, options.timeout);
  r.worker_seconds = seconds_since(asked);
  if (declared.status != RunStatus::done) {
    set(r.verdict, status_of(declared.status), declared.reason);
    if (declared.status != RunStatus::unsupported && !declared.output_tail.empty())
      r.verdict.detail = "  the worker printed:\n" + quoted_block(declared.output_tail);
    r.total_seconds = seconds_since(start);
    return r;
  }
  r.expected_path = declared.declaration.path;
  request.alignment = std::max(request.alignment, declared.declaration.alignment);
  Promises promises;
  std::optional<Contract> contract;
  try {
    contract = Contract::parse(declared.declaration.contract, c.op->contract);
    r.contract = contract->print();
  } catch (const InputError& e) {
    set(r.verdict, Status::failed,
        fmt::format("declared contract '{}': {}", declared.declaration.contract, e.what()));
    r.total_seconds = seconds_since(start);
    return r;
  }
  if (std::string why; !read_promises(declared.declaration.promises, promises, why)) {
    set(r.verdict, Status::failed, why);
    r.total_seconds = seconds_since(start);
    return r;
  }
  request.deterministic = r.deterministic = promises.deterministic;
  try {
    const auto sent = Clock::now();
    RunResult run = backend.worker->run(request);
    r.worker_seconds += seconds_since(sent);
    if (options.observe) options.observe(run);
    const PathFinding path = run.status == RunStatus::done ? check_path(r.expected_path, promises, run.trace,
                                                                        tensor_bytes(request.call))
                                                           : PathFinding{};
    bound(run.trace, kForTheReport);
    r.kernels = std::move(run.trace.kernels);
    r.notes = std::move(run.trace.notes);
    r.witness = std::move(run.trace.witness);
    for (const auto ns : run.wall_ns) r.kernel_seconds += 1e-9 * static_cast<double>(ns);
    r.worker_seconds -= r.kernel_seconds;
    if (run.status != RunStatus::done) {
      set(r.verdict, run.status == RunStatus::unsupported ? Status::refused : status_of(run.status),
          run.reason);
      if (!run.output_tail.empty())
        r.verdict.detail = "  the worker printed:\n" + quoted_block(run.output_tail);
    } else {
      const auto& known = truths.of(c, inputs, *contract, &r.reference_seconds);
      r.verdict = judge_run(c, *contract, inputs, known, run, path, &r.reference_seconds);
      r.verdict.seen = sharpness(known, inputs.tensors);
      if (r.verdict.status == Status::wrong) name_first_step(c, *contract, r);
      if (r.verdict.status == Status::pass &&
          r.witness)  // a report of ten thousand passes has room for no helper
        keep_named_kernels(r.expected_path, r.kernels, *r.witness);
      if (r.verdict.status == Status::pass && !(r.verdict.seen.half <= kAskAgain))
        ask_again(c, *contract, run, r);
    }
  } catch (const InputError& e) {  // the reference has no truth of such a case under such a contract
    if (e.kind() == InputErrorKind::bad_contract)
      set(r.verdict, Status::failed,
          fmt::format("declared contract '{}': {}", declared.declaration.contract, e.what()));
    else
      set(r.verdict, Status::impossible, e.what());
  } catch (const std::invalid_argument& e) {  // planes that no memory can hold
    set(r.verdict, Status::impossible, e.what());
  }
  r.total_seconds = seconds_since(start);
  return r;
}

CaseResult judge_alone(const Case& c, const InputLists& lists, Workers& workers, JudgeOptions options) {
  replay_calls(c, lists, workers, options);
  const Inputs inputs = make_inputs(c, lists);
  TruthCache truths;
  return Judge{inputs, truths, workers, std::move(options)}.judge(c);
}

}  // namespace assay
