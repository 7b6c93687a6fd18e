// The assay program's view of one backend: a worker process that is started when it is needed, listened to
// under a time limit, and replaced after a crash or a hang. One Worker belongs to one thread at a time;
// workers share nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/worker/bounded.hpp"
#include "harness/worker/memory.hpp"
#include "harness/worker/process.hpp"
#include "harness/worker/protocol.hpp"

namespace assay {

struct WorkerOptions {
  std::vector<std::string> command;  // empty: assay-worker from the directory of this program
  std::string plugin;                // path of the plug-in
  std::string options;               // the text after the colon of backend=NAME:OPTIONS
  std::string witness;               // library that watches the process (assay_witness.h); empty: none
  std::string keeper;  // path of assay-worker; empty: command[0] if it is one, or as for `command`
  std::optional<Sandbox> sandbox;                  // what cannot be had is refused, never left out
  std::chrono::milliseconds open_timeout{60'000};  // as RunRequest::timeout
  int stop_descriptor = -1;                        // when it becomes readable, any call throws Stopped
  std::size_t line_bytes = kLineBytes;             // of one reply
  // Inputs may be written in the worker's mapping; changes are found by comparison.
  bool writable_inputs = false;
};

// Thrown out of open(), declare() and run() when the stop descriptor is readable; the worker is ended then.
// No std::exception: nothing that handles failures of a case may swallow it.
struct Stopped {};

struct WorkerCall {
  std::string op;
  std::string variant;
  TextPairs attributes;
  std::vector<BufferPlane> inputs;
  std::vector<BufferPlane> outputs;
};

struct RunRequest {
  WorkerCall call;
  // Of each single run in the worker: of processor time in its busiest thread, and kWallPerProcessor times as
  // much by the clock.
  std::chrono::milliseconds timeout{10'000};
  // What the backend needs of each plane's first element, beyond its natural alignment.
  std::size_t alignment = 1;
  // Two runs: NaN poison and right placement, then finite poison and left placement. One run finds neither
  // leaks nor underruns that stay inside the slot's slack unwritten to.
  bool second_run = true;
  bool vary_placement = true;  // false: right in both runs
  bool deterministic = true;   // false: outputs of the two runs may differ (the backend's promise says so)
  bool isolate = false;        // each run but the first in a new process: finds kernels that remember
  int repeats = 0;             // more runs under the first run's conditions; all must give the same bits
};

using Outputs = std::vector<std::vector<std::byte>>;  // dense, one per output plane

enum class RunStatus : std::uint8_t {
  done,
  unsupported,       // the backend says why
  failed,            // the backend says why, or threw, or the worker cannot be started
  crash,             // a signal, an exit, or a broken protocol in the middle of a call
  hang,              // the time limit passed; the worker was killed
  overrun,           // wrote outside its elements
  unwritten,         // left output units as they were
  leak,              // read outside its elements: a guard was hit, or the outputs change with the poison
  nondeterministic,  // the same bytes in, different bits out
  input_changed,     // wrote to an input
  too_big,           // this machine cannot hold or map the tensors: nothing was asked of the backend
};
std::string_view to_string(RunStatus status);

struct RunResult {
  RunStatus status = RunStatus::failed;
  std::string reason;         // one line: what was found, in which plane, where
  std::string plane;          // overrun, unwritten, leak, nondeterministic, input_changed: which one
  std::int64_t offset = 0;    // overrun, guard hits: bytes from the first element (negative: in front of it);
                              // leak, nondeterministic, input_changed: first dense byte that differs
  std::int64_t unit = -1;     // unwritten, leak, nondeterministic: first unit concerned
  std::int64_t count = 0;     // and how many
  int signal = 0;             // crash, guard hits
  std::uint64_t address = 0;  // of the faulting access, 0 when unknown
  bool depends_on_address = false;    // nondeterministic: the bits change with the buffers' placement only
  Trace trace;                        // of the first run
  std::vector<std::int64_t> wall_ns;  // of every run
  // Of the first run, dense, by output; also when a check failed.
  std::vector<std::vector<std::byte>> outputs;
  Outputs second;           // of the second run, when it differs: empty otherwise
  std::string output_tail;  // the end of what the worker printed
};

struct DeclareResult {
  RunStatus status = RunStatus::failed;  // done, unsupported, failed, crash, hang
  std::string reason;
  reply::Declared declaration;
  std::string output_tail;  // the end of what the worker printed
};

struct PlaneSet;

class Worker {
 public:
  explicit Worker(WorkerOptions options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // What the backend is, or the reason why it is not here. Starts the worker; cheap when it is running.
  std::variant<reply::Opened, reply::Refused> open();
  // Asks the backend by what arithmetic and path it would run the call. The planes of the call need no data.
  DeclareResult declare(const WorkerCall& call,
                        std::chrono::milliseconds timeout = std::chrono::milliseconds(10'000));
  // The same of many calls, whose requests are sent one behind the other: a tenth of the time. Each limit is
  // that of 64 of them together. Whose a stray line was is not found out: it ends the process, and the calls
  // that follow get a new one.
  std::vector<DeclareResult> declare(std::span<const WorkerCall> calls,
                                     std::chrono::milliseconds timeout = std::chrono::milliseconds(10'000));
  // Throws std::invalid_argument for planes that no memory can hold (see geometry()).
  RunResult run(const RunRequest& request);
  // Ends the process; the next call starts a new one, with new memory.
  void restart();
  // Processes started so far: 1 + replacements after crashes, hangs, restarts, and for larger memory.
  int starts() const { return starts_; }

 private:
  struct Exchange;

  std::optional<reply::Refused> start();  // hello and open; the reason when the backend cannot be opened
  reply::Refused refuse(reply::Refused refused, bool timed_out);
  void make_room(std::size_t bytes);  // throws std::system_error
  bool undisturbed();
  void discard();
  std::int64_t next_id();
  Exchange ask(const Request& request, std::chrono::milliseconds timeout, bool ping_along);
  static DeclareResult declared(const Exchange& answer);
  Exchange settle(std::chrono::milliseconds timeout, bool send);
  Exchange await(std::int64_t id);
  void break_off(Exchange& exchange, std::string what);
  struct Odd;
  RunResult attempt(const RunRequest& request, const PlaneSet& planes, Poison poison, Placement placement,
                    const Outputs* known, const Odd* odd = nullptr);
  std::string leaks_from(const RunRequest& request, const PlaneSet& planes, const Outputs& first);
  void compare_runs(const RunRequest& request, const PlaneSet& planes, RunResult& first);

  WorkerOptions options_;
  std::unique_ptr<Arena> arena_;  // of the process
  std::size_t memory_bytes_;      // of the next arena
  std::unique_ptr<WorkerProcess> process_;
  // What the last run left in the memory: somebody who changes it later is not to disturb the next case.
  std::vector<ByteRange> left_pages_;
  std::optional<std::uint64_t> left_digest_;
  std::uint64_t ids_;  // drawn so that none can be guessed by what a former case left running
  std::int64_t asked_id_ = 0, ping_id_ = 0;
  int open_timeouts_ = 0;
  std::optional<reply::Opened> opened_;
  std::optional<reply::Refused>
      refusal_;  // of a backend that never opened: asked once, after a time-out twice
  bool opened_before_ = false;
  bool guards_ = false;
  int starts_ = 0;
};

}  // namespace assay
