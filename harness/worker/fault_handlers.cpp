// sigaction() and signal() as whatever the worker loads finds them: a library's handler of SIGSEGV or SIGBUS
// stands behind the worker's own. A fault in the tensors' memory, which nobody has any business with, reaches
// the worker first and cannot be swallowed; every other fault is the library's, which may have handlers for
// good reasons (a heap that grows on demand, a garbage collector, a null check). This program exports both
// names, so that they come before the C library's.
#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <mutex>

#include "harness/worker/crash_report.hpp"

namespace {

using Action = struct sigaction;
using Sigaction = int (*)(int, const Action*, Action*);

Sigaction real() {
  static const auto found = reinterpret_cast<Sigaction>(dlsym(RTLD_NEXT, "sigaction"));
  return found;
}

// What a library asked for, by signal; SIG_DFL: nothing.
struct Asked {
  std::array<Action, 2> action{};
  std::mutex mutex;
  Action& of(int signal) { return action[signal == SIGSEGV ? 0 : 1]; }
};
Asked g_asked;

bool is_set(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL;
}
bool is_own(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == assay::crash_detail::handle;
}

// Whether a library's handler took the fault.
bool taken(int signal, siginfo_t* info, void* context) {
  const Action action = g_asked.of(signal);
  if (!is_set(action)) return false;
  if ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN) return false;
  if ((action.sa_flags & SA_RESETHAND) != 0) g_asked.of(signal) = {};
  if ((action.sa_flags & SA_SIGINFO) != 0)
    action.sa_sigaction(signal, info, context);
  else
    action.sa_handler(signal);
  return true;
}

// The worker's handler, under the flags and the mask that the library counts on.
Action before(const Action& action) {
  Action own = action;
  own.sa_flags = (action.sa_flags & ~SA_RESETHAND) | SA_SIGINFO;
  own.sa_sigaction = assay::crash_detail::handle;
  return own;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int sigaction(int signal, const Action* action,
                                                                Action* old) noexcept {
  if ((signal != SIGSEGV && signal != SIGBUS) || assay::g_crash_context.ending)
    return real()(signal, action, old);
  const std::lock_guard lock(g_asked.mutex);
  const Action asked =
      g_asked.of(signal);  // of the worker's own handler nobody is told: it is nobody's to call
  Action installed{};
  if (const int error = real()(signal, nullptr, &installed); error != 0) return error;
  if (action != nullptr) {
    const bool theirs = is_set(*action) && !is_own(*action);
    const bool ours = is_own(installed) || is_own(*action);
    const Action wanted = theirs && ours ? before(*action) : *action;
    const bool restores = !is_set(*action) && ours;  // the default: the worker's report, and then the end
    if (!restores)
      if (const int error = real()(signal, &wanted, nullptr); error != 0) return error;
    g_asked.of(signal) = theirs && ours ? *action : Action{};
    assay::g_crash_context.taken = taken;
  }
  if (old != nullptr) *old = is_set(asked) || is_own(installed) ? asked : installed;
  return 0;
}

extern "C" __attribute__((visibility("default"))) sighandler_t signal(int number,
                                                                      sighandler_t handler) noexcept {
  Action action{}, old{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}
