// One call in the worker: its runs, and what they say together.
#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "harness/worker/exchange.hpp"
#include "harness/worker/host_limits.hpp"

namespace assay {
namespace {

TensorMessage tensor_message(const BufferPlane& plane, const Geometry& shape) {
  return {plane.name, plane.format, plane.shape, shape.stride, -1};
}

// What the stack below the call holds: like an input's poison the other byte than the outputs', so that a
// kernel which stores what it read there is told from one that never stored.
int stack_byte(Poison poison) { return poison == Poison::nan ? 0x5A : 0xFF; }

// What a worker found out itself about memory that the shared one does not show, as that of a device.
RunStatus status_of_finding(std::string_view finding) {
  if (finding == "overrun") return RunStatus::overrun;
  if (finding == "leak") return RunStatus::leak;
  if (finding == "input_changed") return RunStatus::input_changed;
  return finding == "crash" ? RunStatus::crash : RunStatus::failed;
}

// With gaps that are memory: rows far apart are no reader's of dense ones, which would fault.
bool has_gaps(const BufferPlane& plane, const Geometry& shape) {
  return !plane.stride.empty() && shape.extent > plane.bytes && shape.far.empty();
}

}  // namespace

// An input whose memory is not what the other inputs' is: what a leak reads is found out so.
struct Worker::Odd {
  std::size_t plane = 0;
  bool packed =
      false;  // its rows stand one behind the other, as if its strides were dense; else in the other poison
};

CallMessage call_message(const WorkerCall& call, const PlaneSet& set, const Layout* layout) {
  CallMessage message{call.op, call.variant, call.attributes, {}, {}};
  for (std::size_t i = 0; i < set.planes.size(); ++i) {
    TensorMessage tensor = tensor_message(*set.planes[i], set.shapes[i]);
    if (layout != nullptr) tensor.offset = static_cast<std::int64_t>(layout->slots[i].start);
    (i < set.input_count ? message.inputs : message.outputs).push_back(std::move(tensor));
  }
  return message;
}

// One run in the worker: memory written, call made, memory checked. Outputs that all equal `known` are not
// copied.
RunResult Worker::attempt(const RunRequest& request, const PlaneSet& set, Poison poison, Placement placement,
                          const Outputs* known, const Odd* odd) {
  RunResult result;
  if (known != nullptr && request.isolate) restart();
  const Layout layout = lay_out(set.shapes, placement);
  try {
    make_room(layout.bytes);
  } catch (const std::system_error& error) {
    result.status = RunStatus::too_big;
    result.reason = fmt::format("{} bytes of tensors and guards: {}", layout.bytes, error.what());
    return result;
  }
  if (auto refused = start()) {
    result.reason = refused->reason;
    return result;
  }
  arena_->use(layout.bytes);
  left_digest_.reset();
  left_pages_ = output_pages(set, layout);
  std::byte* memory = arena_->data();
  const bool writable_inputs = options_.writable_inputs || !guards_;
  request::Run run{call_message(request.call, set, &layout),
                   static_cast<std::int64_t>(arena_->bytes()),
                   {},
                   stack_byte(poison)};
  for (std::size_t i = 0; i < set.planes.size(); ++i) {
    const Slot& slot = layout.slots[i];
    const bool input = i < set.input_count;
    if (input) {
      const bool other = odd != nullptr && odd->plane == i;
      write_input(memory, *set.planes[i], set.shapes[i], slot,
                  other && !odd->packed ? poison : input_poison(poison));
      if (other && odd->packed) {  // nothing is left where the strides say
        const auto pattern = poison_pattern(*set.planes[i], input_poison(poison));
        for (std::size_t at = 0; at < set.shapes[i].extent; ++at)
          memory[slot.start + at] = pattern[at % pattern.size()];
        std::ranges::copy(set.planes[i]->data, memory + slot.start);
      }
    } else {
      poison_output(memory, *set.planes[i], set.shapes[i], slot, poison);
    }
    for (const ByteRange& pages : open_pages(set.shapes[i], slot))
      run.slots.push_back({static_cast<std::int64_t>(pages.first), static_cast<std::int64_t>(pages.count),
                           !input || writable_inputs});
  }
  Exchange answer = ask(std::move(run), request.timeout, false);
  std::optional<Reply> reply = answer.reply;
  const auto* done = reply ? std::get_if<reply::Done>(&*reply) : nullptr;
  if (done != nullptr) {
    result.trace = done->trace;
    result.wall_ns.push_back(done->trace.wall_ns);
    if (known == nullptr || !outputs_equal(memory, set, layout, *known))
      result.outputs = read_outputs(memory, set, layout);
  }
  // What comes before the pong is this run's fault; and whoever goes on writing has had time to show it.
  const std::string printed = answer.output_tail;
  if (reply) answer = settle(request.timeout, true);
  result.output_tail = answer.reply ? printed : answer.output_tail;
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
    return result;
  }
  bool failed_with_finding = false;
  if (done != nullptr) {
    result.status = RunStatus::done;
  } else if (const auto* unsupported = std::get_if<reply::Unsupported>(&*reply)) {
    result.status = RunStatus::unsupported;
    result.reason = unsupported->reason;
  } else if (const auto* failed = std::get_if<reply::Failed>(&*reply)) {
    result.status = status_of_finding(failed->finding);
    failed_with_finding = !failed->finding.empty();
    result.reason = failed->reason;
  } else if (const auto* limit = std::get_if<reply::HostLimit>(&*reply)) {
    result.status = RunStatus::too_big;
    result.reason = limit->reason;
    return result;
  } else {
    result.reason = "the worker did not answer run with done, unsupported, failed or host_limit";
  }
  if (odd == nullptr) check_memory(memory, set, layout, poison, result);
  if (result.status == RunStatus::done) {
    const Outputs& read = result.outputs.empty() && known != nullptr ? *known : result.outputs;
    check_outputs_unchanged(memory, set, layout, read, result);
  }
  if (failed_with_finding) restart();  // its device, or what it holds there, may be in disorder
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
  // A process that was found out, or says that something stays changed in it, may serve no other case: what
  // it mapped, or keeps, is not known.
  const bool sound = first.status == RunStatus::done || first.status == RunStatus::unsupported ||
                     first.status == RunStatus::failed || first.status == RunStatus::too_big;
  const auto& notes = first.trace.notes;
  if (!sound || std::ranges::any_of(notes, [](const auto& note) { return note.first == kLeftBehindNote; }))
    restart();
  if (opened_) left_digest_ = digest(arena_->data(), left_pages_);
  if ((first.status == RunStatus::failed || first.status == RunStatus::crash) && !options_.sandbox)
    first.reason += reachable_host_limits();
  return first;
}

// Of a leak that is there each time: which inputs have the bytes that are read, and whether it reads an
// input as if its rows stood one behind the other; "" where none has (an output before it is written, the
// stack).
std::string Worker::leaks_from(const RunRequest& request, const PlaneSet& set, const Outputs& first) {
  std::string names, dense;
  for (std::size_t i = 0; i < set.input_count; ++i) {
    const BufferPlane& plane = *set.planes[i];
    const Odd poisoned{i, false}, packed{i, true};
    const RunResult other = attempt(request, set, Poison::nan, Placement::right, &first, &poisoned);
    if (other.status == RunStatus::done && other.outputs.empty()) continue;
    names += (names.empty() ? "" : ", ") + plane.name;
    if (!has_gaps(plane, set.shapes[i])) continue;
    BufferPlane straight = plane;
    straight.stride.clear();
    PlaneSet as_dense = set;
    as_dense.planes[i] = &straight;
    as_dense.shapes[i] = geometry(straight, request.alignment);
    const RunResult right = attempt(request, as_dense, Poison::nan, Placement::right, nullptr);
    if (right.status != RunStatus::done) continue;
    const RunResult same = attempt(request, set, Poison::nan, Placement::right, &right.outputs, &packed);
    if (same.status == RunStatus::done && same.outputs.empty())
      dense += (dense.empty() ? "" : ", ") + plane.name;
  }
  if (names.empty()) return "";
  return fmt::format("; those bytes stand beside the elements of {}{}", names,
                     dense.empty() ? "" : fmt::format(" (a stride taken for dense: {})", dense));
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
    found(RunStatus::leak, "the bits depend on bytes that no kernel may read");
    first.reason += leaks_from(request, set, first.outputs);
    return;
  }
  find_difference(set, first.outputs, first.second, first);
  first.depends_on_address = true;
  found(RunStatus::nondeterministic, "the bits depend on the address of the buffers");
}

}  // namespace assay
