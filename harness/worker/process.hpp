// One child process that speaks in lines, behind a keeper (keeper.hpp): started, listened to under a time
// limit, and ended with everything that it started. No wait here outlasts its limit, whatever the child does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/worker/bounded.hpp"
#include "harness/worker/channel.hpp"
#include "harness/worker/sandbox.hpp"

namespace assay {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  void reset(int value = -1);

 private:
  int value_ = -1;
};

struct ExitStatus {
  bool by_signal = false;
  int number = 0;            // the signal, or the exit code
  bool keeper_lost = false;  // nobody knows how it ended: the keeper ended first
};
std::string describe(const ExitStatus& status);  // "killed by SIGSEGV", "exited with status 3"
std::string signal_name(int signal);             // "SIGSEGV", "signal 40"

// A limit of T: T of processor time in one thread of the child or of what it started, however many others
// there are: a kernel on 64 cores is no endless loop; or kWallPerProcessor times T by the clock, for what
// waits and computes nothing.
inline constexpr int kWallPerProcessor = 5;

struct ProcessOptions {
  std::vector<std::string> command;      // command[0] is looked up in PATH when it has no slash
  std::string keeper;                    // path of assay-worker
  int memory = -1;                       // what the child gets as descriptor 4
  std::vector<std::string> environment;  // "NAME=value", in addition to this process's
  std::optional<Sandbox> sandbox;
  int stop_descriptor = -1;  // when it becomes readable, all waits end; -1: none
  std::size_t line_bytes = kLineBytes;
};

class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Wait { line, ended, timed_out, too_long, stopped };

  // The child gets the control socket as descriptor 3, the memory as descriptor 4, an empty standard input,
  // and standard output and error that both end in output_tail(). Throws std::system_error when the keeper
  // cannot be started; that the child cannot be is told by start_failure(), once a wait has ended.
  explicit WorkerProcess(const ProcessOptions& options);
  ~WorkerProcess();  // kills
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends the lines, as far as the child takes them without a wait; receive() sends the rest. The limit of
  // the receive() calls that follow begins now.
  void send(std::string_view lines, std::chrono::milliseconds limit);
  // The next line that the child sends. `ended`: it closed its control channel or died.
  Wait receive(std::string& line);
  // Alive, and nothing that it sent is unread.
  bool quiet();
  // Gives the child `grace` to end by itself, then has it killed with all that it started.
  ExitStatus finish(std::chrono::milliseconds grace);
  // Why the command could not be started; "" when it was.
  const std::string& start_failure() const { return start_failure_; }
  // Of the limit that began last: "10.0 s of processor time in 10.3 s".
  std::string spent() const;
  // The last few KiB of output since the last clear_output().
  const std::string& output_tail() const { return output_; }
  void clear_output() { output_.clear(); }

 private:
  bool over_limit();
  void flush();
  void drain_output();
  void read_reports();
  void wait_for_end(Clock::time_point deadline, bool of_keeper);
  void sweep_without_keeper();
  void end_tracer() const;
  void reap_keeper() const;

  pid_t keeper_ = -1;
  std::string mark_;  // in the environment of everything that the child starts
  Descriptor control_;
  Descriptor lifeline_;
  Descriptor output_end_;
  Descriptor keeper_watch_;  // readable once the keeper has ended
  int stop_descriptor_ = -1;
  std::size_t line_bytes_ = 0;
  std::string command_;
  std::string start_failure_;
  std::optional<int> ended_;  // the child's status of waitpid()
  bool keeper_gone_ = false;
  std::string unsent_;
  LineBuffer received_;
  std::string output_;
  // The limit that began last. Processor time is counted from the first look on: shorter waits cost no look.
  Clock::time_point begin_, next_look_;
  std::chrono::milliseconds limit_{0};
  std::optional<std::map<pid_t, std::chrono::nanoseconds>>
      at_first_look_;  // the processor time of each thread
  std::chrono::nanoseconds processor_spent_{0};
};

}  // namespace assay
