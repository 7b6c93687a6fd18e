#include "reports/reporter.hpp"

namespace assay {
namespace {

constexpr ReportKind kReports[] = {
    {"--json", "Write the results as JSON to this file", json_reporter},
    {"--junit", "Write JUnit XML to this file", junit_reporter},
};

}  // namespace

std::span<const ReportKind> report_kinds() { return kReports; }

}  // namespace assay
