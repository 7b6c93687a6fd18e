// A word as a POSIX shell takes it.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// In single quotes, whatever it holds: 'it'\''s'.
inline std::string shell_quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace assay
