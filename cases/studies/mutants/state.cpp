// The state of one process, set from the environment before any other object of the library is initialised.
#include "cases/studies/mutants/state.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace assay_mutants {

constinit State state;

namespace {

std::vector<bool>& seen() {
  static auto* ids = new std::vector<bool>;  // outlives every other object
  return *ids;
}

[[gnu::constructor(101)]] void choose() {
  const char* id = std::getenv("ASSAY_MUTANT");
  if (id == nullptr) return;
  state.recording = std::string(id) == "record";  // tables made before the first call count as well
  if (!state.recording) state.chosen = std::atoi(id);
}

// A program of tests leaves what it came by in the file that it is told.
[[gnu::destructor]] void leave() {
  const char* file = std::getenv("ASSAY_MUTANTS_SEEN");
  if (file == nullptr || *file == '\0' || !state.recording) return;
  std::FILE* out = std::fopen(file, "w");
  if (out == nullptr) return;
  for (std::size_t i = 0; i < seen().size(); ++i)
    if (seen()[i]) std::fprintf(out, "%zu-%zu\n", i, i);
  std::fclose(out);
}

}  // namespace

void came_by(int first, int count) {
  auto& ids = seen();
  if (ids.size() <= static_cast<std::size_t>(first + count))
    ids.resize(static_cast<std::size_t>(first + count + 1));
  for (int i = first; i < first + count; ++i) ids[static_cast<std::size_t>(i)] = true;
}

}  // namespace assay_mutants

// The shim's way in: plain C, since it loads this library by name.
extern "C" __attribute__((visibility("default"))) void assay_mutants_set(int chosen, int recording) {
  assay_mutants::state = {chosen, recording != 0};
}
// "3-7 12": the mutants that this process came by so far: a table is made in the first run alone.
extern "C" __attribute__((visibility("default"))) const char* assay_mutants_seen() {
  static std::string text;
  auto& ids = assay_mutants::seen();
  text.clear();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!ids[i]) continue;
    std::size_t last = i;
    while (last + 1 < ids.size() && ids[last + 1]) ++last;
    text += (text.empty() ? "" : " ") + std::to_string(i) + "-" + std::to_string(last);
    i = last;
  }
  return text.c_str();
}
