// Lines of a channel: however the bytes arrive, the lines are the same, and no byte is lost. The first byte
// says how many arrive at a time.
#include <algorithm>

#include "harness/fuzz/fuzz.hpp"
#include "harness/worker/channel.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  if (size == 0) return 0;
  const std::size_t step = 1 + data[0] % 64;
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  LineBuffer buffer;
  std::string seen;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    buffer.append(bytes.substr(at, step));
    while (const auto line = buffer.take()) {
      require(line->find('\n') == std::string::npos, "a line has no end in it", *line);
      seen += *line + "\n";
    }
    const std::size_t arrived = std::min(bytes.size(), at + step);
    require(seen == bytes.substr(0, seen.size()), "the lines are the bytes that arrived", seen);
    require(seen.size() + buffer.bytes() == arrived, "no byte is lost", bytes);
    require(bytes.substr(seen.size(), buffer.bytes()).find('\n') == std::string_view::npos,
            "no line is left behind", bytes);
  }
  return 0;
}
