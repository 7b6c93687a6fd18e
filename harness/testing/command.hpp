// For tests: runs a command line as a user does, and keeps what it printed.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace assay {

struct Outcome {
  int code = -1;     // of the exit; 128 + n when signal n ended the command; -1 when it could not be started
  std::string text;  // both of its outputs, in the order in which they were written
  std::string last_line() const {
    const auto end = text.find_last_not_of('\n');
    const auto start = text.rfind('\n', end);
    return text.substr(start + 1, end - start);
  }
};

// `line` is the shell's: "NAME=value program 'an argument'".
inline Outcome run_command(const std::string& line) {
  Outcome o;
  FILE* pipe = popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    o.text = std::strerror(errno);
    return o;
  }
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    o.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  if (status != -1) o.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return o;
}

}  // namespace assay
