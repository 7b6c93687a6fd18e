#include "harness/worker/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/worker/close_range.hpp"
#include "harness/worker/plain_name.hpp"
#include "harness/worker/process_tree.hpp"
#include "harness/worker/sandbox.hpp"

extern char** environ;

namespace assay {
namespace {

constexpr int kExitUsage = 2;
constexpr int kSweepPauseMs = 5;

void report(const std::string& packet) {
  const ssize_t sent = send(kLifelineDescriptor, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  static_cast<void>(sent);  // nobody is left to tell
}

class Keeper {
 public:
  explicit Keeper(pid_t worker) : worker_(worker) {}

  void watch() {
    sigset_t child_signals;
    sigemptyset(&child_signals);
    sigaddset(&child_signals, SIGCHLD);  // blocked, and so pending if one came before this line
    signals_ = signalfd(-1, &child_signals, SFD_CLOEXEC | SFD_NONBLOCK);
    while (worker_ > 0) {
      pollfd watched[] = {{kLifelineDescriptor, POLLIN, 0}, {signals_, POLLIN, 0}};
      if (poll(watched, 2, -1) < 0) continue;
      reap();
      if (watched[0].revents != 0) break;
    }
    char order
        [16];  // an order left unread would tell the other end of a broken connection, not of the last report
    while (recv(kLifelineDescriptor, order, sizeof order, MSG_DONTWAIT) > 0) {
    }
    while (!sweep()) wait_for_a_child();
  }

 private:
  // False when no child is left to wait for.
  bool reap() {
    signalfd_siginfo ignored;
    while (read(signals_, &ignored, sizeof ignored) > 0) {
    }
    for (;;) {
      siginfo_t info{};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
      if (info.si_pid == 0) return true;
      // Not reaped yet, so that the group's number is still the worker's.
      if (info.si_pid == worker_) kill(-worker_, SIGKILL);
      int status = 0;
      waitpid(info.si_pid, &status, 0);
      if (info.si_pid != worker_) continue;
      worker_ = -1;
      report("X " + std::to_string(status));
    }
  }

  // True when nothing is left. The group first: no process of it can start another one once it was signalled.
  bool sweep() {
    if (worker_ > 0) kill(-worker_, SIGKILL);
    if (getpid() == 1) {
      kill(-1, SIGKILL);  // in a PID namespace of its own, all others in it are descendants
    } else {
      for (const pid_t process : descendants(getpid())) kill(process, SIGKILL);
    }
    return !reap();
  }

  void wait_for_a_child() const {
    pollfd watched{signals_, POLLIN, 0};
    poll(&watched, 1, kSweepPauseMs);
  }

  pid_t worker_;
  int signals_ = -1;
};

bool is_this_program(char** command) {
  struct stat named{}, own{};
  return command[1] == nullptr && std::strchr(command[0], '/') != nullptr && stat(command[0], &named) == 0 &&
         stat("/proc/self/exe", &own) == 0 && named.st_dev == own.st_dev && named.st_ino == own.st_ino;
}

// The worker is to find the signals as the assay program left them.
int start(char** command, int (*work)(), const sigset_t& signals, pid_t& worker) {
  if (is_this_program(command)) {
    worker = fork();
    if (worker < 0) return errno;
    if (worker > 0) {
      setpgid(worker, worker);  // here too: the group must be there before it is signalled
      return 0;
    }
    setpgid(0, 0);
    close(kLifelineDescriptor);
    prctl(PR_SET_DUMPABLE, 1);  // a worker may be looked at, as one that was loaded anew
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    _exit(work());
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &signals);
  const int error = posix_spawnp(&worker, command[0], nullptr, &attributes, command, environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

int keep(char** arguments, int (*work)()) {
  sigset_t all, inherited;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all,
              &inherited);   // an interrupt of the terminal is the assay program's to handle
  signal(SIGCHLD, SIG_DFL);  // ignored, children would vanish without a status
  Sandbox sandbox;
  bool in_sandbox = false;
  if (*arguments != nullptr && std::strcmp(*arguments, kSandboxOption) == 0 && arguments[1] != nullptr &&
      arguments[2] != nullptr) {
    in_sandbox = true;
    sandbox = {arguments[1], std::atoll(arguments[2])};
    arguments += 3;
  }
  if (*arguments == nullptr || std::strcmp(*arguments, "--") != 0 || arguments[1] == nullptr ||
      fcntl(kLifelineDescriptor, F_SETFD, FD_CLOEXEC) != 0) {
    std::fputs("assay-worker --keep is started by the assay program: see keeper.hpp\n", stderr);
    return kExitUsage;
  }
  const rlimit no_core{0, 0};  // crashes are expected here, and reported
  setrlimit(RLIMIT_CORE, &no_core);
  if (in_sandbox) {
    if (const auto reason = enter_sandbox(sandbox)) {
      report("R " + *reason);
      return 1;
    }
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_DUMPABLE,
        0);  // the worker is the same user: it must not trace this process or write its memory
  pid_t worker = -1;
  if (const int error = start(arguments + 1, work, inherited, worker); error != 0) {
    report("E " + std::to_string(error));
    return 1;
  }
  // The worker's channel must end with the worker, and nothing else that was inherited may be held open here.
  close_descriptors(0, kLifelineDescriptor - 1);
  close_descriptors(kLifelineDescriptor + 1, ~0U);
  forget_own_variables();
  Keeper(worker).watch();
  return 0;
}

}  // namespace assay
