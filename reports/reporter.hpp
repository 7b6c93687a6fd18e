// A report listens to a run: begin, found() as soon as a case is judged, one result after another in the
// plan's order, end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/result.hpp"

namespace assay {

struct RunHeader {
  std::string command;                          // that repeats the run
  std::string commit;                           // of assay itself, "" where the build did not know it
  std::map<std::string, std::string> backends;  // "cpu" -> "our own kernels, AVX3"
  std::size_t cases = 0;
  int jobs = 1;
  int shard = 0, shards = 1;
  std::map<std::string, std::size_t> elsewhere = {};  // Plan::elsewhere
  std::map<std::string, double> weights = {};         // of all cases of an op together: weight_of()
};

class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void begin(const RunHeader&) {}
  virtual void found(const CaseResult&) {}
  virtual void result(const CaseResult& r) = 0;
  virtual void end(const Summary&) {}
};

// How much the console says. quiet: findings and the summary only. verbose: the matrix by formats in place of
// families of formats, each known finding by its case line, and where the time went.
struct ConsoleDetail {
  bool quiet = false, verbose = false;
};

// Progress (a bar on a terminal, a plain line every few seconds otherwise), each finding as it comes, the
// matrix ops x families of formats x backends, and a summary.
std::unique_ptr<Reporter> console_reporter(ConsoleDetail detail);
// Written whole at the end, as ReportFile says. They throw InputError when the path cannot be written, at
// construction, and std::runtime_error from end() when the file cannot be completed.
std::unique_ptr<Reporter> junit_reporter(const std::string& path);  // reports/junit.xsd
std::unique_ptr<Reporter> json_reporter(const std::string& path);  // reports/assay-run.schema.json, schema.md
std::unique_ptr<Reporter> html_reporter(const std::string& path);  // reports/page
std::unique_ptr<Reporter> markdown_reporter(const std::string& path);
std::unique_ptr<Reporter> expected_reporter(const std::string& path);  // harness/expectations.hpp

// The reports that a run writes to files, each by an option of `assay run`: the rows stand in reports.cpp.
// The record of a run that names none stands beside the first that is asked for.
struct ReportKind {
  std::string_view option, help;
  std::unique_ptr<Reporter> (*make)(const std::string& path);
};
std::span<const ReportKind> report_kinds();

}  // namespace assay
