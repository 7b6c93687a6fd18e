#include "harness/worker/printable.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace assay {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

// The character at the beginning of `text`, which is not empty; nothing where it is no UTF-8 (RFC 3629: no
// overlong form, no surrogate, nothing beyond U+10FFFF).
std::optional<Character> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return Character{lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return std::nullopt;
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return std::nullopt;
  return Character{code, bytes};
}

bool is_dangerous(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029 || code == 0xFFFE ||
         code == 0xFFFF;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const auto character = first_character(text);
    const std::size_t bytes = character ? character->bytes : 1;
    if (!character) {
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (!is_dangerous(character->code)) {
      safe += text.substr(0, bytes);
    } else if (character->code == '\n') {
      safe += "\\n";
    } else if (character->code == '\t') {
      safe += "\\t";
    } else {
      safe += character->code < 0x100 ? fmt::format("\\x{:02x}", character->code)
                                      : fmt::format("\\u{:04x}", character->code);
    }
    text.remove_prefix(bytes);
  }
  return safe;
}

std::string quoted_block(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string block;
  while (true) {
    const auto end = text.find('\n');
    block += (block.empty() ? "  | " : "\n  | ") + printable(text.substr(0, end));
    if (end == std::string_view::npos) return block;
    text.remove_prefix(end + 1);
  }
}

}  // namespace assay
