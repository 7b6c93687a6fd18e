// The text of case files and of the lists that are written like them. Parsers take text and the name that
// messages give it; read_text() is the one way from a path to text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// One logical line: what is left of it without its comment, and where it began.
struct SuiteLine {
  std::string text;
  std::string where;  // "suites/attention.cases:12"
};

// '#' starts a comment, a backslash at the end of a line continues it. Lines without text are left out.
// Throws InputError bad_value for a control character (the file is binary) and for an end inside a continued
// line.
std::vector<SuiteLine> text_lines(std::string_view text, const std::string& where);
// The same for a case file, which must have a line: a file that asks for nothing would look like one that
// passed.
std::vector<SuiteLine> parse_suite(std::string_view text, const std::string& where);

inline constexpr std::uintmax_t kMostText = std::uintmax_t{64} << 20;
// The content of a regular file of at most `most` bytes. `what` ("case file") begins the message of the
// InputError that says why there is none.
std::string read_text(const std::string& path, std::string_view what, std::uintmax_t most = kMostText);
std::vector<SuiteLine> read_suite(const std::string& path);

// Refuses a byte that no text has: one below a blank, other than tab, newline and carriage return; and 127.
void refuse_binary(std::string_view text, std::string_view where);
// Without blanks, tabs and carriage returns at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace assay
