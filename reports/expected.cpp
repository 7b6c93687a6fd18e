// The findings of a run as a list of expectations: what a project takes over on the day that it begins to be
// judged.
#include <fmt/format.h>

#include "harness/expectations.hpp"
#include "harness/worker/printable.hpp"
#include "reports/file.hpp"
#include "reports/reporter.hpp"

namespace assay {
namespace {

class ExpectedList : public Reporter {
 public:
  explicit ExpectedList(const std::string& path) : file_(path) {}
  void begin(const RunHeader& header) override {
    file_.stream() << "# Findings of: " << header.command << "\n";
  }
  void result(const CaseResult& r) override {
    if (!r.verdict.green())
      file_.stream() << expectation_line(r.c, r.verdict, "not examined yet: " + printable(r.verdict.summary))
                     << "\n";
  }
  void end(const Summary&) override { file_.finish(); }

 private:
  ReportFile file_;
};

}  // namespace

std::unique_ptr<Reporter> expected_reporter(const std::string& path) {
  return std::make_unique<ExpectedList>(path);
}

}  // namespace assay
