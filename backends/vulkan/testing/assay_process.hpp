// Runs the assay program in an environment of its own and reads its JSON report.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "harness/testing/command.hpp"

namespace assay_vulkan_test {

struct Result {
  int exit_code = -1;
  std::string output;
  nlohmann::json report;  // null when nothing was executed
  // Verdicts of the cases, by the case's line.
  std::map<std::string, std::string> verdicts() const {
    std::map<std::string, std::string> all;
    if (report.is_null()) return all;
    for (const auto& row : report["results"]) all[row["case"]] = row["verdict"];
    return all;
  }
};

inline std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// environment: "NAME=value NAME=value"
inline Result assay(const std::string& arguments, const std::string& environment = "") {
  static int runs = 0;
  const std::string json =
      testing::TempDir() + "vulkan_" + std::to_string(getpid()) + "_" + std::to_string(++runs) + ".json";
  std::remove(json.c_str());
  const std::string command =
      "env " + environment + " " ASSAY_PROGRAM " run " + arguments + " -j1 --timeout 60 --json " + json;
  const ::assay::Outcome outcome = ::assay::run_command(command);
  Result result{outcome.code, outcome.text, nullptr};
  const std::string text = slurp(json);
  if (!text.empty()) result.report = nlohmann::json::parse(text);
  std::remove(json.c_str());
  return result;
}

// A machine without a Vulkan driver has nothing to test here.
inline bool driver_is_there(std::string& why) {
  const Result probe = assay("'rmsnorm rows=1 cols=8' -b vulkan -q");
  why = probe.output;
  return probe.exit_code != 125;
}
#define ASSAY_NEEDS_A_DRIVER() \
  if (std::string why; !assay_vulkan_test::driver_is_there(why)) GTEST_SKIP() << why

}  // namespace assay_vulkan_test
