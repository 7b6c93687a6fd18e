#include "harness/suite_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "reference/error.hpp"

namespace assay {
namespace fs = std::filesystem;
namespace {

// Far more than a person writes, and little enough to hold: /dev/zero under another name must not fill the
// memory.

[[noreturn]] void refuse(const std::string& message) { throw InputError(InputErrorKind::bad_value, message); }

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

void refuse_binary(std::string_view text, std::string_view where) {
  const auto binary = std::ranges::find_if(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7F;
  });
  if (binary != text.end())
    refuse(fmt::format("{}:{}: byte 0x{:02x} is not text; allowed: lines of text", where,
                       1 + std::count(text.begin(), binary, '\n'), static_cast<unsigned char>(*binary)));
}

std::vector<SuiteLine> text_lines(std::string_view text, const std::string& where) {
  refuse_binary(text, where);
  std::vector<SuiteLine> lines;
  std::string pending;
  bool continued = false;
  int number = 0, first = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    line = line.substr(0, line.find('#'));
    while (!line.empty() && trimmed(line.substr(line.size() - 1)).empty()) line.remove_suffix(1);
    if (!continued) first = number;
    continued = line.ends_with('\\');
    pending += continued ? line.substr(0, line.size() - 1) : line;
    if (continued) {
      pending += ' ';
      continue;
    }
    if (!trimmed(pending).empty()) lines.push_back({pending, fmt::format("{}:{}", where, first)});
    pending.clear();
  }
  if (continued) refuse(fmt::format("{}:{}: the file ends in a continued line", where, first));
  return lines;
}

std::vector<SuiteLine> parse_suite(std::string_view text, const std::string& where) {
  auto lines = text_lines(text, where);
  if (lines.empty()) refuse(fmt::format("{}: no case line in it; allowed: op key=value ...", where));
  return lines;
}

std::string read_text(const std::string& path, std::string_view what, std::uintmax_t most) {
  const auto cannot = [&](std::string_view why) {
    refuse(fmt::format("{} '{}' cannot be read: {}", what, path, why));
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) cannot("there is no such file");
  if (error) cannot(error.message());
  if (fs::is_directory(status)) cannot("it is a directory; allowed: a file of text");
  if (!fs::is_regular_file(status)) cannot("it is no regular file; allowed: a file of text");
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot(std::strerror(errno));
  std::string text;
  char chunk[65536];
  while (file.read(chunk, sizeof chunk), file.gcount() > 0) {
    text.append(chunk, static_cast<std::size_t>(file.gcount()));
    if (text.size() > most) cannot(fmt::format("it has more than {} bytes", most));
  }
  if (file.bad()) cannot(std::strerror(errno));
  return text;
}

std::vector<SuiteLine> read_suite(const std::string& path) {
  return parse_suite(read_text(path, "case file"), path);
}

}  // namespace assay
