#include "harness/worker/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "harness/worker/channel.hpp"
#include "harness/worker/protocol.hpp"

extern char** environ;

namespace assay {
namespace {

constexpr std::size_t kTailBytes = 4096;

std::system_error failure(const std::string& what, int error = errno) {
  return std::system_error(error, std::generic_category(), what);
}

int poll_milliseconds(WorkerProcess::Clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - WorkerProcess::Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

// The files that the child starts with. Sources are moved above the targets first, so that no dup2 overwrites one
// that is still needed; everything else is close-on-exec, so that workers started by other threads inherit nothing.
class SpawnFiles {
 public:
  SpawnFiles() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // A process group of its own: what the child starts (a compiler, a helper) is killed with it.
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  ~SpawnFiles() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnFiles(const SpawnFiles&) = delete;
  SpawnFiles& operator=(const SpawnFiles&) = delete;
  void null_input() { posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0); }
  void add(int source, int target) { posix_spawn_file_actions_adddup2(&actions_, source, target); }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

int above_targets(int descriptor) {
  const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
  if (moved < 0) throw failure("cannot duplicate a descriptor");
  return moved;
}

}  // namespace

void Descriptor::reset(int value) {
  if (value_ >= 0) close(value_);
  value_ = value;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

std::string describe(const ExitStatus& status) {
  return status.by_signal ? "killed by " + signal_name(status.number)
                          : "exited with status " + std::to_string(status.number);
}

WorkerProcess::WorkerProcess(const std::vector<std::string>& command, int memory,
                             const std::vector<std::string>& environment) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) throw failure("socketpair");
  control_.reset(sockets[0]);
  const Descriptor far_end(sockets[1]);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw failure("pipe");
  output_end_.reset(pipe_ends[0]);
  const Descriptor write_end(pipe_ends[1]);
  if (fcntl(output_end_.get(), F_SETFL, O_NONBLOCK) != 0) throw failure("fcntl");

  const Descriptor control_source(above_targets(far_end.get()));
  const Descriptor memory_source(above_targets(memory));
  const Descriptor output_source(above_targets(write_end.get()));
  SpawnFiles files;
  files.null_input();
  files.add(output_source.get(), STDOUT_FILENO);
  files.add(output_source.get(), STDERR_FILENO);
  files.add(control_source.get(), kControlDescriptor);
  files.add(memory_source.get(), kMemoryDescriptor);

  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;  // the first of two values of a name counts
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  for (char** inherited = environ; *inherited != nullptr; ++inherited) variables.push_back(*inherited);
  variables.push_back(nullptr);
  const int error = posix_spawnp(&child_, arguments[0], files.actions(), files.attributes(), arguments.data(),
                                 variables.data());
  if (error != 0) {
    child_ = -1;
    throw failure("cannot start the worker " + command[0], error);
  }
  exit_watch_.reset(static_cast<int>(syscall(SYS_pidfd_open, child_, 0)));
}

WorkerProcess::~WorkerProcess() { finish(std::chrono::milliseconds(0)); }

bool WorkerProcess::send(std::string_view line) { return send_all(control_.get(), line); }

void WorkerProcess::drain_output() {
  char chunk[16384];
  for (int reads = 0; reads < 64;
       ++reads) {  // bounded: a child that prints without end must not hold us here
    const ssize_t count = read(output_end_.get(), chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // nothing more for now
    if (count == 0) {
      output_end_.reset();
      return;
    }
    output_.append(chunk, static_cast<std::size_t>(count));
    if (output_.size() > 2 * kTailBytes) output_.erase(0, output_.size() - kTailBytes);
  }
}

WorkerProcess::Wait WorkerProcess::receive(std::string& line, Clock::time_point deadline) {
  for (;;) {
    if (auto next = take_line(received_)) {
      line = std::move(*next);
      drain_output();
      return Wait::line;
    }
    pollfd watched[] = {
        {control_.get(), POLLIN, 0}, {output_end_.get(), POLLIN, 0}, {exit_watch_.get(), POLLIN, 0}};
    const int ready = poll(watched, 3, poll_milliseconds(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      drain_output();
      return Wait::timed_out;
    }
    if (watched[1].revents != 0) drain_output();
    if (watched[0].revents != 0) {
      if (receive_some(control_.get(), received_, MSG_DONTWAIT) != Received::end) continue;
      drain_output();
      return Wait::ended;
    }
    if (watched[2].revents != 0) {  // dead, and nothing more to read
      drain_output();
      return Wait::ended;
    }
    // A child that prints without pause must not outrun its deadline.
    if (Clock::now() >= deadline) return Wait::timed_out;
  }
}

bool WorkerProcess::wait_for_exit(Clock::time_point deadline) {
  for (;;) {
    drain_output();  // a child that blocks on a full pipe could not end
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0)
      return true;
    if (Clock::now() >= deadline) return false;
    pollfd watched[] = {{exit_watch_.get(), POLLIN, 0}, {output_end_.get(), POLLIN, 0}};
    poll(watched, 2, std::min(poll_milliseconds(deadline), 20));
  }
}

ExitStatus WorkerProcess::finish(std::chrono::milliseconds grace) {
  ExitStatus status;
  if (child_ < 0) return status;
  wait_for_exit(Clock::now() + grace);
  kill(-child_, SIGKILL);  // not reaped yet, so the group is still this child's
  int code = 0;
  while (waitpid(child_, &code, 0) < 0 && errno == EINTR) {
  }
  drain_output();
  child_ = -1;
  control_.reset();
  exit_watch_.reset();
  status.by_signal = WIFSIGNALED(code);
  status.number = status.by_signal ? WTERMSIG(code) : WEXITSTATUS(code);
  return status;
}

}  // namespace assay
