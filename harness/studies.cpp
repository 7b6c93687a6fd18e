#include "harness/studies.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/backends.hpp"

namespace assay {
namespace fs = std::filesystem;

std::vector<Study> known_studies() {
  std::vector<Study> studies;
  const fs::path here = program_directory();
  for (const auto& directory : {here / "backends", here.parent_path() / "lib" / "assay" / "backends"}) {
    std::ifstream file(directory / "studies.json");
    if (!file) continue;
    for (const auto& row : nlohmann::json::parse(file)) {
      const auto name = row.at("name").get<std::string>();
      auto why = row.at("not_built").get<std::string>();
      if (!why.empty()) why += "; to get it: " + row.at("install").get<std::string>();
      studies.push_back({name, row.at("what").get<std::string>(), (here / ("assay-" + name)).string(), why});
    }
    break;
  }
  return studies;
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
