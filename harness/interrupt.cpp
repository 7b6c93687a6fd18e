#include "harness/interrupt.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <system_error>

namespace assay {
namespace {

constexpr int kCaught[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> g_signal{0};
int g_pipe[2] = {-1, -1};
struct sigaction g_before[std::size(kCaught)];
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  const int error = errno;
  int none = 0;
  if (!g_signal.compare_exchange_strong(none, signal))
    _exit(128 + signal);  // whoever asks twice does not wait
  const char byte = 0;
  [[maybe_unused]] const ssize_t sent = write(g_pipe[1], &byte, 1);
  errno = error;
}

}  // namespace

StopSignals::StopSignals() {
  if (pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  g_signal = 0;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kCaught); ++i) {
    sigaction(kCaught[i], nullptr, &g_before[i]);
    // What the caller had ignored (nohup) stays ignored.
    if (g_before[i].sa_handler != SIG_IGN) sigaction(kCaught[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < std::size(kCaught); ++i) sigaction(kCaught[i], &g_before[i], nullptr);
  for (int& end : g_pipe) {
    close(end);
    end = -1;
  }
}

int StopSignals::descriptor() const { return g_pipe[0]; }
int StopSignals::signal() const { return g_signal; }

}  // namespace assay
