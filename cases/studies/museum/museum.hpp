// Runs the museum: each exhibit and its correct counterpart on the same case, and what the usual rules say of
// the same outputs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cases/studies/museum/exhibits.hpp"
#include "cases/studies/mutants/report.hpp"
#include "harness/judge.hpp"

namespace assay::museum {

struct Shown {
  const Exhibit* exhibit = nullptr;
  CaseResult defect, counterpart;  // of an exhibit with a case
  bool caught = false;             // with the expected verdict
  bool counterpart_passes = false;
  std::size_t outputs = 0;  // of the counterpart, judged
  std::size_t false_alarms = 0;
  // By rule of mutants::rules(): what it says of the outputs; nothing was left to compare when a run ended
  // early.
  struct RuleSays {
    std::string_view rule;
    bool catches = false;      // rejects the defect and accepts the counterpart
    bool false_alarm = false;  // rejects the counterpart
  };
  std::vector<RuleSays> rules;
  bool missed_by_rules() const;
};

// Throws InputError for a line that does not parse, and for a museum plug-in that is not there.
Shown show(const Exhibit& exhibit, Workers& workers);
const Exhibit& find_exhibit(std::string_view name);  // by name or number; throws InputError unknown_name

// A row for each exhibit with a case, and its counterpart among the correct kernels.
void add_exhibits(Workers& workers, KillTable& table);

std::string show_line(const Shown& shown);  // one line
std::string story(const Shown& shown);      // several
std::string table();                        // Markdown, as README.md has it

}  // namespace assay::museum
