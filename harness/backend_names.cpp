#include "harness/backend_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "reference/error.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr std::string_view kInText = " ,;#%'\"\\!";
constexpr std::string_view kInPath = " ,#%'\"\\!:=";
constexpr std::size_t kLongestPath = 4096;  // PATH_MAX
constexpr std::string_view kKey = "abcdefghijklmnopqrstuvwxyz0123456789_";

[[noreturn]] void refuse(std::string_view where, const std::string& message) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where, message));
}

bool is_escaped(char c, std::string_view reserved) {
  return c <= 0x20 || c >= 0x7F || reserved.find(c) != std::string_view::npos;
}

void escape(std::string& out, char c, std::string_view reserved) {
  if (!is_escaped(c, reserved)) {
    out += c;
    return;
  }
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out += {'%', kDigits[byte / 16], kDigits[byte % 16]};
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Calls each(byte, whether it was escaped) for every byte that the text stands for.
template <typename Each>
void unescape(std::string_view text, std::string_view where, const Each& each) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\0') refuse(where, fmt::format("'{}': a NUL is no part of a name", excerpt(text)));
    if (text[i] != '%') {
      each(text[i], false);
      continue;
    }
    const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? digit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || high + low == 0)
      refuse(where, fmt::format("'{}': a % is followed by two hexadecimal digits, as in %20 for a blank and "
                                "%25 for % itself; and %00 is none",
                                excerpt(text)));
    each(static_cast<char>(16 * high + low), true);
    i += 2;
  }
}

// An escaped byte stays escaped where it must be and is written out where it need not. Raw, the bytes of
// `syntax` mean something, and so does a '!' in front of all: the name is excluded (matches, in case.hpp).
std::string spelt(std::string_view text, std::string_view reserved, std::string_view syntax,
                  std::string_view where) {
  std::string out;
  if (text.starts_with('!')) {
    out = "!";
    text.remove_prefix(1);
  }
  unescape(text, where, [&](char c, bool was_escaped) {
    escape(out, c, was_escaped || syntax.find(c) == std::string_view::npos ? reserved : "");
  });
  return out;
}

std::string escaped(std::string_view text, std::string_view reserved) {
  std::string out;
  for (const char c : text) escape(out, c, reserved);
  return out;
}

// Whether the part behind a comma is key=value.
bool is_option(std::string_view part) {
  const auto end = part.find_first_not_of(kKey);
  return end != std::string_view::npos && end > 0 && part[end] == '=';
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(',');
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string escaped_path(std::string_view path) { return escaped(path, kInPath); }
std::string escaped_text(std::string_view text) { return escaped(text, kInText); }

std::string unescaped(std::string_view text, std::string_view where) {
  std::string out;
  unescape(text, where, [&](char c, bool) { out += c; });
  return out;
}

std::string spelt_backend(std::string_view name, std::string_view where) {
  const auto colon = name.find(':');
  std::string text = spelt(name.substr(0, colon), kInPath, "", where);
  if (text.empty()) refuse(where, fmt::format("'{}' has an empty name", excerpt(name)));
  if (colon != std::string_view::npos) text += ":" + spelt(name.substr(colon + 1), kInText, ",", where);
  return text;
}

std::string spelt_variant(std::string_view name, std::string_view where) {
  return spelt(name, kInText, "", where);
}

BackendName parse_backend(std::string_view text, std::string_view where) {
  const auto colon = text.find(':');
  return {unescaped(text.substr(0, colon), where),
          colon == std::string_view::npos ? "" : unescaped(text.substr(colon + 1), where)};
}

std::vector<std::string> split_backends(std::string_view text, std::string_view where) {
  std::vector<std::string> names;
  for (const std::string_view part : split(text)) {
    if (!is_option(part)) {
      if (part.empty()) refuse(where, fmt::format("'{}' has an empty name", excerpt(text)));
      names.push_back(spelt_backend(part, where));
    } else if (!names.empty() && names.back().find(':') == std::string::npos &&
               names.back().ends_with(".py")) {
      names.back() += ":" + spelt(part, kInText, "", where);
    } else if (names.empty() || names.back().find(':') == std::string::npos) {
      refuse(where, fmt::format("'{}': {} is an option of no backend; allowed: NAME:key=value,key=value",
                                excerpt(text), excerpt(part)));
    } else {
      names.back() += "," + spelt(part, kInText, "", where);
    }
  }
  return names;
}

std::vector<std::string> typed_backends(std::string_view text,
                                        const std::function<bool(const std::string&)>& is_file) {
  constexpr std::string_view kWhere = "--backend";
  const auto names_file = [&](std::string_view path) {
    return path.find('/') != std::string_view::npos && is_file(std::string(path));
  };
  const std::vector<std::string_view> parts = split(text);
  // Where the longest file that begins with part `first` ends: the part that it ends in, and its end.
  struct File {
    std::size_t last = 0, end = 0;  // end: 0 for none
  };
  const auto file_at = [&](std::size_t first) {
    File found;
    const char* const begin = parts[first].data();
    for (std::size_t j = first; j < parts.size(); ++j) {
      const std::string_view rest(begin, static_cast<std::size_t>(parts[j].data() + parts[j].size() - begin));
      if (rest.size() > kLongestPath) break;
      // A file must end in this part; or with the comma in front of it, where options begin.
      const std::size_t before = std::max<std::size_t>(rest.size() - parts[j].size(), 1);
      for (std::size_t end = rest.size(); end >= before && end != std::string_view::npos;
           end = rest.substr(0, end).rfind(':')) {
        if (!names_file(rest.substr(0, end))) continue;
        found = {j, end};
        break;
      }
    }
    return found;
  };
  std::string spelt_out;  // as a case has it
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) spelt_out += ',';
    const File file = file_at(i);
    if (file.end == 0) {
      spelt_out += parts[i];
      continue;
    }
    const char* const options = parts[i].data() + file.end;
    spelt_out += escaped_path({parts[i].data(), file.end});
    spelt_out.append(options, parts[file.last].data() + parts[file.last].size());
    i = file.last;
  }
  return split_backends(spelt_out, kWhere);
}

std::vector<std::string> typed_backends(std::string_view text) {
  return typed_backends(text, [](const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
  });
}

}  // namespace assay
