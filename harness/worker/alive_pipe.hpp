// How a test learns that nothing of a worker is left.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <stdexcept>

namespace assay {

// A pipe whose read end reaches its end when every process that inherited it is gone.
class AlivePipe {
 public:
  AlivePipe() {
    if (pipe(ends_) != 0) throw std::runtime_error("pipe");
    const int above = fcntl(ends_[1], F_DUPFD, 20);  // descriptors 3 and 4 are the worker's own
    close(ends_[1]);
    ends_[1] = above;
    fcntl(ends_[0], F_SETFD, FD_CLOEXEC);
  }
  ~AlivePipe() { close(ends_[0]); }
  AlivePipe(const AlivePipe&) = delete;
  AlivePipe& operator=(const AlivePipe&) = delete;
  int inherited() const { return ends_[1]; }
  int read_end() const { return ends_[0]; }
  bool all_gone(int timeout_ms) {
    pollfd end{ends_[0], POLLIN, 0};
    char byte = 0;
    return poll(&end, 1, timeout_ms) == 1 && read(ends_[0], &byte, 1) == 0;
  }

 private:
  int ends_[2];
};

}  // namespace assay
