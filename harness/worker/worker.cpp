#include "harness/worker/worker.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <system_error>

#include "harness/worker/exchange.hpp"
#include "harness/worker/findings.hpp"
#include "harness/worker/host_limits.hpp"
#include "reference/mix.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;

// For a worker whose channel is closed to end with a status of its own, and for a backend to close its
// device.
constexpr milliseconds kExitGrace{1000};
// Addresses, not memory: what nobody touches costs nothing. More is had with a new process, which may take
// seconds to load its libraries; of the addresses that a sandbox leaves this is the small part.
constexpr std::size_t kFirstMemoryBytes = std::size_t{4} << 30, kLeastMemoryBytes = std::size_t{256} << 20;
// Of a worker with a command of its own (Python), whose libraries take long to load: rows 2^32 elements apart
// in several tensors are no reason to load them again.
constexpr std::size_t kFirstMemoryOfLibraries = std::size_t{128} << 30;
constexpr std::size_t kShareOfAddresses = 16;

std::size_t first_memory(const WorkerOptions& options) {
  if (!options.sandbox || options.sandbox->memory_bytes <= 0)
    return options.command.empty() ? kFirstMemoryBytes : kFirstMemoryOfLibraries;
  const auto share = static_cast<std::size_t>(options.sandbox->memory_bytes) / kShareOfAddresses;
  return std::clamp(share, kLeastMemoryBytes, kFirstMemoryBytes);
}
constexpr std::uint64_t kIdBits = (std::uint64_t{1} << 53) - 1;  // what JSON holds in any language

std::string default_worker() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "assay-worker").string();
}

// Of the wanted size, or where that is not to be had, of the least. Throws std::system_error.
std::unique_ptr<Arena> arena_of(std::size_t wanted, std::size_t least) {
  try {
    return std::make_unique<Arena>(wanted);
  } catch (const std::system_error&) {
    if (least >= wanted) throw;
    return arena_of(wanted > kFirstMemoryBytes ? std::max(kFirstMemoryBytes, least) : least, least);
  }
}

}  // namespace

std::string_view to_string(RunStatus status) {
  constexpr std::string_view kNames[] = {
      "done",      "unsupported", "failed",           "crash",         "hang",   "overrun",
      "unwritten", "leak",        "nondeterministic", "input_changed", "too_big"};
  return kNames[static_cast<std::size_t>(status)];
}

Worker::Worker(WorkerOptions options)
    : options_(std::move(options)), memory_bytes_(first_memory(options_)), ids_(std::random_device{}()) {
  if (options_.command.empty()) options_.command = {default_worker()};
  if (options_.keeper.empty()) {
    const bool own = std::filesystem::path(options_.command[0]).filename() == "assay-worker";
    options_.keeper = own ? options_.command[0] : default_worker();
  }
}

Worker::~Worker() { restart(); }

void Worker::restart() {
  // A backend that closes its device properly leaves the machine in order; one that does not is killed.
  if (process_ && opened_) {
    process_->send(to_line(next_id(), Request{request::Bye{}}), kExitGrace);
    process_->finish(kExitGrace);
  }
  discard();
}

void Worker::discard() {
  process_.reset();
  opened_.reset();
  arena_.reset();  // whatever still writes there writes to nobody's memory
  left_digest_.reset();
}

std::int64_t Worker::next_id() { return static_cast<std::int64_t>(next_mixed(ids_) & kIdBits); }

// Asks, and with `ping_along` for the pong that ends the exchange too: one reply, and nothing else, has then
// come.
Worker::Exchange Worker::ask(const Request& request, milliseconds timeout, bool ping_along) {
  asked_id_ = next_id();
  ping_id_ = next_id();
  process_->clear_output();
  std::string lines = to_line(asked_id_, request);
  if (ping_along) lines += to_line(ping_id_, Request{request::Ping{}});
  process_->send(lines, timeout);
  Exchange answer = await(asked_id_);
  if (!ping_along || !answer.reply) return answer;
  Exchange end = settle(timeout, false);
  return end.reply ? std::move(answer) : std::move(end);
}

Worker::Exchange Worker::settle(milliseconds timeout, bool send) {
  if (send) process_->send(to_line(ping_id_, Request{request::Ping{}}), timeout);
  Exchange out = await(ping_id_);
  if (!out.reply) return out;
  if (!std::holds_alternative<reply::Pong>(*out.reply)) {
    break_off(out, "its answer to ping is no pong");
  } else if (!process_->quiet()) {
    break_off(out, "more came behind its reply, or its end");
  }
  return out;
}

void Worker::break_off(Exchange& out, std::string what) {
  out.reply.reset();
  out.status = RunStatus::crash;
  out.reason = "the worker broke the protocol: " + std::move(what);
  out.exit = process_->finish(milliseconds(0));
  out.output_tail = process_->output_tail();
  discard();
}

Worker::Exchange Worker::await(std::int64_t id) {
  Exchange out;
  std::string line;
  const WorkerProcess::Wait wait = process_->receive(line);
  if (wait == WorkerProcess::Wait::stopped) {
    discard();
    throw Stopped{};
  }
  if (wait == WorkerProcess::Wait::too_long) {
    break_off(out, fmt::format("a line of more than {} bytes", options_.line_bytes));
    return out;
  }
  if (wait == WorkerProcess::Wait::line) {
    try {
      NumberedReply reply = parse_reply(line);
      const bool crash = std::holds_alternative<reply::Crash>(reply.message);
      if (reply.id != id && !(crash && reply.id == asked_id_)) {
        break_off(out, reply.id == asked_id_ ? std::string("a second reply to one request")
                                             : fmt::format("a reply of id {} to request {}", reply.id, id));
        return out;
      }
      if (!crash) {
        out.reply = std::move(reply.message);
        out.output_tail = process_->output_tail();
        return out;
      }
      out.crash = std::get<reply::Crash>(reply.message);
    } catch (const ProtocolError& error) {
      break_off(out, error.what());
      return out;
    }
  }
  // Nobody is left to talk to.
  const bool timed_out = wait == WorkerProcess::Wait::timed_out;
  if (timed_out) out.reason = "hang: " + process_->spent();
  out.status = timed_out ? RunStatus::hang : RunStatus::crash;
  out.exit = process_->finish(timed_out ? milliseconds(0) : kExitGrace);
  out.output_tail = process_->output_tail();
  if (out.crash) {
    out.reason = fmt::format("{} at address 0x{:x}", signal_name(out.crash->signal), out.crash->address);
  } else if (!process_->start_failure().empty()) {
    out.not_started = true;
    out.reason = process_->start_failure();
  } else if (!timed_out) {
    out.reason = "the worker ended without an answer: " + describe(out.exit);
  }
  discard();
  return out;
}

bool Worker::undisturbed() { return !left_digest_ || digest(arena_->data(), left_pages_) == *left_digest_; }

// Twice as much as before, so that growing calls do not start a process each; or what is needed, if that is
// all there is.
void Worker::make_room(std::size_t bytes) {
  if (bytes <= memory_bytes_) return;
  restart();
  arena_ = arena_of(std::max(bytes, 2 * memory_bytes_), bytes);
  memory_bytes_ = arena_->bytes();
}

reply::Refused Worker::refuse(reply::Refused refused, bool timed_out) {
  discard();
  // A machine under load may have been the cause of one time-out, but not of every case's.
  if (!opened_before_ && (!timed_out || ++open_timeouts_ > 1)) refusal_ = refused;
  return refused;
}

std::optional<reply::Refused> Worker::start() {
  if (opened_) {
    if (process_->quiet() && undisturbed()) return std::nullopt;
    discard();  // the case that is guilty of it has its verdict, and this one is not to suffer
  }
  if (refusal_) return refusal_;
  if (const std::string& low = raise_host_limits(); !low.empty()) return refuse({low}, false);
  try {
    if (!arena_) arena_ = arena_of(memory_bytes_, std::min(memory_bytes_, kLeastMemoryBytes));
    memory_bytes_ = arena_->bytes();
    process_ = std::make_unique<WorkerProcess>(
        ProcessOptions{options_.command,
                       options_.keeper,
                       arena_->descriptor(),
                       {std::string(kWitnessVariable) + "=" + options_.witness},
                       options_.sandbox,
                       options_.stop_descriptor,
                       options_.line_bytes});
  } catch (const std::system_error& error) {
    return refuse({error.what()}, false);
  }
  ++starts_;
  const auto failed = [&](const std::string& what, const Exchange& answer) {
    const bool timed_out = answer.status == RunStatus::hang;
    if (answer.not_started) {
      --starts_;
      return refuse({answer.reason}, false);
    }
    return refuse({what + ": " + answer.reason +
                   (timed_out ? fmt::format(" (open timeout {} ms)", options_.open_timeout.count()) : "")},
                  timed_out);
  };
  const Exchange hello = ask(request::Hello{}, options_.open_timeout, false);
  if (!hello.reply) return failed(options_.command[0], hello);
  const auto* greeting = std::get_if<reply::Hello>(&*hello.reply);
  if (greeting == nullptr || greeting->protocol != kProtocolName || greeting->version != kProtocolVersion) {
    return refuse({fmt::format("{} does not speak {} version {}", options_.command[0], kProtocolName,
                               kProtocolVersion)},
                  false);
  }
  guards_ = greeting->guards;
  const Exchange open = ask(request::Open{options_.plugin, options_.options}, options_.open_timeout, true);
  if (!open.reply) return failed(options_.plugin + ", while it was opened", open);
  if (const auto* refused = std::get_if<reply::Refused>(&*open.reply)) return refuse(*refused, false);
  const auto* opened = std::get_if<reply::Opened>(&*open.reply);
  if (opened == nullptr)
    return refuse({options_.command[0] + " did not answer open with opened or refused"}, false);
  opened_ = *opened;
  opened_before_ = true;
  return std::nullopt;
}

std::variant<reply::Opened, reply::Refused> Worker::open() {
  if (auto refused = start()) return *refused;
  return *opened_;
}

DeclareResult Worker::declare(const WorkerCall& call, milliseconds timeout) {
  if (auto refused = start()) return {RunStatus::failed, refused->reason, {}, {}};
  return declared(ask(request::Declare{call_message(call, plane_set(call, 1), nullptr)}, timeout, true));
}

std::vector<DeclareResult> Worker::declare(std::span<const WorkerCall> calls, milliseconds timeout) {
  constexpr std::size_t kAtOnce = 64;
  std::vector<DeclareResult> results;
  while (results.size() < calls.size()) {
    if (auto refused = start()) {
      results.push_back({RunStatus::failed, refused->reason, {}, {}});
      continue;
    }
    std::string lines;
    std::vector<std::int64_t> ids;
    for (const WorkerCall& call :
         calls.subspan(results.size()).first(std::min(kAtOnce, calls.size() - results.size()))) {
      ids.push_back(next_id());
      lines += to_line(ids.back(), request::Declare{call_message(call, plane_set(call, 1), nullptr)});
    }
    ping_id_ = next_id();
    lines += to_line(ping_id_, Request{request::Ping{}});
    process_->clear_output();
    process_->send(lines, timeout);
    for (const std::int64_t id : ids) {
      asked_id_ = id;
      results.push_back(declared(await(id)));
      if (!process_) break;
    }
    if (process_) (void)settle(timeout, false);
  }
  return results;
}

DeclareResult Worker::declared(const Exchange& answer) {
  DeclareResult result;
  result.output_tail = answer.output_tail;
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

}  // namespace assay
