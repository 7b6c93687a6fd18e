#include "harness/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "harness/faulted.hpp"
#include "harness/path_check.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Space behind each row under layout=gaps. A multiple of every element's alignment, and no multiple of a
// page.
constexpr std::int64_t kGapBytes = 64;

// Rows dense; on the outermost axis of more than one entry, n entries lie so far apart that the last begins just
// beyond 2^32 units (elements, blocks) and a middle one beyond 2^31. Memory is needed for the rows alone.
void set_far_strides(BufferPlane& plane) {
  const std::size_t rank = plane.shape.size();
  const std::int64_t elements = element_count(plane.shape);
  const auto outermost = std::ranges::find_if(plane.shape, [](std::int64_t n) { return n > 1; });
  const auto far = static_cast<std::size_t>(outermost - plane.shape.begin());
  if (elements == 0 || far + 1 >= rank) return;  // a single row
  plane.stride.assign(rank, 0);
  std::int64_t inside = static_cast<std::int64_t>(plane.bytes) / (elements / plane.shape.back());
  for (std::size_t a = rank - 1; a-- > 0;) {
    plane.stride[a] = inside;
    if (a == far) {
      const std::int64_t apart = (std::int64_t{1} << 32) / (plane.shape[a] - 1) + 1;  // in units
      plane.stride[a] = (apart * static_cast<std::int64_t>(plane.unit_bytes) + inside) / kGapBytes * kGapBytes +
                        kGapBytes;
    }
    inside = plane.stride[a] * plane.shape[a];
  }
}

BufferPlane make_plane(const std::string& tensor, const PlaneSpec& spec, const Case& c) {
  BufferPlane plane;
  plane.name = tensor + spec.suffix;
  plane.format = spec.format;
  plane.shape = spec.shape;
  plane.bytes = spec.bytes;
  if (const ScalarFormat* scalar = find_scalar_format(spec.format)) {
    plane.unit_bytes = static_cast<std::size_t>(std::max(1, scalar->storage_bytes));
    if (scalar->specials == Specials::nan_minus_zero)  // the one NaN of the FNUZ formats
      plane.poison = {std::vector{std::byte{0x80}}, std::vector{std::byte{0x5A}}};
  } else {  // a block is written as a whole
    const auto blocks = static_cast<std::size_t>(element_count(spec.shape)) /
                        static_cast<std::size_t>(format(spec.format).block_elements);
    plane.unit_bytes = spec.bytes / std::max<std::size_t>(1, blocks);
  }
  if (c.layout == "gaps" && spec.shape.size() >= 2) {
    plane.stride.assign(spec.shape.size(), 0);
    const std::int64_t rows = element_count(spec.shape) / spec.shape.back();
    plane.stride[spec.shape.size() - 2] = static_cast<std::int64_t>(spec.bytes) / rows + kGapBytes;
    for (std::size_t a = spec.shape.size() - 2; a-- > 0;)
      plane.stride[a] = plane.stride[a + 1] * spec.shape[a + 1];
  }
  if (c.layout == "far" && spec.shape.size() >= 2) set_far_strides(plane);
  return plane;
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
  }
  return Status::failed;
}

void set_status(CaseResult& r, Status status, std::string summary) {
  r.verdict.status = status;
  r.verdict.summary = std::move(summary);
}

// One run's outputs against the truth. False when the verdict is set: wrong.
bool judge_numbers(CaseResult& r, const Inputs& inputs, const std::vector<Truth>& truths,
                   const Outputs& planes_of_all, bool& shows_something) {
  auto outputs = read_outputs(inputs, planes_of_all);
  for (const auto& truth : truths) {
    const auto spec = std::ranges::find(inputs.tensors, truth.output, &TensorSpec::name);
    std::vector<double> got;
    try {
      const auto start = Clock::now();
      got = decode_tensor(outputs.at(truth.output));
      r.reference_seconds += seconds_since(start);
    } catch (const InputError& e) {  // a quantised output whose own scale is zero, negative or not finite
      set_status(r, Status::wrong, fmt::format("{} cannot be decoded: {}", truth.output, e.what()));
      return false;
    }
    const Comparison comparison = compare(truth, got);
    r.verdict.elements += comparison.elements;
    r.verdict.bad += comparison.bad;
    r.verdict.worst_ratio = std::max(r.verdict.worst_ratio, comparison.worst_ratio);
    shows_something = shows_something || !(comparison.zeros_would_pass || comparison.unclaimed);
    if (comparison.ok) continue;
    r.verdict.detail = describe(truth, comparison, got, *spec);
    set_status(r, Status::wrong,
               fmt::format("{}: {} of {} elements beyond the limit, worst {:.3g} x", truth.output,
                           comparison.bad, comparison.elements, comparison.worst_ratio));
    return false;
  }
  return true;
}

std::int64_t tensor_bytes(const WorkerCall& call) {
  std::size_t bytes = 0;
  for (const auto* planes : {&call.inputs, &call.outputs})
    for (const auto& plane : *planes) bytes += plane.bytes;
  return static_cast<std::int64_t>(bytes);
}

// Numbers first, then the path: a wrong result by a wrong path is wrong. A kernel that may give other bits each time
// is judged on both runs.
void judge_outputs(CaseResult& r, const Inputs& inputs, const std::vector<Truth>& truths, const RunResult& run,
                   const PathFinding& path) {
  bool shows_something = false;
  if (!judge_numbers(r, inputs, truths, run.outputs, shows_something)) return;
  if (!run.second.empty() && !judge_numbers(r, inputs, truths, run.second, shows_something)) {
    r.verdict.summary += " (second run)";
    return;
  }
  if (path.kind != PathFinding::Kind::none) {
    set_status(r, path.kind == PathFinding::Kind::fallback ? Status::fallback : Status::failed, path.summary);
  } else if (!shows_something) {
    set_status(r, Status::distrust, "an all-zero output would have passed: these inputs show nothing");
  } else {
    set_status(r, Status::pass, "");
  }
}

}  // namespace

std::map<std::string, Encoded> read_outputs(const Inputs& inputs, const Outputs& planes_of_all) {
  std::map<std::string, Encoded> outputs;
  std::size_t next = 0;
  for (const auto& t : inputs.tensors) {
    if (t.role != TensorRole::output) continue;
    Encoded e{t.format, t.shape, {}};
    for (const auto& spec : planes(format(t.format), t.shape))
      e.planes.push_back({spec, planes_of_all.at(next++)});
    outputs.emplace(t.name, std::move(e));
  }
  return outputs;
}

Workers::Entry& Workers::of(const std::string& backend) {
  const auto found = entries_.find(backend);
  if (found != entries_.end()) return found->second;
  Entry entry{choose_backend(backend, known_), nullptr};
  entry.worker = std::make_unique<Worker>(worker_options(entry.choice));
  return entries_.emplace(backend, std::move(entry)).first->second;
}

const TruthCache::Entry& TruthCache::of(const Case& c, const Inputs& inputs, const Contract& contract,
                                        bool& fresh) {
  const std::string key = contract.print();
  const auto found = entries_.find(key);
  fresh = found == entries_.end();
  if (!fresh) return found->second;
  const auto start = Clock::now();
  Entry entry{c.op->truth(c.attributes, inputs.set, contract), 0};
  entry.seconds = seconds_since(start);
  return entries_.emplace(key, std::move(entry)).first->second;
}

WorkerCall make_call(const Case& c, const Inputs& inputs) {
  WorkerCall call;
  call.op = c.op->name;
  call.variant = c.variant;
  for (const auto& [name, value] : c.attributes.all()) call.attributes.emplace_back(name, value);
  for (const auto& t : inputs.tensors) {
    if (t.role == TensorRole::output) {
      for (const auto& spec : planes(format(t.format), t.shape))
        call.outputs.push_back(make_plane(t.name, spec, c));
      continue;
    }
    const Encoded& tensor = inputs.given().at(t.name);
    for (const auto& plane : tensor.planes) {
      BufferPlane p = make_plane(t.name, plane.spec, c);
      p.data = plane.bytes;
      if (plane.spec.suffix.empty())
        for (const auto& u : inputs.unused)
          if (u.tensor == t.name) {
            const auto elements = static_cast<std::size_t>(element_count(t.shape));
            p.unused.push_back({static_cast<std::size_t>(u.first) * p.bytes / elements,
                                static_cast<std::size_t>(u.count) * p.bytes / elements});
          }
      call.inputs.push_back(std::move(p));
    }
  }
  return call;
}

CaseResult run_case(const Case& c, const Inputs& inputs, TruthCache& truths, Workers& workers,
                    const RunOptions& options) {
  if (inputs.fault != nullptr) return run_faulted(c, inputs, truths, workers, options);
  const auto start = Clock::now();
  CaseResult r;
  r.c = c;
  Workers::Entry& backend = workers.of(c.backend);
  RunRequest request;
  request.call = make_call(c, inputs);
  request.timeout = options.timeout;
  request.alignment = std::max<std::size_t>(1, backend.choice.info.alignment);
  request.repeats = options.repeats;

  const auto asked = Clock::now();
  const DeclareResult declared = backend.worker->declare(request.call, options.timeout);
  r.worker_seconds = seconds_since(asked);
  if (declared.status != RunStatus::done) {
    set_status(r, status_of(declared.status), declared.reason);
    r.total_seconds = seconds_since(start);
    return r;
  }
  r.expected_path = declared.declaration.path;
  request.deterministic = declared.declaration.promises.find("deterministic=no") == std::string::npos;
  try {
    const Contract contract = Contract::parse(declared.declaration.contract, c.op->contract);
    r.contract = contract.print();
    const auto sent = Clock::now();
    const RunResult run = backend.worker->run(request);
    r.worker_seconds += seconds_since(sent);
    if (options.observe) options.observe(run);
    r.kernels = run.trace.kernels;
    r.notes = run.trace.notes;
    r.witness = run.trace.witness;
    for (const auto ns : run.wall_ns) r.kernel_seconds += 1e-9 * static_cast<double>(ns);
    r.worker_seconds -= r.kernel_seconds;
    if (run.status != RunStatus::done) {
      set_status(r, status_of(run.status), run.reason);
      if (!run.output_tail.empty()) r.verdict.detail = "  the worker printed: " + run.output_tail;
    } else {
      bool fresh = false;
      const TruthCache::Entry& truth = truths.of(c, inputs, contract, fresh);
      if (fresh) r.reference_seconds += truth.seconds;
      judge_outputs(r, inputs, truth.truths, run,
                    check_path(r.expected_path, declared.declaration.promises, run.trace,
                               tensor_bytes(request.call)));
    }
  } catch (const InputError& e) {
    set_status(r, Status::failed,
               fmt::format("declared contract '{}': {}", declared.declaration.contract, e.what()));
  }
  r.total_seconds = seconds_since(start);
  return r;
}

void run_plan(const Plan& plan, const std::vector<BackendInfo>& known, const RunOptions& options,
              const std::function<void(CaseResult&)>& on_result) {
  std::atomic<std::size_t> next{0};
  std::mutex delivery;
  std::map<std::size_t, std::vector<CaseResult>> done;  // groups that wait for an earlier one
  std::size_t delivered = 0;

  const auto work = [&] {
    Workers workers(known);
    for (std::size_t g = next++; g < plan.groups.size(); g = next++) {
      const Group& group = plan.groups[g];
      const auto start = Clock::now();
      const Inputs inputs = make_inputs(group.cases.front());
      const double seconds = seconds_since(start);
      TruthCache truths;
      std::vector<CaseResult> results;
      for (const auto& c : group.cases) results.push_back(run_case(c, inputs, truths, workers, options));
      results.front().input_seconds = inputs.fill_seconds;
      results.front().reference_seconds += inputs.encode_seconds;
      results.front().total_seconds += seconds;
      const std::lock_guard lock(delivery);
      done.emplace(g, std::move(results));
      for (auto at = done.find(delivered); at != done.end(); at = done.find(++delivered)) {
        for (auto& r : at->second) on_result(r);
        done.erase(at);
      }
    }
  };

  // An exception of a job (inputs that cannot be made) ends the run, not the process.
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(delivery);
      failure = std::current_exception();
      next = plan.groups.size();
    }
  };
  {
    std::vector<std::jthread> jobs;
    for (int i = 1; i < options.jobs; ++i) jobs.emplace_back(guarded);
    guarded();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace assay
