// A witness in the worker process: what it saw comes with the trace, and one that cannot watch is named.
#include "harness/worker/assay_witness.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

// FAKE_WITNESS reaches the worker through the environment that it inherits. Fails the test when the kernel
// did not run: what an absent worker did not see proves nothing.
RunResult watched_run(const char* witness, const char* fake) {
  setenv("FAKE_WITNESS", fake, 1);
  WorkerOptions options = worker_options("assay_misbehaving.so");
  options.witness = witness;
  Worker worker(options);
  TwiceCall call("correct");
  call.request().second_run = false;
  RunResult result = worker.run(call.request());
  unsetenv("FAKE_WITNESS");
  EXPECT_EQ(result.status, RunStatus::done) << result.reason;
  EXPECT_EQ(result.trace.kernels, (std::vector<std::string>{"prepare", "twice_correct"}));
  return result;
}

std::string absence(const RunResult& result) {
  for (const auto& [key, value] : result.trace.notes)
    if (key == "witness_absent") return value;
  return "";
}

TEST(WitnessInTheWorker, what_it_saw_is_in_the_trace_beside_what_the_backend_says) {
  const RunResult result = watched_run(ASSAY_FAKE_WITNESS, "void twice_correct<float>(int)");
  ASSERT_TRUE(result.trace.witness.has_value());
  EXPECT_EQ(result.trace.witness->by, "fake");
  ASSERT_EQ(result.trace.witness->kernels.size(), 1U);
  EXPECT_EQ(result.trace.witness->kernels[0].name, "void twice_correct<float>(int)");
  EXPECT_EQ(result.trace.witness->kernels[0].ns,
            2);  // once in front of the run, to forget, and once behind it
  EXPECT_EQ(result.trace.witness->peak_bytes, 100);
  EXPECT_EQ(absence(result), "");
}

TEST(WitnessInTheWorker, the_description_says_whether_the_device_is_watched) {
  const auto description = [](const char* witness, const char* fake) {
    setenv("FAKE_WITNESS", fake, 1);
    WorkerOptions options = worker_options("assay_misbehaving.so");
    options.witness = witness;
    const auto opened = Worker(options).open();
    unsetenv("FAKE_WITNESS");
    const auto* refused = std::get_if<reply::Refused>(&opened);
    return refused != nullptr ? refused->reason : std::get<reply::Opened>(opened).description;
  };
  EXPECT_EQ(description("", ""), "breaks one rule per variant, NOT watched");
  EXPECT_EQ(description(ASSAY_FAKE_WITNESS, ""),
            "breaks one rule per variant, watched by assay_fake_witness");
  EXPECT_EQ(description(ASSAY_FAKE_WITNESS, "blind"), "breaks one rule per variant, NOT watched: it is dark");
}

TEST(WitnessInTheWorker, seeing_nothing_is_a_sight_too) {
  const RunResult result = watched_run(ASSAY_FAKE_WITNESS, "");
  ASSERT_TRUE(result.trace.witness.has_value());
  EXPECT_TRUE(result.trace.witness->kernels.empty());
}

TEST(WitnessInTheWorker, one_that_cannot_watch_is_named_and_leaves_no_sight) {
  const RunResult blind = watched_run(ASSAY_FAKE_WITNESS, "blind");
  EXPECT_FALSE(blind.trace.witness.has_value());
  EXPECT_EQ(absence(blind), "it is dark");
  EXPECT_NE(absence(watched_run("/no/such/witness.so", "")), "");
  const std::string plugin = std::string(ASSAY_PLUGIN_DIR) + "/assay_no_entry.so";
  EXPECT_NE(absence(watched_run(plugin.c_str(), "")).find("is no witness"), std::string::npos);
}

TEST(WitnessInTheWorker, without_one_nothing_is_claimed) {
  const RunResult result = watched_run("", "");
  EXPECT_FALSE(result.trace.witness.has_value());
  EXPECT_EQ(absence(result), "");
}

// A routine is seen once in each run, the first time and later; of a name that no routine has nothing is
// claimed.
TEST(CpuWitness, sees_the_routines_that_were_entered) {
#ifdef ASSAY_CPU_WITNESS
  WorkerOptions options = worker_options("assay_misbehaving.so");
  options.witness = ASSAY_CPU_WITNESS;
  Worker worker(options);
  std::vector<std::string> first;
  for (int run = 0; run < 2; ++run) {
    TwiceCall call("correct");
    call.request().second_run = false;
    const RunResult result = worker.run(call.request());
    ASSERT_EQ(result.status, RunStatus::done) << result.reason;
    ASSERT_TRUE(result.trace.witness.has_value()) << absence(result);
    EXPECT_EQ(result.trace.witness->by, "cpu");
    EXPECT_TRUE(result.trace.witness->host);
    std::vector<std::string> seen;
    for (const SeenKernel& kernel : result.trace.witness->kernels) seen.push_back(kernel.name);
    EXPECT_FALSE(seen.empty());
    if (run == 0) first = seen;
    EXPECT_EQ(seen, first);
    EXPECT_EQ(result.trace.witness->unwatched,
              result.trace.kernels);  // words of its own, not names of functions
  }
#else
  watched_run("", "");
  if (HasFailure()) return;
  GTEST_SKIP() << "the witness of the CPU is written for x86-64 and AArch64";
#endif
}

// What has no symbol in the plug-in is seen all the same, and was not seen where another routine did the
// work.
TEST(CpuWitness, sees_what_was_generated_and_what_a_library_beside_it_has) {
#ifdef ASSAY_CPU_WITNESS
  WorkerOptions options = worker_options("assay_generating.so");
  options.witness = ASSAY_CPU_WITNESS;
  Worker worker(options);
  struct Row {
    const char *variant, *announced;
    bool seen, could_be;
  };
  for (const Row& row : {Row{"fast", "generated_fast", true, true},
                         {"slow", "generated_fast", false, true},
                         {"unnamed", "generated_none", false, false},
                         {"late", "generated_late", false, false},  // made in the middle of the run
                         {"brought", "brought_factor", true, true},
                         {"other", "brought_factor", false, true},
                         {"fast", "generated_fast", true, true},
                         {"freed", "generated_fast", true, false},
                         {"data", "generated_fast", false, false}}) {
    TwiceCall call(row.variant);
    call.request().second_run = false;
    const RunResult result = worker.run(call.request());
    ASSERT_EQ(result.status, RunStatus::done) << row.variant << ": " << result.reason;
    ASSERT_TRUE(result.trace.witness.has_value()) << absence(result);
    const auto& kernels = result.trace.witness->kernels;
    const bool seen =
        std::ranges::any_of(kernels, [&](const SeenKernel& k) { return k.name == row.announced; });
    EXPECT_EQ(seen, row.seen) << row.variant;
    EXPECT_EQ(result.trace.witness->unwatched.empty(), row.could_be) << row.variant;
  }
#else
  watched_run("", "");
  if (HasFailure()) return;
  GTEST_SKIP() << "the witness of the CPU is written for x86-64 and AArch64";
#endif
}

// Where CUPTI finds no device it says so; where it does, a process that launches nothing is seen to launch
// nothing.
TEST(CuptiWitness, watches_or_says_why_not) {
#ifdef ASSAY_CUPTI_WITNESS
  const RunResult result = watched_run(ASSAY_CUPTI_WITNESS, "");
  if (HasFailure()) return;
  if (!result.trace.witness) {
    EXPECT_NE(absence(result), "");
    GTEST_SKIP() << "no NVIDIA device to watch: " << absence(result);
  }
  EXPECT_EQ(result.trace.witness->by.substr(0, 5), "cupti");
  EXPECT_TRUE(result.trace.witness->kernels.empty());
  EXPECT_EQ(result.trace.witness->error, "");
#else
  watched_run("", "");
  if (HasFailure()) return;
  GTEST_SKIP() << "built without the CUDA toolkit: no CUPTI";
#endif
}

#ifdef ASSAY_CUPTI_WITNESS
// Named by ASSAY_CUPTI, as Python names the one of its packages; the records are of CUDA 12.
TEST(CuptiWitness, finds_its_library_by_name_and_reads_its_records) {
  setenv("ASSAY_CUPTI", "/no/such/libcupti.so.13:" ASSAY_FAKE_CUPTI, 1);
  const RunResult result = watched_run(ASSAY_CUPTI_WITNESS, "");
  unsetenv("ASSAY_CUPTI");
  ASSERT_TRUE(result.trace.witness.has_value()) << absence(result);
  EXPECT_EQ(result.trace.witness->by, "cupti 26");
  ASSERT_EQ(result.trace.witness->kernels.size(), 1U);
  const SeenKernel& kernel = result.trace.witness->kernels[0];
  EXPECT_EQ(kernel.name, "kernel(float*)");
  EXPECT_EQ(kernel.grid, (std::array<std::int64_t, 3>{2, 3, 4}));
  EXPECT_EQ(kernel.block, (std::array<std::int64_t, 3>{5, 6, 7}));
  EXPECT_EQ(kernel.ns, 250);
  EXPECT_EQ(kernel.stream, 7);
  EXPECT_EQ(result.trace.witness->peak_bytes, 100);
}

TEST(CuptiWitness, one_that_cannot_watch_is_named_with_its_reason) {
  setenv("ASSAY_CUPTI", ASSAY_FAKE_CUPTI, 1);
  setenv("FAKE_CUPTI", "old", 1);
  const RunResult result = watched_run(ASSAY_CUPTI_WITNESS, "");
  unsetenv("ASSAY_CUPTI");
  unsetenv("FAKE_CUPTI");
  if (result.trace.witness.has_value()) GTEST_SKIP() << "another CUPTI watches a device of this machine";
  EXPECT_NE(absence(result).find("assay_fake_cupti.so: CUPTI_ERROR_OLD_DRIVER"), std::string::npos)
      << absence(result);
}
#endif

}  // namespace
}  // namespace assay
