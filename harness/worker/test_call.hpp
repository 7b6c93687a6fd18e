// What the tests of the worker share: its plug-ins, and a fixture.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "harness/worker/misbehaving/twice_call.hpp"

namespace assay {

// The environment variable ASSAY_WORKER names another worker: one that is not there, to show which tests
// notice it.
inline WorkerOptions worker_options(const char* plugin, std::string options = "") {
  WorkerOptions out;
  const char* other = std::getenv("ASSAY_WORKER");
  out.command = {other != nullptr ? other : ASSAY_WORKER};
  out.plugin = std::string(ASSAY_PLUGIN_DIR) + "/" + plugin;
  out.options = std::move(options);
  return out;
}

// The correct counterpart must pass whatever the worker went through before.
class WorkerFixture : public ::testing::Test {
 protected:
  RunResult run(TwiceCall& call) { return worker_.run(call.request()); }
  RunResult run_then_correct(TwiceCall& call) {
    RunResult result = run(call);
    TwiceCall correct("correct");
    const RunResult next = run(correct);
    EXPECT_EQ(next.status, RunStatus::done) << next.reason;
    return result;
  }
  RunResult run_variant(const char* variant, std::int64_t row_gap = 0) {
    TwiceCall call(variant, 4, 6, row_gap);
    return run_then_correct(call);
  }
  Worker worker_{worker_options("assay_misbehaving.so")};
};

}  // namespace assay
