// A backend whose variants resist their supervision, each beside a twin that does nearly the same and may.
// The op is y = 2 x, x and y [rows, cols] f32, rows without gaps.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/assay_backend.h"

namespace {

constexpr int kControl = 3, kMemory = 4;

struct Call {
  volatile float* x;
  volatile float* y;
  int64_t count;
  const assay_trace* trace;
};

void twice(const Call& call) {
  for (int64_t i = 0; i < call.count; ++i) call.y[i] = 2 * call.x[i];
}
void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
// Volatile: a loop over an atomic that nobody else sees may be taken out.
[[noreturn]] void spin() {
  volatile bool spinning = true;
  while (spinning) {
  }
  std::abort();
}
[[noreturn]] void wait_for_ever() {
  for (;;) pause();
}
void say(std::string_view bytes) {
  if (write(kControl, bytes.data(), bytes.size()) < 0) _exit(1);
}

void write_late(const Call& call) {
  twice(call);
  std::thread([y = call.y] {
    for (int i = 0;; ++i) y[0] = static_cast<float>(i);
  }).detach();
}
void write_in_thread(const Call& call) {
  std::thread([&] { twice(call); }).join();
}
void write_once_later(const Call& call) {  // when the next case is long under way, or none
  twice(call);
  std::thread([y = call.y] {
    nap(40);
    y[0] = -1;
    wait_for_ever();
  }).detach();
}
void child_writes_late(const Call& call) {
  twice(call);
  if (fork() == 0) {
    for (int i = 0;; ++i) call.y[0] = static_cast<float>(i);
  }
}
void child_writes(const Call& call) {
  const pid_t child = fork();
  if (child == 0) {
    twice(call);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

// The offset in the memory's file of an address that is mapped to it.
off_t file_offset(volatile float* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0, end = 0, offset = 0;
    if (std::sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 && begin <= wanted && wanted < end) {
      std::fclose(maps);
      return static_cast<off_t>(wanted - begin + offset);
    }
  }
  std::abort();
}
void write_input_by_file(const Call& call) {
  twice(call);
  const float other = 7;
  if (pwrite(kMemory, &other, sizeof other, file_offset(call.x + 8)) != sizeof other) std::abort();
}
void write_output_by_file(const Call& call) {
  twice(call);
  const float same = 2 * call.x[8];
  if (pwrite(kMemory, &same, sizeof same, file_offset(call.y + 8)) != sizeof same) std::abort();
}
void unprotect_input(const Call& call) {
  twice(call);
  auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(call.x) / 4096 * 4096);
  if (mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0) std::abort();
  call.x[8] = 7;
}
void cut_memory(const Call& call) {
  twice(call);
  if (ftruncate(kMemory, 0) == 0) std::abort();
}

// As if it had been written: what the stack holds already.
[[gnu::noinline]] float from_stack() {
  float frame[64];
  asm volatile("" : "=m"(frame));
  return frame[7];
}
[[gnu::noinline]] float from_clean_stack() {
  float frame[64] = {};
  asm volatile("" : "+m"(frame));
  return frame[7];
}
void read_stack(const Call& call) {
  const float found = from_stack();
  twice(call);
  call.y[1] = found;
}
void read_clean_stack(const Call& call) {
  const float found = from_clean_stack();
  twice(call);
  call.y[1] = found;
}

void stray_line(const Call& call) {
  twice(call);
  say("{\"type\":\"done\",\"kernels\":[],\"notes\":[],\"wall_ns\":1}\n");
}
void print_line(const Call& call) {
  twice(call);
  std::puts("{\"type\":\"done\"}");
}
void endless_line(const Call&) {
  const std::string piece(65536, 'x');
  for (;;) say(piece);
}
void dripping_line(const Call&) {
  for (;; nap(1)) say("x");
}
void many_kernels(const Call& call) {
  twice(call);
  const std::string name(500, 'k');
  for (int i = 0; i < 65'000; ++i) call.trace->kernel(call.trace->self, name.c_str());
}

// A grandchild in a session and a group of its own, whose parent has ended.
void escape(const Call& call) {
  twice(call);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    setpgid(0, 0);
    wait_for_ever();
  }
  waitpid(child, nullptr, 0);
}
void escape_and_spin(const Call& call) {
  escape(call);
  spin();
}
void fork_chain(const Call& call) {  // each process starts the next one and ends
  twice(call);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) {
      if (fork() != 0) _exit(0);
      setpgid(0, 0);
    }
  }
  waitpid(child, nullptr, 0);
}
void kill_keeper(const Call& call) {
  escape(call);
  kill(getppid(), SIGKILL);
  wait_for_ever();
}
void stop_keeper(const Call& call) {
  twice(call);
  kill(getppid(), SIGSTOP);
}
void stop_itself(const Call&) { raise(SIGSTOP); }
void stop_later(const Call& call) {
  twice(call);
  std::thread([] {
    nap(40);
    raise(SIGSTOP);
  }).detach();
}
void take_a_nap(const Call& call) {
  twice(call);
  nap(600);
}
void children_spin(const Call&) {
  const pid_t child = fork();
  if (child == 0) spin();
  waitpid(child, nullptr, 0);
}
// Eight threads of 200 ms of processor time each: 1.6 s in all.
void many_threads(const Call& call) {
  const auto work = [] {
    timespec now{};
    while (now.tv_sec == 0 && now.tv_nsec < 200'000'000) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  twice(call);
}
void process_bits(const Call& call) {
  twice(call);
  call.y[0] = static_cast<float>(getpid());
}

struct Variant {
  std::string_view name;
  void (*run)(const Call& call);
};
constexpr Variant kVariants[] = {
    {"correct", twice},
    {"write_late", write_late},
    {"write_in_thread", write_in_thread},
    {"write_once_later", write_once_later},
    {"child_writes_late", child_writes_late},
    {"child_writes", child_writes},
    {"write_input_by_file", write_input_by_file},
    {"write_output_by_file", write_output_by_file},
    {"unprotect_input", unprotect_input},
    {"cut_memory", cut_memory},
    {"read_stack", read_stack},
    {"read_clean_stack", read_clean_stack},
    {"stray_line", stray_line},
    {"print_line", print_line},
    {"endless_line", endless_line},
    {"dripping_line", dripping_line},
    {"many_kernels", many_kernels},
    {"escape", escape},
    {"escape_and_spin", escape_and_spin},
    {"fork_chain", fork_chain},
    {"kill_keeper", kill_keeper},
    {"stop_keeper", stop_keeper},
    {"stop_itself", stop_itself},
    {"stop_later", stop_later},
    {"take_a_nap", take_a_nap},
    {"children_spin", children_spin},
    {"many_threads", many_threads},
    {"process_bits", process_bits},
};

assay_status declare(void*, const assay_call*, assay_declaration* declaration) {
  std::snprintf(declaration->contract, sizeof declaration->contract, "out=f32");
  return ASSAY_OK;
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  const assay_tensor& x = call->inputs[0];
  const assay_tensor& y = call->outputs[0];
  for (const Variant& variant : kVariants) {
    if (variant.name != call->variant) continue;
    variant.run({static_cast<float*>(x.data), static_cast<float*>(y.data), x.shape[0] * x.shape[1], trace});
    return ASSAY_OK;
  }
  std::snprintf(reason, 256, "variant %s is unknown", call->variant);
  return ASSAY_FAILED;
}

bool g_endless_close = false;
void close_backend(void*) {
  if (g_endless_close) spin();
}

}  // namespace

// Options: "endless_close"; "slow_once:FILE" opens at once if FILE is there, and else makes it and never
// opens.
extern "C" const assay_backend* assay_backend_open(const char* options, char*) {
  static const assay_backend backend{ASSAY_BACKEND_VERSION, "unruly", "resists", "", nullptr, declare, run,
                                     close_backend};
  const std::string_view given(options);
  constexpr std::string_view kSlowOnce = "slow_once:";
  g_endless_close = given == "endless_close";
  if (given == "slow") wait_for_ever();
  if (given.starts_with(kSlowOnce)) {
    const int file = open(options + kSlowOnce.size(), O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file >= 0) wait_for_ever();
  }
  return &backend;
}
