#include "harness/cli/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "harness/backends.hpp"
#include "harness/near_names.hpp"

namespace assay {
namespace fs = std::filesystem;

std::string suites_directory() {
  if (const char* given = std::getenv("ASSAY_SUITES")) return given;
  const fs::path installed = fs::path(program_directory()).parent_path() / "share" / "assay" / "suites";
  if (fs::exists(installed)) return installed.string();
  return ASSAY_SOURCE_SUITES;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(suites_directory(), error))
    if (entry.path().extension() == ".cases") names.push_back(entry.path().stem().string());
  if (error || names.empty())
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("no case files in '{}' (set ASSAY_SUITES to their directory)", suites_directory()));
  std::ranges::sort(names);
  return names;
}

std::vector<SuiteLine> gather_lines(const std::vector<std::string>& words) {
  const fs::path suites = suites_directory();
  std::vector<SuiteLine> lines;
  const auto add = [&](const std::string& path) {
    for (auto& line : read_suite(path)) lines.push_back(std::move(line));
  };
  if (words.empty())
    for (const auto& name : suite_names()) add((suites / (name + ".cases")).string());
  for (const auto& word : words) {
    if (word.ends_with(".cases")) {
      add(word);
    } else if (word.find(' ') == std::string::npos && fs::exists(suites / (word + ".cases"))) {
      add((suites / (word + ".cases")).string());
    } else {
      lines.push_back({word, "case"});
    }
  }
  return lines;
}

std::vector<Expectation> expectations() {
  const fs::path path = fs::path(suites_directory()) / "expected.list";
  return fs::exists(path) ? read_expectations(path.string()) : std::vector<Expectation>{};
}

}  // namespace assay
