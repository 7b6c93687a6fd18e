#include "reports/reporter.hpp"

namespace assay {
namespace {

constexpr ReportKind kReports[] = {
    {"--json", "Write the results as JSON to this file", json_reporter},
    {"--junit", "Write JUnit XML to this file", junit_reporter},
    {"--html",
     "Write the run to this file as one page that needs nothing else: the matrix as a heat map, findings by "
     "cause, each case",
     html_reporter},
    {"--md", "Write the matrix and the findings as Markdown to this file, for an issue or a job's summary",
     markdown_reporter},
    {"--write-expected", "Write the findings to this file as a list for --expected", expected_reporter},
};

}  // namespace

std::span<const ReportKind> report_kinds() { return kReports; }

}  // namespace assay
