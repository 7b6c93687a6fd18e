// The program as its tests start it: its exit code, and what it printed.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "harness/testing/command.hpp"
#include "reference/fingerprint.hpp"

namespace program_testing {

using ::assay::Outcome;

inline Outcome assay(const std::string& arguments) {
  return ::assay::run_command(ASSAY_PROGRAM " " + arguments);
}

// Of this process alone: ctest runs several of these tests at once.
inline std::string report_file(const std::string& ending) {
  return testing::TempDir() + "assay_cli_test_" + std::to_string(getpid()) + "." + ending;
}

// A folder of this process's own, removed with its owner.
class Scratch {
 public:
  Scratch() { std::filesystem::create_directories(path_); }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      list.push_back(entry.path().filename().string());
    std::sort(list.begin(), list.end());
    return list;
  }

 private:
  std::filesystem::path path_ = report_file("scratch");
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}
inline nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(text_of(path)); }

// A report without what differs from run to run: times, jobs, the command.
inline nlohmann::json timeless(nlohmann::json report) {
  const auto strip = [](nlohmann::json& object) {
    std::vector<std::string> times;
    for (const auto& [key, value] : object.items())
      if (key.ends_with("_seconds")) times.push_back(key);
    for (const auto& key : times) object.erase(key);
  };
  for (nlohmann::json& row : report["results"]) {
    strip(row);
    if (!row.contains("witness")) continue;
    // As times: what a kernel takes once for all of a process, it takes in the call that comes first.
    row["witness"].erase("allocated_bytes");
    row["witness"].erase("peak_bytes");
  }
  strip(report["summary"]);
  report.erase("jobs");
  report.erase("command");
  return report;
}

inline const std::string kFaulty = "-b " FAULTY_SOFTMAX;

// A record's text with the fingerprints that its lines should have: by somebody who knows how they are made.
inline std::string linked(const std::string& record) {
  std::string text, chain;
  std::istringstream lines(record);
  for (std::string line; std::getline(lines, line);) {
    line.resize(line.rfind(",\"chain\":\""));
    chain = ::assay::Fingerprint().add(chain).add(line).hex();
    text += line + ",\"chain\":\"" + chain + "\"}\n";
  }
  return text;
}

}  // namespace program_testing
