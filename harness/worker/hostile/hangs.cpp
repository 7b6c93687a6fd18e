// The call does not end.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <thread>

#include "harness/worker/hostile/plugin.hpp"

namespace hostile {
namespace {

void sleep_for(long milliseconds) {
  timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
}
void sleep_for_ever() {
  for (;;) pause();
}
void ignored(int) {}

void burn(double milliseconds) {
  timespec time{};
  const auto now = [&] {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  for (const double end = now() + milliseconds; now() < end;) {
  }
}

constexpr Variant kVariants[] = {
    {"spin", [](Call&) { spin(); }},
    {"spin_in_four_threads",
     [](Call&) {
       for (int i = 0; i < 3; ++i) std::thread(spin).detach();
       spin();
     }},
    {"spin_after_a_right_answer",
     [](Call& c) {
       c.twice();
       spin();
     }},
    {"sleep", [](Call&) { sleep_for_ever(); }},
    {"sleep_in_pieces",
     [](Call&) {
       for (;;) sleep_for(1);
     }},
    {"wait_for_itself",
     [](Call&) {
       std::timed_mutex mutex;
       mutex.lock();
       for (;;) static_cast<void>(mutex.try_lock_for(std::chrono::hours(1)));
     }},
    {"two_threads_wait_for_each_other",
     [](Call&) {
       std::mutex a, b;
       a.lock();
       std::thread other([&] {
         b.lock();
         a.lock();
       });
       sleep_for(20);
       b.lock();
       other.join();
     }},
    {"join_a_sleeping_thread", [](Call&) { std::thread(sleep_for_ever).join(); }},
    {"stop_itself", [](Call&) { raise(SIGSTOP); }},
    {"stop_itself_by_the_terminal",
     [](Call&) {
       signal(SIGTSTP, SIG_DFL);
       raise(SIGTSTP);
       sleep_for_ever();
     }},
    {"ignore_every_signal",
     [](Call&) {
       for (int s = 1; s < 65; ++s) signal(s, SIG_IGN);
       sleep_for_ever();
     }},
    {"block_every_signal",
     [](Call&) {
       sigset_t all;
       sigfillset(&all);
       pthread_sigmask(SIG_BLOCK, &all, nullptr);
       spin();
     }},
    {"fault_for_ever",
     [](Call&) {
       signal(SIGSEGV, ignored);
       *reinterpret_cast<volatile int*>(opaque<std::uintptr_t>(8)) = 1;
     }},
    {"read_an_empty_pipe",
     [](Call&) {
       int ends[2];
       char byte = 0;
       if (pipe(ends) == 0) static_cast<void>(!read(ends[0], &byte, 1));
     }},
    {"write_a_full_pipe",
     [](Call&) {
       int ends[2];
       static char bytes[1 << 20];
       if (pipe(ends) == 0) static_cast<void>(!write(ends[1], bytes, sizeof bytes));
     }},
    {"poll_nothing",
     [](Call&) {
       for (;;) poll(nullptr, 0, -1);
     }},
    {"print_for_ever",
     [](Call&) {
       for (;;) std::fputs("still here\n", stderr);
     }},
    {"leave_never",
     [](Call&) {
       std::atexit(spin);
       std::exit(0);
     }},
    {"keep_the_lock_of_stdout",
     [](Call& c) {
       c.twice();
       std::thread([] {
         flockfile(stdout);
         sleep_for_ever();
       }).detach();
       sleep_for(20);
     }},
    {"allocate_and_free_for_ever",
     [](Call&) {
       for (;;) std::free(opaque(std::malloc(1 << 16)));
     }},
    {"correct_but_slow",
     [](Call& c) {
       burn(60);
       c.twice();
     }},
    {"correct_after_a_sleep",
     [](Call& c) {
       sleep_for(200);
       c.twice();
     }},
    {"correct_without_input",
     [](Call& c) {  // standard input is empty: a reader sees its end at once
       char byte = 0;
       if (read(STDIN_FILENO, &byte, 1) == 0) c.twice();
     }},
};

}  // namespace

std::span<const Variant> hangs() { return kVariants; }

}  // namespace hostile
