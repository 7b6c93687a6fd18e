// The program as its tests start it: its exit code, and what it printed.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "harness/testing/command.hpp"

namespace program_testing {

using ::assay::Outcome;

inline Outcome assay(const std::string& arguments) {
  return ::assay::run_command(ASSAY_PROGRAM " " + arguments);
}

// Of this process alone: ctest runs several of these tests at once.
inline std::string report_file(const std::string& ending) {
  return testing::TempDir() + "assay_cli_test_" + std::to_string(getpid()) + "." + ending;
}

inline const std::string kFaulty = "-b " FAULTY_SOFTMAX;

}  // namespace program_testing
