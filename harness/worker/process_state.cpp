#include "harness/worker/process_state.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

extern char** environ;

namespace assay {
namespace {

bool same(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags;
}

// How often a text stands in a file of /proc; 0 where the kernel has no such file.
std::size_t count_in(const std::string& file, std::string_view text) {
  const int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return 0;
  std::string all;
  char chunk[4096];
  for (ssize_t n = 0; (n = read(opened, chunk, sizeof chunk)) > 0;)
    all.append(chunk, static_cast<std::size_t>(n));
  close(opened);
  std::size_t count = 0;
  for (std::size_t at = 0; (at = all.find(text, at)) != std::string::npos; at += text.size()) ++count;
  return count;
}
std::size_t posix_timers() { return count_in("/proc/self/timers", "ID: "); }
// Of all threads: a number and a blank for each.
std::size_t children() {
  std::size_t count = 0;
  DIR* threads = opendir("/proc/self/task");
  if (threads == nullptr) return 0;
  while (const dirent* thread = readdir(threads))
    if (thread->d_name[0] != '.')
      count += count_in(std::string("/proc/self/task/") + thread->d_name + "/children", " ");
  closedir(threads);
  return count;
}

}  // namespace

ProcessState::ProcessState(bool of_run)
    : of_run_(of_run),
      folder_(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)),
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
  if (of_run_) posix_timers_ = posix_timers(), children_ = children();
}

ProcessState::~ProcessState() {
  if (!restored_) restore();
  if (folder_ >= 0) close(folder_);
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
  if (locale_ != setlocale(LC_ALL, nullptr)) setlocale(LC_ALL, locale_.c_str());
  if (std::get_new_handler() != new_handler_) std::set_new_handler(new_handler_);
  if (environ == nullptr) environ = environment_;
  if (!of_run_) return left;
  if (posix_timers() > posix_timers_) left = "a timer";
  if (children() > children_) left = "a child process";
  return left;
}

}  // namespace assay
