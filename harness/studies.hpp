// Studies are programs of their own beside `assay`, each a subcommand of it: the build writes their list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct Study {
  std::string name;       // "museum"
  std::string what;       // one line: what it shows
  std::string program;    // absolute path of assay-<name>, whether it was built or not
  std::string not_built;  // why it cannot be built as configured, and what to do; empty when it can
};

// The programs are looked for in `directory`. Throws InputError that names the row for one that lacks
// something, has another type, or a name that is no subcommand's.
std::vector<Study> parse_study_list(std::string_view text, const std::string& where,
                                    const std::string& directory);
// Reads studies.json beside backends.json; empty where there is none.
std::vector<Study> known_studies();
// Becomes the program of the study, with `arguments` after its name. Returns only when it cannot be started:
// throws std::runtime_error that says how to build it.
[[noreturn]] void become_study(const Study& study, char** arguments);

}  // namespace assay
