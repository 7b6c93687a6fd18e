// Lines of a channel: however the bytes arrive, the lines are the same, and no byte is lost. The first byte says how many
// arrive at a time.
#include "harness/fuzz/fuzz.hpp"
#include "harness/worker/channel.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  if (size == 0) return 0;
  const std::size_t step = 1 + data[0] % 64;
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  std::string buffer, seen;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    buffer += bytes.substr(at, step);
    while (const auto line = take_line(buffer)) {
      require(line->find('\n') == std::string::npos, "a line has no end in it", *line);
      seen += *line + "\n";
    }
    require(buffer.find('\n') == std::string::npos, "no line is left behind", buffer);
  }
  require(seen + buffer == bytes, "no byte is lost", bytes);
  return 0;
}
