#include "harness/backends.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "harness/backend_names.hpp"
#include "harness/json_list.hpp"
#include "harness/suite_text.hpp"
#include "harness/worker/bounded.hpp"
#include "reference/error.hpp"
#include "reference/near_names.hpp"
#include "reference/ordinary_file.hpp"

namespace assay {
namespace fs = std::filesystem;

std::string program_directory() { return fs::read_symlink("/proc/self/exe").parent_path().string(); }

namespace {

// A path in the list is relative to the list.
std::string beside(const fs::path& directory, const std::string& path) {
  return path.empty() ? path : (directory / path).lexically_normal().string();
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What the rows say, held against the files that are there.
std::vector<BackendInfo> located(std::vector<BackendRow> rows, const fs::path& directory) {
  std::vector<BackendInfo> known;
  for (BackendRow& row : rows) {
    BackendInfo b = std::move(row.info);
    if (b.not_built.empty()) {
      b.file = beside(directory, b.file);
      if (!row.worker.empty()) b.worker = {row.interpreter, beside(directory, row.worker)};
      const std::string witness = beside(directory, b.witness);
      b.witness = is_there(witness) ? witness : "";  // it may not have been built
      if (!is_there(b.file)) {
        b.awaited = true;
        b.not_built = fmt::format("there is no {}", b.file);
        b.install = fmt::format("cmake --build {} --target assay_backend_{}", program_directory(), b.name);
        b.file = b.witness = "";
        b.worker = {};
      }
    } else {
      b.file = b.witness = "";
    }
    known.push_back(std::move(b));
  }
  return known;
}

// The plug-in in plain C: others that are named by their path are watched as it is.
constexpr std::string_view kSmallest = "example";

// The backend whose worker loads files of this kind; nullptr for those of assay-worker.
const BackendInfo* loader_of(const fs::path& plugin, const std::vector<BackendInfo>& known) {
  for (const auto& b : known)
    if (!b.worker.empty() && fs::path(b.file).extension() == plugin.extension()) return &b;
  return nullptr;
}

}  // namespace

std::vector<BackendRow> parse_backend_list(std::string_view text, const std::string& where) {
  std::vector<BackendRow> list;
  for (const JsonRow& json : parse_json_list(text, where)) {
    BackendRow row;
    BackendInfo& b = row.info;
    b.name = json.text("name");
    // It must be possible to name it in a case, and a path has a '/'.
    if (b.name.empty() || escaped_path(b.name) != b.name || b.name.find('/') != std::string::npos)
      json.refuse(fmt::format("'name' is '{}'; allowed: letters, digits, _ and -", excerpt(b.name)));
    for (const BackendRow& earlier : list)
      if (earlier.info.name == b.name) json.refuse(fmt::format("'name' is '{}' again", b.name));
    b.not_built = json.text("not_built");
    b.install = json.text("install");
    b.alignment = static_cast<std::size_t>(json.integer("alignment", 0, kMostAlignment));
    b.is_default = json.flag("default");
    b.is_stranger = json.flag("stranger");
    if (b.not_built.empty()) {
      b.file = json.text("file");
      if (b.file.empty()) json.refuse("'file' is empty though the backend was built");
      b.witness = json.optional_text("witness");
      row.worker = json.optional_text("worker");
      if (!row.worker.empty()) row.interpreter = json.text("interpreter");
    }
    list.push_back(std::move(row));
  }
  return list;
}

std::vector<BackendInfo> known_backends() {
  std::vector<fs::path> candidates;
  if (const char* given = std::getenv("ASSAY_BACKENDS")) candidates.emplace_back(given);
  const fs::path here = program_directory();
  candidates.push_back(here / "backends");
  candidates.push_back(here.parent_path() / "lib" / "assay" / "backends");
  for (const auto& directory : candidates) {
    const std::string file = (directory / "backends.json").string();
    if (is_there(file))
      return located(parse_backend_list(read_text(file, "list of backends"), file), directory);
  }
  throw InputError(
      InputErrorKind::bad_value,
      fmt::format("no backends.json in {} (set ASSAY_BACKENDS to its directory)", candidates[0].string()));
}

BackendChoice choose_backend(std::string_view name, const std::vector<BackendInfo>& known) {
  BackendChoice choice;
  const auto [base, options] = parse_backend(name, "backend");
  choice.options = options;
  if (base.find('/') != std::string::npos) {  // a plug-in by its path
    std::error_code error;
    choice.info.name = base;
    choice.info.file = fs::absolute(base, error).string();
    if (error || !is_there(choice.info.file))
      throw InputError(
          InputErrorKind::unknown_name,
          fmt::format("no plug-in file '{}' (in a case, %3A is a colon of the path itself)", excerpt(base)));
    if (const std::string_view why = why_no_file(choice.info.file); !why.empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("backend '{}': {}; allowed: a plug-in (.so), or a file of Python (.py)",
                                   excerpt(base), why));
    if (const BackendInfo* loader = loader_of(choice.info.file, known)) {
      choice.info.worker = loader->worker;
      choice.info.witness = loader->witness;
    } else if (const auto smallest = std::ranges::find(known, kSmallest, &BackendInfo::name);
               smallest != known.end()) {
      choice.info.witness = smallest->witness;
    }
    if (const char* witness = std::getenv(std::string(kWitnessVariable).c_str()))
      choice.info.witness = witness;
    return choice;
  }
  std::vector<std::string> names;
  for (const auto& b : known) {
    names.push_back(b.name);
    if (b.name != base) continue;
    if (!b.not_built.empty())
      throw InputError(InputErrorKind::bad_value, fmt::format("backend '{}' was not built: {}; to get it: {}",
                                                              b.name, b.not_built, b.install));
    choice.info = b;
    const std::string file = options.substr(0, options.find(','));
    if (file.ends_with(".py") && !is_there(fs::absolute(file)))
      throw InputError(InputErrorKind::unknown_name,
                       fmt::format("backend '{}': no file '{}'", excerpt(base), excerpt(file)));
    if (const std::string_view why = why_no_file(file); file.ends_with(".py") && !why.empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("backend '{}', '{}': {}; allowed: a file of Python", excerpt(base),
                                   excerpt(file), why));
    return choice;
  }
  if (is_there(base))
    throw InputError(InputErrorKind::unknown_name,
                     fmt::format("no backend '{0}'; the file of this folder is named by a path with a '/': "
                                 "-b ./{0}",
                                 excerpt(base)));
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("no backend '{}' (a plug-in file is named by a path with a '/'); {}",
                               excerpt(base), suggest(base, names)));
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
