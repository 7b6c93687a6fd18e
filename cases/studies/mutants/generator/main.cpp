// mutate OUT_DIR ROOT MOST SKIP,SKIP... FILE...: writes OUT_DIR/FILE for each FILE of ROOT with all of its
// mutants in it, and OUT_DIR/mutants.json, which says of each what it is. Of a generic class no more than
// MOST are kept. 0: all of them, but values are neither narrowed nor rounded. "others": all of them, and
// values narrowed to other widths.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cases/studies/mutants/generator/sites.hpp"

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
  if (words.size() < 5) {
    std::cerr << "mutate OUT_DIR ROOT MOST SKIPPED,FUNCTIONS FILE...\n";
    return 2;
  }
  const fs::path out = words[0], root = words[1];
  Rules rules;
  rules.other_widths = words[2] == "others";
  const std::size_t most = rules.other_widths ? 0 : std::stoul(words[2]);
  rules.values = rules.other_widths || most > 0;
  std::istringstream skipped(words[3]);
  for (std::string name; std::getline(skipped, name, ',');) rules.skipped_functions.push_back(name);
  const std::vector<std::string> files(words.begin() + 4, words.end());
  std::vector<Source> sources;
  for (const auto& file : files) sources.emplace_back(file, read(root / file));
  // Functions and what headers declare are known everywhere, other names in their own file.
  FloatNames shared;
  for (const auto& source : sources) {
    FloatNames names;
    names.collect(source);
    if (!source.file.ends_with(".hpp")) names.scalars.clear(), names.arrays.clear();
    shared.add(names);
  }
  std::vector<std::vector<Region>> regions;
  for (const auto& source : sources) {
    rules.floats = shared;
    rules.floats.collect(source);
    regions.push_back(find_regions(source, rules));
  }
  if (most > 0) thin(regions, most);
  nlohmann::json list = nlohmann::json::array();
  int next_id = 1;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string text = schemata(sources[f], regions[f], next_id);
    write(out / files[f],
          "#include \"cases/studies/mutants/state.hpp\"\n#line 1 \"" + files[f] + "\"\n" + text);
    for (const auto& r : regions[f])
      for (const auto& m : r.mutants)
        list.push_back({{"id", m.id},
                        {"file", files[f]},
                        {"line", m.line},
                        {"class", m.kind},
                        {"before", m.before},
                        {"after", m.after},
                        {"text", trimmed(sources[f].lines[static_cast<std::size_t>(m.line - 1)])}});
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
