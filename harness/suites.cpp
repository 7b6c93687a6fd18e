#include "harness/suites.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/backends.hpp"
#include "harness/case_file.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace fs = std::filesystem;

std::string suites_directory() {
  if (const char* given = std::getenv("ASSAY_SUITES")) return given;
  const fs::path installed = fs::path(program_directory()).parent_path() / "share" / "assay" / "suites";
  std::error_code error;
  if (fs::exists(installed, error)) return installed.string();
  return ASSAY_SOURCE_SUITES;
}

namespace {

constexpr const char* kMainGroup = "main";

std::vector<std::string> names_in(const fs::path& group, const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(group, error))
    if (entry.path().extension() == ".cases") names.push_back(prefix + entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<std::string> suite_names() {
  const fs::path group = fs::path(suites_directory()) / kMainGroup;
  auto names = names_in(group, "");
  if (names.empty())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("no case files in '{}' (ASSAY_SUITES names the directory above it)", group.string()));
  return names;
}

std::vector<std::string> further_suite_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(suites_directory(), error)) {
    const std::string group = entry.path().filename().string();
    if (!entry.is_directory(error) || group == kMainGroup) continue;
    for (auto& name : names_in(entry.path(), group + "/")) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::string suite_file(const std::string& name) {
  const fs::path suites = suites_directory();
  std::error_code error;  // a name that is too long is none
  for (const auto& path : {suites / kMainGroup / (name + ".cases"), suites / (name + ".cases")})
    if (fs::exists(path, error)) return path.string();
  return "";
}

std::string suite_purpose(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line.starts_with("# ") ? line.substr(2) : "";
}

namespace {

bool begins_with_op(const std::string& word) {
  const auto first = word.find_first_not_of(" \t");
  return first != std::string::npos &&
         find_op(std::string_view(word).substr(first, word.find_first_of(" \t", first) - first)) != nullptr;
}

[[noreturn]] void refuse_word(const std::string& word, const std::vector<std::string>& words) {
  if (word.find('=') != std::string::npos)
    throw InputError(
        InputErrorKind::unknown_name,
        fmt::format("'{}' is a part of a case, and a case is one word of the command line: quote it, as in "
                    "'{}'",
                    excerpt(word), excerpt(fmt::format("{}", fmt::join(words, " ")))));
  const auto called_so = [&](const BackendInfo& b) { return b.name == word; };
  if (word.ends_with(".py") || word.ends_with(".so") || std::ranges::any_of(known_backends(), called_so))
    throw InputError(
        InputErrorKind::unknown_name,
        fmt::format("'{0}' stands where a case or a suite does, and is a backend: -b {1}{0}; "
                    "several in one word: -b cpu,{1}{0}",
                    excerpt(word),
                    word.find('/') == std::string::npos && word.find('.') != std::string::npos ? "./" : ""));
  std::vector<std::string> names = names_in(fs::path(suites_directory()) / kMainGroup, "");
  for (auto& name : further_suite_names()) names.push_back(std::move(name));
  for (const std::string& op : op_names())
    if (std::ranges::find(names, op) == names.end()) names.push_back(op);
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("no suite '{0}', nor an op that is called so; {1}; a case file is named "
                               "PATH.cases, or PATH.safetensors with its data",
                               excerpt(word), suggest(word, names)));
}

}  // namespace

std::vector<SuiteLine> gather_lines(const std::vector<std::string>& words, bool bare_files) {
  std::vector<SuiteLine> lines;
  const auto add = [&](const std::string& path) {
    for (auto& line : read_suite(path)) lines.push_back(std::move(line));
  };
  if (words.empty())
    for (const auto& name : suite_names()) add(suite_file(name));
  std::error_code error;
  for (const auto& word : words) {
    const bool blank = word.find_first_of(" \t\n") != std::string::npos;
    // A path may have blanks, and a line may end in a plug-in of this name: then the file decides.
    if (word.ends_with(".cases") && (!begins_with_op(word) || fs::exists(word, error))) {
      add(word);
    } else if (is_case_file(word) && (!begins_with_op(word) || fs::exists(word, error))) {
      lines.push_back({case_file_line(word, bare_files), word});
    } else if (const std::string file = blank ? "" : suite_file(word); !file.empty()) {
      add(file);
    } else if (blank || begins_with_op(word)) {
      lines.push_back({word, "case"});
    } else {
      refuse_word(word, words);
    }
  }
  return lines;
}

std::vector<Expectation> expectations() {
  const fs::path path = fs::path(suites_directory()) / "expected.list";
  std::error_code error;
  return fs::exists(path, error) ? read_expectations(path.string()) : std::vector<Expectation>{};
}

}  // namespace assay
