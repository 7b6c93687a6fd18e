// The process ends in the middle of a call.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "harness/worker/hostile/plugin.hpp"

namespace hostile {
namespace {

void write_to(std::uintptr_t address) { *reinterpret_cast<volatile int*>(opaque(address)) = 1; }

int deeper(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : deeper(opaque(depth + 1)) + frame[0];
}

// Past the end of a file that is mapped.
void bus_error(Call&) {
  const int file = memfd_create("short", 0);
  auto* page = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
  static_cast<void>(page[0]);
}
void illegal_instruction(Call&) {
#if defined(__x86_64__)
  asm volatile("ud2");
#else
  raise(SIGILL);
#endif
}
void divide_by_zero(Call&) {
#if defined(__x86_64__)
  volatile int number = 7, zero = 0;
  number = number / zero;
#else
  raise(SIGFPE);
#endif
}
void run_data(Call&) {
  static char data[16] = {};
  reinterpret_cast<void (*)()>(opaque(reinterpret_cast<std::uintptr_t>(&data)))();
}

template <int Signal>
void raised(Call&) {
  signal(Signal, SIG_DFL);
  raise(Signal);
}
template <int Signal>
void sent(Call&) {  // to the whole process, with the disposition that the worker has
  kill(getpid(), Signal);
  for (;;) pause();
}
template <int Status>
void leave(Call&) {
  _exit(Status);
}

jmp_buf g_gone;
__attribute__((noinline)) int set_deeper(int depth) {
  volatile char frame[8192];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? setjmp(g_gone) + frame[0] : set_deeper(depth - 1) + frame[0];
}

struct ThrowsInWhat : std::exception {
  const char* what() const noexcept override { std::abort(); }
};
struct NullWhat : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
void throw_late() { throw std::runtime_error("from a noexcept function"); }
void noexcept_throw() noexcept { throw_late(); }

void forgotten(int) {}
void exit_quietly(int) { _exit(0); }

void crash_without_a_last_word() {
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

constexpr Variant kVariants[] = {
    {"write_null", [](Call&) { write_to(8); }},
    {"read_null",
     [](Call& c) { c.y.at(0, 0) = *reinterpret_cast<volatile float*>(opaque<std::uintptr_t>(8)); }},
    {"write_kernel_address", [](Call&) { write_to(0xffff800000000000U); }},
    {"write_noncanonical", [](Call&) { write_to(0x8000000000000000U); }},
    {"call_null", [](Call&) { reinterpret_cast<void (*)()>(opaque<std::uintptr_t>(0))(); }},
    {"run_data", run_data},
    {"bus_error", bus_error},
    {"illegal_instruction", illegal_instruction},
    {"divide_by_zero", divide_by_zero},
    {"abort", [](Call&) { std::abort(); }},
    {"stack_overflow", [](Call& c) { c.y.at(0, 0) = static_cast<float>(deeper(0)); }},
    {"stack_overflow_in_thread",
     [](Call& c) { std::thread([&] { c.y.at(0, 0) = static_cast<float>(deeper(0)); }).join(); }},
    {"stack_overflow_without_a_handlers_stack",
     [](Call& c) {
       crash_without_a_last_word();
       c.y.at(0, 0) = static_cast<float>(deeper(0));
     }},
    {"crash_in_thread", [](Call&) { std::thread([] { write_to(8); }).join(); }},
    {"crash_with_the_handler_ignored",
     [](Call&) {
       signal(SIGSEGV, SIG_IGN);
       write_to(8);
     }},
    {"crash_into_a_quiet_exit",
     [](Call&) {
       signal(SIGSEGV, exit_quietly);
       write_to(8);
     }},
    {"crash_at_a_blocked_signal",
     [](Call&) {
       sigset_t all;
       sigfillset(&all);
       sigprocmask(SIG_BLOCK, &all, nullptr);
       write_to(8);
     }},
    {"double_free",
     [](Call&) {
       void* p = std::malloc(opaque<std::size_t>(5000));
       void* again = opaque(p);
       std::free(p);
       std::free(again);
     }},
    {"free_what_was_not_allocated", [](Call& c) { std::free(opaque(static_cast<void*>(c.y.data + 16))); }},
    {"jump_into_a_dead_frame",
     [](Call&) {
       static bool jumped = false;
       static_cast<void>(set_deeper(4));
       if (!std::exchange(jumped, true)) longjmp(g_gone, 1);
     }},
    {"unmap_the_c_library",
     [](Call&) {
       const auto page = reinterpret_cast<std::uintptr_t>(&std::strtol) & ~std::uintptr_t{4095};
       munmap(reinterpret_cast<void*>(page - (64 << 12)), 256 << 12);
       std::abort();
     }},
    {"throw_standard", [](Call&) { throw std::runtime_error("no memory for the tile"); }},
    {"throw_number", [](Call&) { throw 42; }},
    {"throw_null_text", [](Call&) { throw static_cast<const char*>(nullptr); }},
    {"throw_with_null_what", [](Call&) { throw NullWhat(); }},
    {"throw_with_aborting_what", [](Call&) { throw ThrowsInWhat(); }},
    {"throw_a_megabyte", [](Call&) { throw std::runtime_error(std::string(1 << 20, 'm')); }},
    {"throw_lines_and_escapes", [](Call&) { throw std::runtime_error("one\ntwo\x1b[2J\xff\r"); }},
    {"throw_in_thread", [](Call&) { std::thread([] { throw std::runtime_error("alone"); }).join(); }},
    {"throw_from_noexcept", [](Call&) { noexcept_throw(); }},
    {"terminate", [](Call&) { std::terminate(); }},
    {"end_the_thread", [](Call&) { pthread_exit(nullptr); }},
    {"leave_0", leave<0>},
    {"leave_1", leave<1>},
    {"leave_2", leave<2>},
    {"leave_71", leave<71>},
    {"leave_255", leave<255>},
    {"exit_3", [](Call&) { std::exit(3); }},
    {"quick_exit_4", [](Call&) { std::quick_exit(4); }},
    {"exit_changed_on_the_way_out",
     [](Call&) {
       std::atexit([] { _exit(5); });
       std::exit(0);
     }},
    {"crash_on_the_way_out",
     [](Call&) {
       std::atexit([] { write_to(8); });
       std::exit(0);
     }},
    {"end_the_thread_by_system_call", [](Call&) { syscall(SYS_exit_group, 6); }},
    {"become_true", [](Call&) { execl("/bin/true", "true", static_cast<char*>(nullptr)); }},
    {"raise_SIGHUP", raised<SIGHUP>},
    {"raise_SIGINT", raised<SIGINT>},
    {"raise_SIGQUIT", raised<SIGQUIT>},
    {"raise_SIGILL", raised<SIGILL>},
    {"raise_SIGTRAP", raised<SIGTRAP>},
    {"raise_SIGABRT", raised<SIGABRT>},
    {"raise_SIGBUS", raised<SIGBUS>},
    {"raise_SIGFPE", raised<SIGFPE>},
    {"raise_SIGKILL", raised<SIGKILL>},
    {"raise_SIGUSR1", raised<SIGUSR1>},
    {"raise_SIGSEGV", raised<SIGSEGV>},
    {"raise_SIGUSR2", raised<SIGUSR2>},
    {"raise_SIGPIPE", raised<SIGPIPE>},
    {"raise_SIGALRM", raised<SIGALRM>},
    {"raise_SIGTERM", raised<SIGTERM>},
    {"raise_SIGXCPU", raised<SIGXCPU>},
    {"raise_SIGXFSZ", raised<SIGXFSZ>},
    {"raise_SIGVTALRM", raised<SIGVTALRM>},
    {"raise_SIGPROF", raised<SIGPROF>},
    {"raise_SIGIO", raised<SIGIO>},
    {"raise_SIGSYS", raised<SIGSYS>},
    {"raise_a_real_time_signal", raised<40>},
    {"send_SIGSEGV", sent<SIGSEGV>},
    {"send_SIGTERM", sent<SIGTERM>},
    {"processor_time_used_up",
     [](Call&) {
       const rlimit none{0, 0};
       setrlimit(RLIMIT_CPU, &none);
       spin();
     }},
    {"correct_after_a_handled_signal",
     [](Call& c) {
       signal(SIGUSR1, forgotten);
       raise(SIGUSR1);
       signal(SIGUSR1, SIG_DFL);
       c.twice();
     }},
    {"correct_after_a_caught_exception",
     [](Call& c) {
       try {
         throw 1;
       } catch (int) {
         c.twice();
       }
     }},
};

}  // namespace

std::span<const Variant> crashes() { return kVariants; }

}  // namespace hostile
