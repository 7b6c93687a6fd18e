#include "harness/worker/process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "harness/worker/process_tree.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kTailBytes = 4096;
constexpr milliseconds kFirstLook{10};  // at the processor time; a wait of less costs no look
constexpr int kLooksPerLimit = 20;      // so the limit is kept within a twentieth
constexpr milliseconds kSweepLimit{
    10'000};  // for a keeper to end all; a process may hang in the operating system
constexpr int kSweepRounds = 20;

int poll_milliseconds(WorkerProcess::Clock::time_point until) {
  const auto left = std::chrono::ceil<milliseconds>(until - WorkerProcess::Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void Descriptor::reset(int value) {
  if (value_ >= 0) close(value_);
  value_ = value;
}

std::string signal_name(int signal) {
  // Of our own: glibc's sigabbrev_np() came with 2.32.
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
      {SIGABRT, "ABRT"},     {SIGBUS, "BUS"},   {SIGFPE, "FPE"},     {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
      {SIGSEGV, "SEGV"},     {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"},   {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
      {SIGSTKFLT, "STKFLT"}, {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},
      {SIGTTIN, "TTIN"},     {SIGTTOU, "TTOU"}, {SIGURG, "URG"},     {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
      {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGIO, "POLL"},   {SIGPWR, "PWR"},
      {SIGSYS, "SYS"}};
  for (const auto& [number, name] : kNames)
    if (number == signal) return "SIG" + std::string(name);
  return "signal " + std::to_string(signal);
}

std::string describe(const ExitStatus& status) {
  if (status.keeper_lost) return "its keeper was killed";
  return status.by_signal ? "killed by " + signal_name(status.number)
                          : "exited with status " + std::to_string(status.number);
}

WorkerProcess::~WorkerProcess() { finish(milliseconds(0)); }

void WorkerProcess::send(std::string_view lines, milliseconds limit) {
  begin_ = Clock::now();
  next_look_ = begin_ + kFirstLook;
  limit_ = limit;
  at_first_look_.reset();
  processor_spent_ = {};
  unsent_.append(lines);
  flush();
}

void WorkerProcess::flush() {
  std::size_t done = 0;
  while (done < unsent_.size()) {
    const ssize_t sent =
        ::send(control_.get(), unsent_.data() + done, unsent_.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
      done = unsent_.size();  // it ended: receive() sees it
    if (sent <= 0) break;
    done += static_cast<std::size_t>(sent);
  }
  unsent_.erase(0, done);
}

bool WorkerProcess::over_limit() {
  const auto now = Clock::now();
  if (now < next_look_) return false;
  begin_ +=
      now -
      next_look_;  // so late is who did not run itself (SIGSTOP, a debugger): the child is not charged for it
  auto times = processor_times(keeper_);
  if (at_first_look_)
    processor_spent_ = std::max(processor_spent_, busiest_since(*at_first_look_, times));
  else
    at_first_look_ = std::move(times);
  next_look_ = now + std::max(kFirstLook, limit_ / kLooksPerLimit);
  return processor_spent_ >= limit_ || now - begin_ >= kWallPerProcessor * limit_;
}

std::string WorkerProcess::spent() const {
  const bool by_wall = processor_spent_ < limit_;
  return fmt::format("{:.1f} s of processor time in {:.1f} s{}", seconds(processor_spent_),
                     seconds(Clock::now() - begin_), by_wall ? " wall" : "");
}

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

void WorkerProcess::read_reports() {
  char packet[4096];
  while (!keeper_gone_) {
    const ssize_t count = recv(lifeline_.get(), packet, sizeof packet, MSG_DONTWAIT);
    // ECONNRESET comes once, in front of the last reports of a keeper that ended without reading an order.
    if (count < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 2) {
      keeper_gone_ = true;
      return;
    }
    const std::string text(packet + 2, static_cast<std::size_t>(count) - 2);
    if (packet[0] == 'X') ended_ = std::atoi(text.c_str());
    if (packet[0] == 'E') {
      start_failure_ =
          fmt::format("cannot start the worker {}: {}", command_, std::strerror(std::atoi(text.c_str())));
    }
    if (packet[0] == 'R') start_failure_ = text;
  }
}

WorkerProcess::Wait WorkerProcess::receive(std::string& line) {
  for (;;) {
    if (auto next = received_.take()) {
      line = std::move(*next);
      drain_output();
      return Wait::line;
    }
    if (received_.bytes() > line_bytes_) return Wait::too_long;
    if (over_limit()) {
      drain_output();
      return Wait::timed_out;
    }
    const short control_events = static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
    pollfd watched[] = {{control_.get(), control_events, 0},
                        {output_end_.get(), POLLIN, 0},
                        {keeper_gone_ || ended_ ? -1 : lifeline_.get(), POLLIN, 0},
                        {stop_descriptor_, POLLIN, 0}};
    if (poll(watched, 4, poll_milliseconds(next_look_)) < 0) continue;
    if (watched[3].revents != 0) return Wait::stopped;
    if (watched[1].revents != 0) drain_output();
    if (watched[2].revents != 0) read_reports();
    if ((watched[0].revents & POLLOUT) != 0) flush();
    if ((watched[0].revents & ~POLLOUT) != 0) {
      if (receive_some(control_.get(), received_, MSG_DONTWAIT) != Received::end) continue;
      drain_output();
      return Wait::ended;
    }
    if (ended_ || keeper_gone_) {  // dead, and nothing more to read
      drain_output();
      return Wait::ended;
    }
  }
}

bool WorkerProcess::quiet() {
  pollfd watched[] = {{control_.get(), POLLIN, 0}, {lifeline_.get(), POLLIN, 0}};
  return received_.bytes() == 0 && !ended_ && !keeper_gone_ && poll(watched, 2, 0) == 0;
}

void WorkerProcess::wait_for_end(Clock::time_point deadline, bool of_keeper) {
  for (;;) {
    drain_output();  // a child that blocks on a full pipe could not end
    read_reports();
    if (keeper_gone_ || (ended_ && !of_keeper)) return;
    if (Clock::now() >= deadline) return;
    if (of_keeper) end_tracer();
    pollfd watched[] = {{lifeline_.get(), POLLIN, 0},
                        {keeper_watch_.get(), POLLIN, 0},
                        {output_end_.get(), POLLIN, 0},
                        {of_keeper ? -1 : stop_descriptor_, POLLIN, 0}};
    poll(watched, 4, std::min(poll_milliseconds(deadline), 20));
    if (watched[3].revents != 0) return;
    if (watched[1].revents != 0 && watched[0].revents == 0) keeper_gone_ = true;
  }
}

// The keeper was killed, so that its orphans are no longer children of anybody who knows them. Their environment does.
void WorkerProcess::sweep_without_keeper() {
  for (int round = 0; round < kSweepRounds; ++round) {
    const std::vector<pid_t> left = started_with(mark_);
    if (left.empty()) return;
    for (const pid_t process : left) kill(process, SIGKILL);
    usleep(1000);
  }
}

// Of a process that is traced the tracer hears first: somebody of the worker's, who may never answer. One
// that traces this process too is the user's (strace -f).
void WorkerProcess::end_tracer() const {
  if (const pid_t tracer = tracer_of(keeper_); tracer > 0 && tracer != tracer_of(getpid()))
    kill(tracer, SIGKILL);
}

void WorkerProcess::reap_keeper() const {
  const Clock::time_point deadline = Clock::now() + kSweepLimit;
  while (waitpid(keeper_, nullptr, WNOHANG) == 0 && Clock::now() < deadline) {
    end_tracer();
    usleep(1000);
  }
}

ExitStatus WorkerProcess::finish(milliseconds grace) {
  ExitStatus status;
  if (keeper_ < 0) return status;
  wait_for_end(Clock::now() + grace, false);
  if (!keeper_gone_) {
    ::send(lifeline_.get(), "K", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    kill(keeper_, SIGCONT);  // a worker may have stopped it
    wait_for_end(Clock::now() + kSweepLimit, true);
  }
  kill(keeper_, SIGKILL);  // ended already, but for one that cannot end its worker
  reap_keeper();
  drain_output();
  keeper_ = -1;
  control_.reset();
  lifeline_.reset();
  keeper_watch_.reset();
  if (!ended_ && start_failure_.empty()) {
    status.keeper_lost = true;
    sweep_without_keeper();
    return status;
  }
  const int code = ended_.value_or(0);
  status.by_signal = WIFSIGNALED(code);
  status.number = status.by_signal ? WTERMSIG(code) : WEXITSTATUS(code);
  return status;
}

}  // namespace assay
