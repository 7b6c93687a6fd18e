// The last line of a dying worker: which signal, where, and whether it was a read or a write.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "harness/worker/protocol.hpp"

namespace assay {

// What a signal handler may look at; written before each request.
struct CrashContext {
  const volatile std::byte* memory = nullptr;
  volatile std::size_t memory_bytes = 0;
  volatile std::int64_t id = 0;  // of the request
  volatile bool ending = false;  // the report is made: what follows is the system's
  // Whether a handler of what the worker loaded took a fault that is not in its memory; nullptr: there is
  // none.
  bool (*volatile taken)(int, siginfo_t*, void*) = nullptr;
};
inline CrashContext g_crash_context;

namespace crash_detail {

// Text without allocation or locale: all that is safe in a signal handler.
class Line {
 public:
  void text(const char* s) {
    while (*s != '\0' && size_ < sizeof bytes_) bytes_[size_++] = *s++;
  }
  void number(std::uint64_t value) {
    char digits[20];
    std::size_t n = 0;
    do {
      digits[n++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (n > 0 && size_ < sizeof bytes_) bytes_[size_++] = digits[--n];
  }
  void send() const {
    const ssize_t sent = ::send(kControlDescriptor, bytes_, size_, MSG_NOSIGNAL);
    static_cast<void>(sent);  // nobody left to tell
  }

 private:
  char bytes_[256];
  std::size_t size_ = 0;
};

inline const char* access_of([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  constexpr std::uint64_t kWriteBit = 2;  // of the page fault's error code
  const auto* machine = static_cast<const ucontext_t*>(context);
  return (static_cast<std::uint64_t>(machine->uc_mcontext.gregs[REG_ERR]) & kWriteBit) != 0 ? "write"
                                                                                            : "read";
#elif defined(__aarch64__)
  // Among the records behind the registers is the syndrome of the fault, if the kernel wrote one.
  constexpr std::uint32_t kSyndrome = 0x45535201;
  constexpr std::uint64_t kWriteBit = 1U << 6;
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  const unsigned char* at = machine.__reserved;
  for (const unsigned char* end = at + sizeof machine.__reserved; at + 16 <= end;) {
    std::uint32_t head[2];
    std::memcpy(head, at, sizeof head);
    if (head[0] == kSyndrome) {
      std::uint64_t syndrome;
      std::memcpy(&syndrome, at + sizeof head, sizeof syndrome);
      return (syndrome & kWriteBit) != 0 ? "write" : "read";
    }
    if (head[0] == 0 || head[1] < sizeof head) break;
    at += head[1];
  }
  // qemu-user writes none: then the instruction says it. Its bit 22 is set in loads, but for those that
  // extend a sign: they have bit 23 set instead.
  std::uint32_t code;
  std::memcpy(&code, reinterpret_cast<const void*>(machine.pc), sizeof code);
  if ((code & 0x0A000000) != 0x08000000) return "unknown";
  const bool one_register = (code & 0x3A000000) == 0x38000000;
  const bool signed_load = one_register && (code & 0x04000000) == 0 && (code & 0x00800000) != 0;
  return (code & 0x00400000) != 0 || signed_load ? "read" : "write";
#else
  return "unknown";
#endif
}

inline void handle(int signal, siginfo_t* info, void* context) {
  const bool has_address = signal == SIGSEGV || signal == SIGBUS;
  const auto address = has_address ? reinterpret_cast<std::uint64_t>(info->si_addr) : 0;
  const auto base = reinterpret_cast<std::uint64_t>(g_crash_context.memory);
  const bool inside =
      has_address && base != 0 && address >= base && address - base < g_crash_context.memory_bytes;
  if (!inside && has_address && g_crash_context.taken != nullptr &&
      g_crash_context.taken(signal, info, context))
    return;
  Line line;
  line.text("{\"type\":\"crash\",\"id\":");
  line.number(static_cast<std::uint64_t>(g_crash_context.id));
  line.text(",\"signal\":");
  line.number(static_cast<std::uint64_t>(signal));
  line.text(",\"address\":");
  line.number(address);
  line.text(",\"offset\":");
  if (inside) {
    line.number(address - base);
  } else {
    line.text("-1");
  }
  line.text(",\"access\":\"");
  line.text(signal == SIGSEGV ? access_of(context) : "unknown");
  line.text("\"}\n");
  const bool was_sent = has_address && info->si_code <= 0;  // by raise() or kill(): no access, and no address
  if (!was_sent) line.send();
  g_crash_context.ending = true;
  ::signal(signal, SIG_DFL);  // the exit status then names the signal
  ::raise(signal);
}

}  // namespace crash_detail

// A stack of its own for the handler: a stack overflow is reported too.
inline void install_crash_report() {
  static std::array<std::byte, 65536> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_sigaction = crash_detail::handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

}  // namespace assay
