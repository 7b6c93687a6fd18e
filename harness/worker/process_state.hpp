// What one call changes in its process and the next would find: cases are judged each for itself, whatever
// came before.
#pragma once

#include <fenv.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <new>
#include <string>

namespace assay {

// Taken in front of a call, restored behind it: folder, mask of rights, locale, rounding, flushing and traps
// of the calling thread, its blocked signals, the handlers and their stack, timers, resource limits, the
// handler of operator new, and an environment that is gone. Not variables of the environment, priority and
// processors: libraries set them once and rely on them, and no verdict depends on them. What cannot be
// restored ends the process: a timer of timer_create() or a child that is left would strike in a later case,
// which is innocent of it.
class ProcessState {
 public:
  // With `of_run` timers and children that are left behind are found too, which costs reading a dozen files.
  explicit ProcessState(bool of_run = true);
  ~ProcessState();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;
  // What cannot be restored, "" when everything is. May be called again behind a further call.
  std::string restore();

 private:
  static constexpr std::array kLimits{RLIMIT_AS,    RLIMIT_CPU,     RLIMIT_DATA,  RLIMIT_FSIZE,
                                      RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_STACK, RLIMIT_NOFILE};
  static constexpr std::array kTimers{ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  static constexpr int kSignals = 32;

  bool restored_ = false, of_run_ = true;
  std::size_t posix_timers_ = 0, children_ = 0;
  int folder_ = -1;
  mode_t mask_ = 0;
  std::string locale_;
  fenv_t arithmetic_{};
  sigset_t blocked_{};
  stack_t handlers_stack_{};
  std::array<struct sigaction, kSignals> handlers_{};
  std::array<itimerval, kTimers.size()> timers_{};
  std::array<rlimit, kLimits.size()> limits_{};
  std::new_handler new_handler_ = nullptr;
  char** environment_ = nullptr;
};

}  // namespace assay
