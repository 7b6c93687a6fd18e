// What `assay laws` found, as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "harness/laws.hpp"

namespace assay {

// law, op, backend and what it came to, with the formats that share it. Markdown, which reads as text too.
std::string law_table(const std::vector<LawResult>& results);
// One broken promise, or one fact, in several lines; and its parts: what the law says and came to, the two
// calls and where they part, the command that repeats it.
std::string describe(const LawResult& result);
std::string law_summary(const LawResult& result);
std::string law_evidence(const LawResult& result);
std::string law_command(const LawResult& result);
// Schema "assay-laws" version 1: reports/schema.md.
std::string law_json(const std::string& command, const std::string& commit,
                     const std::vector<LawResult>& results);

}  // namespace assay
