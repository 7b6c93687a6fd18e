// Misdeeds while the plug-in is opened, by its options, and in declare, by the call's variant.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "harness/worker/hostile/plugin.hpp"

namespace hostile {
namespace {

const assay_backend* refuse(char* reason, const char* text) {
  std::strcpy(reason, text);
  return nullptr;
}

void fill(char* text, std::size_t size, char byte) { std::memset(text, byte, size); }

}  // namespace

const assay_backend* open_misdeed(std::string_view options, char* reason, const assay_backend& honest) {
  static assay_backend changed = honest;
  static const std::string mebibyte(1 << 20, 'v');
  if (options == "refuse") return refuse(reason, "no such device");
  if (options == "refuse_without_a_reason") return refuse(reason, "");
  if (options == "refuse_with_lines_and_escapes") return refuse(reason, "one\ntwo\x1b[2J\xff\r");
  if (options == "refuse_without_end") {
    fill(reason, 256, 'r');
    return nullptr;
  }
  if (options == "abort") std::abort();
  if (options == "exit_0") std::exit(0);
  if (options == "exit_1") std::exit(1);
  if (options == "kill") raise(SIGKILL);
  if (options == "spin") spin();
  if (options == "sleep")
    for (;;) pause();
  if (options == "stop") raise(SIGSTOP);
  if (options == "throw") throw std::runtime_error("while it was opened");
  if (options == "throw_number") throw 42;
  if (options == "close_the_channel") close(3);
  if (options == "another_version") changed.version = 7;
  if (options == "no_declare") changed.declare = nullptr;
  if (options == "no_run") changed.run = nullptr;
  if (options == "no_names") changed.name = changed.description = changed.variants = nullptr;
  if (options == "names_of_a_mebibyte")
    changed.name = changed.description = changed.variants = mebibyte.c_str();
  if (options == "names_that_are_no_text") changed.name = changed.description = "\x1b[2J\n\xff";
  if (options == "no_close") changed.close = nullptr;
  if (options == "run_at_null")
    changed.run = reinterpret_cast<decltype(changed.run)>(opaque<std::uintptr_t>(8));
  if (options == "backend_at_8") return reinterpret_cast<const assay_backend*>(opaque<std::uintptr_t>(8));
  if (options == "spin_in_close") changed.close = [](void*) { spin(); };
  if (options == "crash_in_close") changed.close = [](void*) { std::abort(); };
  if (options == "print_in_open")
    for (int i = 0; i < 4096; ++i) std::fputs(mebibyte.substr(0, 1023).c_str(), stdout);
  if (options == "leave_a_daemon" && fork() == 0) {
    setsid();
    for (;;) pause();
  }
  return &changed;
}

bool declare_misdeed(std::string_view variant, assay_declaration* d, assay_status* status) {
  const auto answer = [&](int value) { *status = static_cast<assay_status>(value); };
  if (variant == "declare_spin") spin();
  if (variant == "declare_sleep")
    for (;;) pause();
  if (variant == "declare_abort") std::abort();
  if (variant == "declare_exit") std::exit(0);
  if (variant == "declare_null") *reinterpret_cast<volatile int*>(opaque<std::uintptr_t>(8)) = 1;
  if (variant == "declare_throw") throw std::runtime_error("in declare");
  if (variant == "declare_throw_number") throw 42;
  if (variant == "declare_status_9") answer(9);
  if (variant == "declare_unsupported_without_a_reason") answer(ASSAY_UNSUPPORTED);
  if (variant == "declare_failed") {
    std::strcpy(d->reason, "it should have worked");
    answer(ASSAY_FAILED);
  }
  if (variant == "declare_without_end") {
    fill(d->contract, sizeof d->contract, 'c');
    fill(d->path, sizeof d->path, 'p');
    fill(d->promises, sizeof d->promises, 'm');
  }
  if (variant == "declare_reason_without_end") {
    fill(d->reason, sizeof d->reason, 'r');
    answer(ASSAY_FAILED);
  }
  if (variant == "declare_empty") d->contract[0] = d->path[0] = d->promises[0] = '\0';
  if (variant == "declare_lines_and_escapes") std::strcpy(d->contract, "out=f32\n\x1b[2Jacc=\xff");
  if (variant == "declare_path_with_control_bytes") std::strcpy(d->path, "twice\x07\x1b]0;t\x07\n");
  if (variant == "declare_unknown_keys") std::strcpy(d->contract, "colour=blue out=f32 out=f64");
  if (variant == "declare_unknown_promises")
    std::strcpy(d->promises, "deterministic=perhaps temporary_bytes=-1");
  if (variant == "declare_garbage_on_the_channel") static_cast<void>(!write(3, "garbage\n", 8));
  if (variant == "declare_close_the_channel") close(3);
  return *status == ASSAY_OK;
}

}  // namespace hostile
