#include "harness/worker/process_state.hpp"

#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

extern char** environ;

namespace assay {
namespace {

bool same(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags;
}

}  // namespace

ProcessState::ProcessState()
    : folder_(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)),
      mask_(umask(0)),
      locale_(setlocale(LC_ALL, nullptr)),
      new_handler_(std::get_new_handler()),
      environment_(environ) {
  umask(mask_);
  fegetenv(&arithmetic_);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked_);
  sigaltstack(nullptr, &handlers_stack_);
  for (int s = 1; s < kSignals; ++s) sigaction(s, nullptr, &handlers_[static_cast<std::size_t>(s)]);
  for (std::size_t i = 0; i < kTimers.size(); ++i) getitimer(kTimers[i], &timers_[i]);
  for (std::size_t i = 0; i < kLimits.size(); ++i) getrlimit(kLimits[i], &limits_[i]);
}

ProcessState::~ProcessState() {
  if (!restored_) restore();
}

std::string ProcessState::restore() {
  restored_ = true;
  std::string left;
  // Limits first: what follows needs a descriptor and memory.
  for (std::size_t i = 0; i < kLimits.size(); ++i) {
    rlimit now{};
    getrlimit(kLimits[i], &now);
    if (now.rlim_cur == limits_[i].rlim_cur && now.rlim_max == limits_[i].rlim_max) continue;
    if (setrlimit(kLimits[i], &limits_[i]) == 0) continue;
    if (now.rlim_cur != limits_[i].rlim_cur) left = "a lower resource limit";
  }
  for (std::size_t i = 0; i < kTimers.size(); ++i) {
    itimerval now{};
    getitimer(kTimers[i], &now);
    const bool was_off = timers_[i].it_value.tv_sec == 0 && timers_[i].it_value.tv_usec == 0;
    const bool is_on = now.it_value.tv_sec != 0 || now.it_value.tv_usec != 0;
    if (was_off && is_on) setitimer(kTimers[i], &timers_[i], nullptr);
  }
  fesetenv(&arithmetic_);
  for (int s = 1; s < kSignals; ++s) {
    const auto& handler = handlers_[static_cast<std::size_t>(s)];
    struct sigaction now{};
    if (sigaction(s, nullptr, &now) == 0 && !same(now, handler)) sigaction(s, &handler, nullptr);
  }
  sigaltstack(&handlers_stack_, nullptr);
  pthread_sigmask(SIG_SETMASK, &blocked_, nullptr);
  umask(mask_);
  if (folder_ < 0 || fchdir(folder_) != 0) left = "another folder";
  if (folder_ >= 0) close(folder_);
  if (locale_ != setlocale(LC_ALL, nullptr)) setlocale(LC_ALL, locale_.c_str());
  if (std::get_new_handler() != new_handler_) std::set_new_handler(new_handler_);
  if (environ == nullptr) environ = environment_;
  return left;
}

}  // namespace assay
