// studies.json: a study that was accepted is a subcommand, and the program of it stands in the directory that
// was given.
#include <set>

#include "harness/fuzz/fuzz.hpp"
#include "harness/studies.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  std::vector<Study> studies;
  if (!fuzz::accepted("here",
                      [&] { studies = parse_study_list(fuzz::text_of(data, size), "here", "/there"); }))
    return 0;
  std::set<std::string> names;
  for (const Study& s : studies) {
    require(!s.name.empty() && s.name.front() != '-', "a study is a word of the command line", s.name);
    require(names.insert(s.name).second, "a name stands for one study", s.name);
    require(s.program == "/there/assay-" + s.name && s.program.rfind('/') == 6, "its program is ours",
            s.program);
  }
  return 0;
}
