// Lines over a file descriptor. Both ends use it; a line may be of any length.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

// Bytes as they arrive, lines as they are taken. Each byte is searched once, however small the pieces are.
class LineBuffer {
 public:
  void append(std::string_view piece) { bytes_.append(piece); }
  // The next complete line, without its newline.
  std::optional<std::string> take() {
    const auto end = bytes_.find('\n', searched_);
    if (end == std::string::npos) {
      bytes_.erase(0, begin_);
      begin_ = 0;
      searched_ = bytes_.size();
      return std::nullopt;
    }
    std::string line = bytes_.substr(begin_, end - begin_);
    begin_ = searched_ = end + 1;
    return line;
  }
  // Of what was not taken yet.
  std::size_t bytes() const { return bytes_.size() - begin_; }

 private:
  std::string bytes_;
  std::size_t begin_ = 0;     // of what was not taken
  std::size_t searched_ = 0;  // no newline between begin_ and here
};

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
inline Received receive_some(int descriptor, LineBuffer& buffer, int flags) {
  char chunk[65536];
  for (;;) {
    const ssize_t count = recv(descriptor, chunk, sizeof chunk, flags);
    if (count > 0) {
      buffer.append({chunk, static_cast<std::size_t>(count)});
      return Received::bytes;
    }
    if (count == 0) return Received::end;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? Received::nothing_yet : Received::end;
  }
}

}  // namespace assay
