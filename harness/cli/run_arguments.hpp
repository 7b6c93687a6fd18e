// What `assay run` is asked, from its command line or from the record that it takes up again.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/command.hpp"
#include "harness/plan.hpp"
#include "reports/record.hpp"
#include "reports/reporter.hpp"

namespace assay {

struct RunArguments {
  std::vector<std::string> words;
  PlanOptions plan;
  int jobs = 1;
  double timeout_seconds = 10;
  double memory_gib = 0;  // 0: what is there
  int repeats = 0;
  double budget_seconds = 0;  // by the clock, until no further case is begun; 0: none
  std::size_t most_made = 0;  // cases of a suite that is made for a backend; a record keeps it
  bool isolate = false;
  bool strict = false;
  bool list_only = false;   // say which cases these are, and run none
  bool cost = false;        // with list_only: what each will take
  bool first_only = false;  // begin no case after the first finding
  std::string sandbox;      // the scratch folder; "" for none
  std::string shard, record, resume, chain;
  std::string failed_first;           // the report whose findings are begun first
  std::vector<std::string> expected;  // lists of known findings, beside the project's own
  std::vector<std::string> reports;   // the file of each of report_kinds(), "" for none
  ConsoleDetail detail;

  // The command that repeats the run, for a POSIX shell.
  std::string command() const;
  // For the record: all that decides the results.
  RecordHeader header(const Plan& made) const;
};

// Adds the options; they are filled in when the command line is parsed.
void add_run_options(const Command& command, RunArguments& arguments);
// What no single option shows: empty values, a malformed --shard, --resume beside cases. Throws InputError.
void complete(RunArguments& arguments, const Command& command);
// Takes cases, filter, seed, shard and how to run from the record.
void take_from(const RecordHeader& header, RunArguments& arguments);

}  // namespace assay
