// Pages that need nothing else: the template of reports/page, one of its scripts, and what it draws as
// embedded JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace assay {

extern const std::string_view kRunScript, kHistoryScript, kCompareScript, kCascadeScript,
    kMutantsScript;  // reports/page/<name>.js

// "AMD EPYC 9R14, 2 cores": the model that /proc/cpuinfo names, and the cores that a program may use.
std::string machine();

std::string drawn_page(std::string_view script, const nlohmann::ordered_json& data);

}  // namespace assay
