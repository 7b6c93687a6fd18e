#include "harness/backends.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/error.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace fs = std::filesystem;

std::string program_directory() { return fs::read_symlink("/proc/self/exe").parent_path().string(); }

namespace {

// A path in the list is relative to the list.
std::string beside(const fs::path& directory, const std::string& path) {
  return path.empty() ? path : (directory / path).lexically_normal().string();
}

std::vector<BackendInfo> read_list(const fs::path& directory, std::istream& file) {
  std::vector<BackendInfo> known;
  for (const auto& row : nlohmann::json::parse(file)) {
    BackendInfo b;
    b.name = row.at("name");
    b.not_built = row.at("not_built");
    b.install = row.at("install");
    b.alignment = row.at("alignment");
    b.is_default = row.at("default");
    if (b.not_built.empty()) {
      b.file = beside(directory, row.at("file"));
      const std::string worker = row.value("worker", "");
      if (!worker.empty()) b.worker = {row.at("interpreter").get<std::string>(), beside(directory, worker)};
      const std::string witness = beside(directory, row.value("witness", ""));
      if (!witness.empty() && fs::exists(witness)) b.witness = witness;  // it may not have been built
      if (!fs::exists(b.file)) {
        b.awaited = true;
        b.not_built = fmt::format("there is no {}", b.file);
        b.install = fmt::format("cmake --build {} --target assay_backend_{}", program_directory(), b.name);
        b.file = b.witness = "";
        b.worker = {};
      }
    }
    known.push_back(std::move(b));
  }
  return known;
}

// The worker of the backend that loads files of this kind; empty for those of assay-worker.
std::vector<std::string> worker_for(const fs::path& plugin, const std::vector<BackendInfo>& known) {
  for (const auto& b : known)
    if (!b.worker.empty() && fs::path(b.file).extension() == plugin.extension()) return b.worker;
  return {};
}

}  // namespace

std::vector<BackendInfo> known_backends() {
  std::vector<fs::path> candidates;
  if (const char* given = std::getenv("ASSAY_BACKENDS")) candidates.emplace_back(given);
  const fs::path here = program_directory();
  candidates.push_back(here / "backends");
  candidates.push_back(here.parent_path() / "lib" / "assay" / "backends");
  for (const auto& directory : candidates) {
    std::ifstream file(directory / "backends.json");
    if (file) return read_list(directory, file);
  }
  throw InputError(
      InputErrorKind::bad_value,
      fmt::format("no backends.json in {} (set ASSAY_BACKENDS to its directory)", candidates[0].string()));
}

BackendChoice choose_backend(std::string_view name, const std::vector<BackendInfo>& known) {
  BackendChoice choice;
  // A plug-in by path; options after a colon that follows the file name. In NAME:OPTIONS a slash is the options' own.
  if (name.substr(0, name.find(':')).find('/') != std::string_view::npos) {
    const auto colon = name.find(':', name.rfind('/'));
    choice.options = colon == std::string_view::npos ? "" : std::string(name.substr(colon + 1));
    choice.info.name = std::string(name.substr(0, colon));
    choice.info.file = fs::absolute(choice.info.name).string();
    if (!fs::exists(choice.info.file))
      throw InputError(InputErrorKind::unknown_name, fmt::format("no plug-in file '{}'", choice.info.file));
    choice.info.worker = worker_for(choice.info.file, known);
    if (const char* witness = std::getenv(std::string(kWitnessVariable).c_str()))
      choice.info.witness = witness;
    return choice;
  }
  const auto colon = name.find(':');
  choice.options = colon == std::string_view::npos ? "" : std::string(name.substr(colon + 1));
  const std::string_view base = name.substr(0, colon);
  std::vector<std::string> names;
  for (const auto& b : known) {
    names.push_back(b.name);
    if (b.name != base) continue;
    if (!b.not_built.empty())
      throw InputError(InputErrorKind::bad_value, fmt::format("backend '{}' was not built: {}; to get it: {}",
                                                              b.name, b.not_built, b.install));
    choice.info = b;
    return choice;
  }
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("no backend '{}' (a plug-in file is named by a path with a '/'); {}", base,
                               suggest(base, names)));
}

WorkerOptions worker_options(const BackendChoice& choice) {
  WorkerOptions options;
  options.command = choice.info.worker;
  options.plugin = choice.info.file;
  options.options = choice.options;
  options.witness = choice.info.witness;
  return options;
}

}  // namespace assay
