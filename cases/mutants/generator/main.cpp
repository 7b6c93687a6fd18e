// mutate OUT_DIR ROOT SKIP,SKIP... FILE...: writes OUT_DIR/FILE for each FILE of ROOT with all of its mutants
// in it, and OUT_DIR/mutants.json, which says of each what it is.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cases/mutants/generator/sites.hpp"

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string trimmed(const std::string& line) {
  const auto b = line.find_first_not_of(" \t"), e = line.find_last_not_of(" \t");
  return b == std::string::npos ? "" : line.substr(b, e - b + 1);
}

int run(const std::vector<std::string>& words) {
  using namespace assay::mutants;
  if (words.size() < 4) {
    std::cerr << "mutate OUT_DIR ROOT SKIPPED,FUNCTIONS FILE...\n";
    return 2;
  }
  const fs::path out = words[0], root = words[1];
  Rules rules;
  std::istringstream skipped(words[2]);
  for (std::string name; std::getline(skipped, name, ',');) rules.skipped_functions.push_back(name);
  nlohmann::json list = nlohmann::json::array();
  int next_id = 1;
  for (std::size_t f = 3; f < words.size(); ++f) {
    const Source source(words[f], read(root / words[f]));
    auto regions = find_regions(source, rules);
    const std::string text = schemata(source, regions, next_id);
    write(out / words[f], "#include \"cases/mutants/state.hpp\"\n#line 1 \"" + words[f] + "\"\n" + text);
    for (const auto& r : regions)
      for (const auto& m : r.mutants)
        list.push_back({{"id", m.id},
                        {"file", words[f]},
                        {"line", m.line},
                        {"class", m.kind},
                        {"before", m.before},
                        {"after", m.after},
                        {"text", trimmed(source.lines[static_cast<std::size_t>(m.line - 1)])}});
  }
  write(out / "mutants.json", list.dump(1) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::cerr << "mutate: " << error.what() << "\n";
  return 1;
}
