// Tests that ask something of a worker notice when there is none: each program is run once more with a worker
// that cannot be started, and every one of its tests must fail. One that passes or is skipped would pass
// whatever the worker does.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/testing/command.hpp"

namespace assay {
namespace {

struct Tests {
  std::size_t run = 0;
  std::vector<std::string> not_failed;
};

Tests run_tests(const std::string& program, const std::string& filter, const std::string& environment) {
  const std::string path = testing::TempDir() + "assay_workerless_" + std::to_string(getpid()) + ".json";
  const Outcome o =
      run_command(environment + " " + program + " --gtest_filter=" + filter + " --gtest_output=json:" + path);
  Tests tests;
  std::ifstream file(path);
  if (!file) {
    ADD_FAILURE() << o.text;
    return tests;
  }
  const auto report = nlohmann::json::parse(file);
  for (const auto& suite : report["testsuites"])
    for (const auto& test : suite["testsuite"]) {
      ++tests.run;
      if (!test.contains("failures"))
        tests.not_failed.push_back(std::string(suite["name"]) + "." + std::string(test["name"]));
    }
  std::remove(path.c_str());
  return tests;
}

void expect_that_all_need_a_worker(const std::string& program, const std::string& filter, std::size_t tests) {
  const Tests without = run_tests(program, filter, "ASSAY_WORKER=/no/such/worker");
  EXPECT_GE(without.run, tests);
  for (const auto& name : without.not_failed) ADD_FAILURE() << name << " does not notice that no worker runs";
}

TEST(WithoutAWorker, every_test_of_the_witness_fails) {
  expect_that_all_need_a_worker(WITNESS_TEST_PROGRAM, "'*'", 6);
}

TEST(WithoutAWorker, every_test_of_kernels_in_a_worker_fails) {
  expect_that_all_need_a_worker(WORKER_TEST_PROGRAM, WORKER_TESTS, 30);
}

// The same count with the worker in place: that a test did not fail is seen.
TEST(WithAWorker, the_same_tests_do_not_fail) {
  const Tests with = run_tests(WITNESS_TEST_PROGRAM, "'WitnessInTheWorker.*'", "");
  EXPECT_EQ(with.run, 5U);
  EXPECT_EQ(with.not_failed.size(), with.run);
}

}  // namespace
}  // namespace assay
