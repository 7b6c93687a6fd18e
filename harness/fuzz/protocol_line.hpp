// A line of the worker protocol is refused by a ProtocolError, or means the same after it was written again.
#pragma once

#include "harness/fuzz/fuzz.hpp"
#include "harness/worker/protocol.hpp"

namespace assay::fuzz {

template <auto Parse>
int line_is_refused_or_kept(const std::uint8_t* data, std::size_t size) {
  std::string line;
  try {
    const auto [id, message] = Parse(text_of(data, size));
    line = to_line(id, message);
  } catch (const ProtocolError& e) {
    require(std::string_view(e.what()).size() < 2048, "a refusal is short", e.what());
    return 0;
  }
  require(line.find('\n') == line.size() - 1, "a message is one line", line);
  const auto [id, message] = Parse(line);
  require(to_line(id, message) == line, "a message that was written is read as itself", line);
  return 0;
}

}  // namespace assay::fuzz
