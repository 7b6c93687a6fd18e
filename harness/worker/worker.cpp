#include "harness/worker/worker.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "harness/worker/findings.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kExitGrace{
    1000};  // for a worker whose channel is closed to end with a status of its own

std::string default_worker() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "assay-worker").string();
}

TensorMessage tensor_message(const BufferPlane& plane, const Geometry& shape) {
  return {plane.name, plane.format, plane.shape, shape.stride, -1};
}

CallMessage call_message(const WorkerCall& call, const PlaneSet& set, const Layout* layout) {
  CallMessage message{call.op, call.variant, call.attributes, {}, {}};
  for (std::size_t i = 0; i < set.planes.size(); ++i) {
    TensorMessage tensor = tensor_message(*set.planes[i], set.shapes[i]);
    if (layout != nullptr) tensor.offset = static_cast<std::int64_t>(layout->slots[i].start);
    (i < set.input_count ? message.inputs : message.outputs).push_back(std::move(tensor));
  }
  return message;
}

}  // namespace

std::string_view to_string(RunStatus status) {
  constexpr std::string_view kNames[] = {
      "done",      "unsupported", "failed",           "crash",         "hang",   "overrun",
      "unwritten", "leak",        "nondeterministic", "input_changed", "too_big"};
  return kNames[static_cast<std::size_t>(status)];
}

// What came back of one request: a reply, or the reason why there is none (crash, hang).
struct Worker::Exchange {
  std::optional<Reply> reply;
  RunStatus status = RunStatus::done;
  std::string reason;
  std::optional<reply::Crash> crash;
  ExitStatus exit;
  std::string output_tail;
};

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {
  if (options_.command.empty()) options_.command = {default_worker()};
}

Worker::~Worker() {
  // A backend that closes its device properly leaves the machine in order; one that does not is killed.
  if (process_ && opened_ && process_->send(to_line(Request{request::Bye{}}))) process_->finish(kExitGrace);
}

void Worker::restart() {
  process_.reset();
  opened_.reset();
}

Worker::Exchange Worker::exchange(const Request& request, milliseconds timeout) {
  Exchange out;
  const auto deadline = WorkerProcess::Clock::now() + timeout;
  process_->clear_output();
  std::string line;
  process_->send(to_line(request));  // a dead worker shows as `ended` below
  WorkerProcess::Wait wait = process_->receive(line, deadline);
  if (wait == WorkerProcess::Wait::line) {
    try {
      out.reply = parse_reply(line);
    } catch (const ProtocolError& error) {
      out.reason = std::string("the worker broke the protocol: ") + error.what();
      wait = WorkerProcess::Wait::timed_out;
    }
    if (out.reply && !std::holds_alternative<reply::Crash>(*out.reply)) {
      out.output_tail = process_->output_tail();
      return out;
    }
  }
  // Nobody is left to talk to.
  out.exit = process_->finish(wait == WorkerProcess::Wait::timed_out ? milliseconds(0) : kExitGrace);
  out.output_tail = process_->output_tail();
  process_.reset();
  opened_.reset();
  if (out.reply) {
    out.crash = std::get<reply::Crash>(*out.reply);
    out.reply.reset();
    out.status = RunStatus::crash;
    out.reason = fmt::format("{} at address 0x{:x}", signal_name(out.crash->signal), out.crash->address);
  } else if (!out.reason.empty()) {
    out.status = RunStatus::crash;
  } else if (wait == WorkerProcess::Wait::timed_out) {
    out.status = RunStatus::hang;
    out.reason = fmt::format("no answer within {} ms", timeout.count());
  } else {
    out.status = RunStatus::crash;
    out.reason = "the worker ended without an answer: " + describe(out.exit);
  }
  return out;
}

std::optional<std::string> Worker::start() {
  if (opened_) return std::nullopt;
  if (refusal_) return refusal_;
  const auto refuse = [&](std::string reason) {
    process_.reset();
    if (!opened_before_) refusal_ = reason;
    return std::optional<std::string>(std::move(reason));
  };
  try {
    process_ = std::make_unique<WorkerProcess>(
        options_.command, arena_.descriptor(),
        std::vector<std::string>{std::string(kWitnessVariable) + "=" + options_.witness});
  } catch (const std::system_error& error) {
    return refuse(error.what());
  }
  ++starts_;
  const Exchange hello = exchange(request::Hello{}, options_.open_timeout);
  if (!hello.reply) return refuse(options_.command[0] + ": " + hello.reason);
  const auto* greeting = std::get_if<reply::Hello>(&*hello.reply);
  if (greeting == nullptr || greeting->protocol != kProtocolName || greeting->version != kProtocolVersion) {
    return refuse(
        fmt::format("{} does not speak {} version {}", options_.command[0], kProtocolName, kProtocolVersion));
  }
  guards_ = greeting->guards;
  const Exchange open = exchange(request::Open{options_.plugin, options_.options}, options_.open_timeout);
  if (!open.reply) return refuse(options_.plugin + ", while it was opened: " + open.reason);
  if (const auto* refused = std::get_if<reply::Refused>(&*open.reply)) return refuse(refused->reason);
  const auto* opened = std::get_if<reply::Opened>(&*open.reply);
  if (opened == nullptr) return refuse(options_.command[0] + " did not answer open with opened or refused");
  opened_ = *opened;
  opened_before_ = true;
  return std::nullopt;
}

std::variant<reply::Opened, reply::Refused> Worker::open() {
  if (auto reason = start()) return reply::Refused{*reason};
  return *opened_;
}

DeclareResult Worker::declare(const WorkerCall& call, milliseconds timeout) {
  DeclareResult result;
  if (auto reason = start()) {
    result.reason = *reason;
    return result;
  }
  const PlaneSet set = plane_set(call, 1);
  const Exchange answer = exchange(request::Declare{call_message(call, set, nullptr)}, timeout);
  if (!answer.reply) {
    result.status = answer.status;
    result.reason = "in declare: " + answer.reason;
  } else if (const auto* declared = std::get_if<reply::Declared>(&*answer.reply)) {
    result.status = RunStatus::done;
    result.declaration = *declared;
  } else if (const auto* unsupported = std::get_if<reply::Unsupported>(&*answer.reply)) {
    result.status = RunStatus::unsupported;
    result.reason = unsupported->reason;
  } else if (const auto* failed = std::get_if<reply::Failed>(&*answer.reply)) {
    result.reason = failed->reason;
  } else {
    result.reason = "the worker did not answer declare with declared, unsupported or failed";
  }
  return result;
}

// One run in the worker: memory written, call made, memory checked. Outputs that all equal `known` are not copied.
RunResult Worker::attempt(const RunRequest& request, const PlaneSet& set, Poison poison, Placement placement,
                          const Outputs* known) {
  RunResult result;
  if (auto reason = start()) {
    result.reason = *reason;
    return result;
  }
  const Layout layout = lay_out(set.shapes, placement);
  try {
    arena_.reserve(layout.bytes);
  } catch (const std::system_error& error) {
    result.reason = fmt::format("{} bytes of tensors: {}", layout.bytes, error.what());
    return result;
  }
  const bool writable_inputs = options_.writable_inputs || !guards_;
  request::Run run{call_message(request.call, set, &layout), static_cast<std::int64_t>(arena_.bytes()), {}};
  for (std::size_t i = 0; i < set.planes.size(); ++i) {
    const Slot& slot = layout.slots[i];
    const bool input = i < set.input_count;
    if (input) {
      write_input(arena_.data(), *set.planes[i], set.shapes[i], slot, input_poison(poison));
    } else {
      poison_output(arena_.data(), *set.planes[i], set.shapes[i], slot, poison);
    }
    for (const ByteRange& pages : open_pages(set.shapes[i], slot))
      run.slots.push_back({static_cast<std::int64_t>(pages.first), static_cast<std::int64_t>(pages.count),
                           !input || writable_inputs});
  }
  const Exchange answer = exchange(std::move(run), request.timeout);
  result.output_tail = answer.output_tail;
  if (!answer.reply) {
    result.status = answer.status;
    result.reason = answer.reason;
    if (answer.crash) {
      result.signal = answer.crash->signal;
      result.address = answer.crash->address;
      classify_fault(set, layout, *answer.crash, result);
    } else if (answer.exit.by_signal && answer.status == RunStatus::crash) {
      result.signal = answer.exit.number;
    }
  } else if (const auto* unsupported = std::get_if<reply::Unsupported>(&*answer.reply)) {
    result.status = RunStatus::unsupported;
    result.reason = unsupported->reason;
  } else if (const auto* failed = std::get_if<reply::Failed>(&*answer.reply)) {
    result.reason = failed->reason;
  } else if (const auto* done = std::get_if<reply::Done>(&*answer.reply)) {
    result.status = RunStatus::done;
    result.trace = done->trace;
    result.wall_ns.push_back(done->trace.wall_ns);
    if (known == nullptr || !outputs_equal(arena_.data(), set, layout, *known)) {
      result.outputs = read_outputs(arena_.data(), set, layout);
    }
  } else {
    result.reason = "the worker did not answer run with done, unsupported or failed";
  }
  if (answer.reply) check_memory(arena_.data(), set, layout, poison, writable_inputs, result);
  return result;
}

RunResult Worker::run(const RunRequest& request) {
  const PlaneSet set = plane_set(request.call, request.alignment);
  for (std::size_t i = 0; i < set.input_count; ++i) {
    if (set.planes[i]->data.size() != set.planes[i]->bytes) {
      throw std::invalid_argument("plane " + set.planes[i]->name + ": an input without data");
    }
  }
  RunResult first = attempt(request, set, Poison::nan, Placement::right, nullptr);
  if (first.status == RunStatus::done) compare_runs(request, set, first);
  return first;
}

// The first run against a second one under another poison and placement, and against repeats. When the bits
// differ, three more runs tell the causes apart: each setting must first reproduce itself.
void Worker::compare_runs(const RunRequest& request, const PlaneSet& set, RunResult& first) {
  // The outputs of one more run, empty when they equal `known`; nothing when that run has a finding of its
  // own, which then is the result, with the first run's outputs.
  const auto again = [&](Poison poison, Placement placement, const Outputs& known) -> std::optional<Outputs> {
    RunResult other = attempt(request, set, poison, placement, &known);
    first.wall_ns.insert(first.wall_ns.end(), other.wall_ns.begin(), other.wall_ns.end());
    if (other.status == RunStatus::done) return std::move(other.outputs);
    other.outputs = std::move(first.outputs);
    other.trace = std::move(first.trace);
    other.wall_ns = std::move(first.wall_ns);
    first = std::move(other);
    return std::nullopt;
  };
  const auto found = [&](RunStatus status, const char* what) {
    first.status = status;
    first.reason = fmt::format("{}: {} units of {} differ, the first is unit {}", what, first.count,
                               first.plane, first.unit);
  };
  constexpr const char* kSameBytes = "two runs on the same bytes give different bits";

  for (int i = 0; request.deterministic && i < request.repeats; ++i) {
    const auto repeat = again(Poison::nan, Placement::right, first.outputs);
    if (!repeat) return;
    if (find_difference(set, first.outputs, *repeat, first))
      return found(RunStatus::nondeterministic, kSameBytes);
  }
  if (!request.second_run) return;
  const Placement placement = request.vary_placement ? Placement::left : Placement::right;
  auto second = again(Poison::finite, placement, first.outputs);
  if (!second || second->empty()) return;
  first.second = std::move(*second);
  check_unwritten(set, first.outputs, first.second, first);
  if (first.status != RunStatus::done || !request.deterministic) return;

  const auto crossed = again(Poison::finite, Placement::right, first.outputs);
  if (!crossed) return;
  const auto like_first = again(Poison::nan, Placement::right, first.outputs);
  if (!like_first) return;
  const auto like_second = again(Poison::finite, placement, first.second);
  if (!like_second) return;
  if (find_difference(set, first.outputs, *like_first, first) ||
      find_difference(set, first.second, *like_second, first)) {
    return found(RunStatus::nondeterministic, kSameBytes);
  }
  if (find_difference(set, first.outputs, *crossed, first)) {
    return found(RunStatus::leak, "the bits depend on bytes that no kernel may read");
  }
  find_difference(set, first.outputs, first.second, first);
  first.depends_on_address = true;
  found(RunStatus::nondeterministic, "the bits depend on the address of the buffers");
}

}  // namespace assay
