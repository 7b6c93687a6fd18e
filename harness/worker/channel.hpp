// Lines over a file descriptor. Both ends use it; a line may be of any length.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

// Takes one complete line out of `buffer`, without its newline.
inline std::optional<std::string> take_line(std::string& buffer) {
  const auto end = buffer.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer.substr(0, end);
  buffer.erase(0, end + 1);
  return line;
}

// False when the other end is gone. Blocks while the socket is full; never raises SIGPIPE.
inline bool send_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

enum class Received { bytes, nothing_yet, end };

// Appends what is there to `buffer`; with MSG_DONTWAIT in flags it does not block.
inline Received receive_some(int descriptor, std::string& buffer, int flags) {
  char chunk[16384];
  for (;;) {
    const ssize_t count = recv(descriptor, chunk, sizeof chunk, flags);
    if (count > 0) {
      buffer.append(chunk, static_cast<std::size_t>(count));
      return Received::bytes;
    }
    if (count == 0) return Received::end;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? Received::nothing_yet : Received::end;
  }
}

}  // namespace assay
