// What a kernel uses up, and what it leaves changed in its process for the calls behind it.
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "harness/worker/hostile/plugin.hpp"

extern char** environ;

namespace hostile {
namespace {

// What an innocent kernel may rely on.
struct Process {
  char folder[4096] = "";
  mode_t mask = 0;
  rlim_t files = 0;
  unsigned control = 0;
};
Process g_first;

unsigned control_word() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~0x3FU;  // less the flags, which arithmetic sets
#else
  return 0;
#endif
}

Process process_now() {
  Process p;
  if (getcwd(p.folder, sizeof p.folder) == nullptr) std::strcpy(p.folder, "gone");
  p.mask = umask(0);
  umask(p.mask);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  p.files = files.rlim_cur;
  p.control = control_word();
  return p;
}

void nothing(int) {}

void limit(Call& c, int resource, rlim_t value) {
  c.twice();
  const rlimit wanted{value, value};
  if (setrlimit(static_cast<__rlimit_resource_t>(resource), &wanted) != 0) c.refused("setrlimit");
}

void fire_later(Call& c) {
  c.twice();
  signal(SIGALRM, SIG_DFL);
  const itimerval soon{{0, 0}, {0, 30'000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
}

template <int kSignal>
void signal_later_by_a_posix_timer(Call& c) {
  c.twice();
  timer_t timer{};
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = kSignal;
  const itimerspec soon{{0, 0}, {0, 300'000'000}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &soon, nullptr) != 0)
    c.refused("timer_create");
}

constexpr Variant kVariants[] = {
    {"allocate_without_end",
     [](Call&) {
       const rlimit half{std::size_t{768} << 20, std::size_t{768} << 20};
       setrlimit(RLIMIT_AS, &half);
       std::vector<void*> kept;
       for (;;) kept.push_back(::operator new(std::size_t{16} << 20));
     }},
    {"allocate_until_the_sandbox_says_no",
     [](Call& c) {
       std::size_t megabytes = 0;
       while (megabytes < 4096 && std::malloc(std::size_t{16} << 20) != nullptr) megabytes += 16;
       c.twice();
       if (megabytes < 4096) c.refused("memory");
     }},
    {"use_up_the_descriptors",
     [](Call& c) {
       const rlimit few{256, 256};
       setrlimit(RLIMIT_NOFILE, &few);
       while (open("/dev/null", O_RDONLY) >= 0) {
       }
       c.twice();
     }},
    {"start_two_hundred_threads",
     [](Call& c) {
       for (int i = 0; i < 200; ++i)
         std::thread([] {
           for (;;) pause();
         }).detach();
       c.twice();
     }},
    {"spin_on_in_a_thread",
     [](Call& c) {
       std::thread(spin).detach();
       c.twice();
     }},
    {"crash_later",
     [](Call& c) {
       c.twice();
       std::thread([] {
         usleep(30'000);
         std::abort();
       }).detach();
     }},
    {"a_timer_that_kills_later", fire_later},
    {"a_posix_timer_that_kills_later", signal_later_by_a_posix_timer<SIGKILL>},
    {"a_posix_timer_that_stops_later", signal_later_by_a_posix_timer<SIGSTOP>},
    {"another_folder", [](Call& c) { c.twice(), static_cast<void>(!chdir("/proc")); }},
    {"a_mask_of_rights", [](Call& c) { c.twice(), umask(0777); }},
    {"another_locale", [](Call& c) { c.twice(), setlocale(LC_ALL, "C.UTF-8"); }},
    {"another_rounding", [](Call& c) { c.twice(), std::fesetround(FE_UPWARD); }},
    {"subnormals_flushed",
     [](Call& c) {
       c.twice();
#if defined(__x86_64__)
       __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040U);
#endif
     }},
    {"traps_on",
     [](Call& c) {
       c.twice();
       feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_INEXACT);
     }},
    {"signals_blocked",
     [](Call& c) {
       sigset_t all;
       sigfillset(&all);
       pthread_sigmask(SIG_BLOCK, &all, nullptr);
       c.twice();
     }},
    {"a_handler_that_swallows_faults", [](Call& c) { c.twice(), signal(SIGSEGV, nothing); }},
    {"faults_ignored", [](Call& c) { c.twice(), signal(SIGABRT, SIG_IGN); }},
    {"an_environment_variable", [](Call& c) { c.twice(), setenv("LD_PRELOAD", "/no/such/library.so", 1); }},
    {"no_environment", [](Call& c) { c.twice(), environ = nullptr; }},
    {"a_lower_priority",
     [](Call& c) {
       c.twice();
       errno = 0;
       if (nice(19) == -1 && errno != 0) c.refused("nice");
     }},
    {"one_processor",
     [](Call& c) {
       c.twice();
       cpu_set_t one;
       CPU_ZERO(&one);
       CPU_SET(0, &one);
       sched_setaffinity(0, sizeof one, &one);
     }},
    {"few_descriptors", [](Call& c) { limit(c, RLIMIT_NOFILE, 8); }},
    {"no_more_memory", [](Call& c) { limit(c, RLIMIT_AS, 1 << 20); }},
    {"no_more_processor_time", [](Call& c) { limit(c, RLIMIT_CPU, 1); }},
    {"no_new_handler",
     [](Call& c) {
       c.twice();
       std::set_new_handler([] { _exit(9); });
     }},
    {"no_memory_wiped_by_children", [](Call& c) { c.twice(), prctl(PR_SET_DUMPABLE, 0); }},
    {"a_bad_exit_handler", [](Call& c) { c.twice(), std::atexit([] { std::abort(); }); }},
    {"locked_memory",
     [](Call& c) {
       c.twice();
       mlockall(MCL_CURRENT);
     }},
};

}  // namespace

void remember_process() { g_first = process_now(); }

const char* left_behind() {
  const Process now = process_now();
  if (std::strcmp(now.folder, g_first.folder) != 0) return "another folder";
  if (now.mask != g_first.mask) return "another mask of rights";
  if (now.files != g_first.files) return "another number of descriptors";
  if (now.control != g_first.control || std::fegetround() != FE_TONEAREST) return "other arithmetic";
  if (std::strcmp(setlocale(LC_ALL, nullptr), "C") != 0) return "another locale";
  if (environ == nullptr) return "no environment";
  if (std::get_new_handler() != nullptr) return "a handler of operator new";
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (int s = 1; s < 32; ++s)
    if (sigismember(&blocked, s) == 1) return "a blocked signal";
  for (const int s : {SIGSEGV, SIGABRT, SIGALRM}) {
    struct sigaction action{};
    sigaction(s, nullptr, &action);
    if (action.sa_handler == SIG_IGN || action.sa_handler == nothing) return "another handler";
  }
  return nullptr;
}

std::span<const Variant> resources() { return kVariants; }

}  // namespace hostile
