#include "harness/studies.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "harness/backends.hpp"
#include "harness/json_list.hpp"
#include "harness/suite_text.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace fs = std::filesystem;

std::vector<Study> parse_study_list(std::string_view text, const std::string& where,
                                    const std::string& directory) {
  std::vector<Study> studies;
  for (const JsonRow& row : parse_json_list(text, where)) {
    const std::string name = row.text("name");
    // A subcommand, and part of the name of a program.
    if (name.empty() || name.front() == '-' ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") != std::string::npos)
      row.refuse(fmt::format("'name' is '{}'; allowed: small letters, digits, _ and -", excerpt(name)));
    for (const Study& earlier : studies)
      if (earlier.name == name) row.refuse(fmt::format("'name' is '{}' again", name));
    std::string why = row.text("not_built");
    if (!why.empty()) why += "; to get it: " + row.text("install");
    studies.push_back({name, row.text("what"), directory + "/assay-" + name, why});
  }
  return studies;
}

std::vector<Study> known_studies() {
  const fs::path here = program_directory();
  for (const auto& directory : {here / "backends", here.parent_path() / "lib" / "assay" / "backends"}) {
    const std::string file = (directory / "studies.json").string();
    std::error_code error;
    if (fs::exists(file, error))
      return parse_study_list(read_text(file, "list of studies"), file, here.string());
  }
  return {};
}

void become_study(const Study& study, char** arguments) {
  if (!study.not_built.empty())
    throw std::runtime_error(fmt::format("the study '{}' was not built: {}", study.name, study.not_built));
  std::vector<char*> command{const_cast<char*>(study.program.c_str())};
  while (*arguments != nullptr) command.push_back(*arguments++);
  command.push_back(nullptr);
  execv(study.program.c_str(), command.data());
  if (errno == ENOENT)
    throw std::runtime_error(
        fmt::format("the study '{0}' was not built: cmake --build {1} --target assay-{0}", study.name,
                    program_directory()));
  throw std::runtime_error(fmt::format("{}: {}", study.program, std::strerror(errno)));
}

}  // namespace assay
