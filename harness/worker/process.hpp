// One child process that speaks in lines: started, listened to under a deadline, and always reaped.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

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
  void reset(int value = -1);

 private:
  int value_ = -1;
};

struct ExitStatus {
  bool by_signal = false;
  int number = 0;  // the signal, or the exit code
};
std::string describe(const ExitStatus& status);  // "killed by SIGSEGV", "exited with status 3"
std::string signal_name(int signal);             // "SIGSEGV", "signal 40"

class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Wait { line, ended, timed_out };

  // command[0] is looked up in PATH when it has no slash. The child gets the control socket as descriptor 3,
  // `memory` as descriptor 4, an empty standard input, and standard output and error that both end in
  // stderr_tail(), and this process's environment, with the "NAME=value" of `environment` in addition.
  // Throws std::system_error when it cannot be started.
  WorkerProcess(const std::vector<std::string>& command, int memory,
                const std::vector<std::string>& environment = {});
  ~WorkerProcess();  // kills
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool send(std::string_view line);
  // The next line that the child sends. `ended`: it closed its control channel or died.
  Wait receive(std::string& line, Clock::time_point deadline);
  // Gives the child `grace` to end by itself, then kills it; reaps it.
  ExitStatus finish(std::chrono::milliseconds grace);
  // The last few KiB of output since the last clear_output().
  const std::string& output_tail() const { return output_; }
  void clear_output() { output_.clear(); }

 private:
  void drain_output();
  bool wait_for_exit(Clock::time_point deadline);

  pid_t child_ = -1;
  Descriptor control_;
  Descriptor output_end_;
  Descriptor exit_watch_;  // readable once the child has ended, even if a grandchild keeps the sockets open
  std::string received_;
  std::string output_;
};

}  // namespace assay
