#include "reports/page_text.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "reports/page.hpp"  // the texts in reports/page

namespace assay {

const std::string_view kRunScript = page::kRun, kHistoryScript = page::kHistory,
                       kCompareScript = page::kCompare, kCascadeScript = page::kCascade,
                       kMutantsScript = page::kMutants;

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "processor unknown";
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  return model + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
}

// The script first, for the data may hold anything; and no text of a plug-in's ends the script element.
std::string drawn_page(std::string_view script, const nlohmann::ordered_json& data) {
  constexpr std::string_view kData = "/*DATA*/null", kScript = "/*SCRIPT*/";
  const std::string_view page = page::kTemplate;
  const auto at = page.find(kData), end = page.find(kScript);
  std::string text(page.substr(0, at));
  for (const char c : data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace))
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  text += page.substr(at + kData.size(), end - at - kData.size());
  text += script;
  text += page.substr(end + kScript.size());
  return text;
}

}  // namespace assay
