// The assay program's view of one backend: a worker process that is started when it is needed, listened to
// under a time limit, and replaced after a crash or a hang. One Worker belongs to one thread at a time;
// workers share nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/worker/memory.hpp"
#include "harness/worker/process.hpp"
#include "harness/worker/protocol.hpp"

namespace assay {

struct WorkerOptions {
  std::vector<std::string> command;  // empty: assay-worker from the directory of this program
  std::string plugin;                // path of the plug-in
  std::string options;               // the text after the colon of backend=NAME:OPTIONS
  std::string witness;               // library that watches the process (assay_witness.h); empty: none
  std::chrono::milliseconds open_timeout{60'000};
  // Inputs may be written in the worker's mapping; changes are found by comparison.
  bool writable_inputs = false;
  int stop_descriptor = -1;  // readable: whoever waits for the worker kills it and throws Stopped
};

// The run is to end. No std::exception, so that nobody takes it for a finding.
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
  std::chrono::milliseconds timeout{10'000};  // of each single run in the worker
  // What the backend needs of each plane's first element, beyond its natural alignment.
  std::size_t alignment = 1;
  // Two runs: NaN poison and right placement, then finite poison and left placement. One run finds neither
  // leaks nor underruns that stay inside the slot's slack unwritten to.
  bool second_run = true;
  bool vary_placement = true;  // false: right in both runs
  bool deterministic = true;   // false: outputs of the two runs may differ (the backend's promise says so)
  bool isolate = false;        // each run but the first is made in a new process: finds kernels that remember
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
  // Throws std::invalid_argument for planes that no memory can hold (see geometry()).
  RunResult run(const RunRequest& request);
  // Ends the process; the next call starts a new one.
  void restart();
  // Processes started so far: 1 + replacements after crashes and hangs.
  int starts() const { return starts_; }

 private:
  struct Exchange;

  std::optional<std::string> start();  // hello and open; the reason when the backend cannot be opened
  Exchange exchange(const Request& request, std::chrono::milliseconds timeout);
  RunResult attempt(const RunRequest& request, const PlaneSet& planes, Poison poison, Placement placement,
                    const Outputs* known);
  void compare_runs(const RunRequest& request, const PlaneSet& planes, RunResult& first);

  WorkerOptions options_;
  Arena arena_;
  std::unique_ptr<WorkerProcess> process_;
  std::optional<reply::Opened> opened_;
  std::optional<std::string> refusal_;  // of a backend that never opened: asked once
  bool opened_before_ = false;
  bool guards_ = false;
  int starts_ = 0;
};

}  // namespace assay
