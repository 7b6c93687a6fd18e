// No wait for a worker outlasts its limit, whatever the worker does meanwhile; and what is merely slow is
// waited for.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <string>
#include <thread>

#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Of a machine under load: what is waited for beyond it did not end by its limit.
constexpr milliseconds kSlack{20'000};

double number_before(const std::string& text, const char* unit) {
  const std::size_t end = text.find(unit);
  return end == std::string::npos ? std::nan("") : std::stod(text.substr(text.rfind(' ', end - 1) + 1));
}

class Limits : public WorkerFixture {
 protected:
  static WorkerOptions unruly(std::string options = "") {
    return worker_options("assay_unruly.so", std::move(options));
  }
  RunResult run_unruly(const char* variant, milliseconds timeout) {
    TwiceCall call(variant);
    call.request().timeout = timeout;
    const auto begin = Clock::now();
    RunResult result = unruly_.run(call.request());
    took_ = Clock::now() - begin;
    TwiceCall correct("correct");
    EXPECT_EQ(unruly_.run(correct.request()).status, RunStatus::done) << variant;
    return result;
  }
  Worker unruly_{unruly()};
  Clock::duration took_{};
};

TEST_F(Limits, what_waits_is_measured_by_the_clock_and_may_wait_longer_than_it_may_compute) {
  const RunResult stopped = run_unruly("stop_itself", milliseconds(300));
  EXPECT_EQ(stopped.status, RunStatus::hang);
  EXPECT_EQ(stopped.reason.find("hang: 0.0 s of processor time in "), 0U) << stopped.reason;
  EXPECT_GE(number_before(stopped.reason, " s wall"), 1.5) << stopped.reason;
  EXPECT_GE(took_, milliseconds(1'500));
  const RunResult napped = run_unruly("take_a_nap", milliseconds(500));  // of 600
  EXPECT_EQ(napped.status, RunStatus::done) << napped.reason;
}

TEST_F(Limits, processor_time_is_that_of_the_busiest_thread_of_all_processes) {
  const RunResult result = run_unruly("children_spin", milliseconds(500));
  EXPECT_EQ(result.status, RunStatus::hang);
  // Its own thread waits; on a machine that gives the children little the limit by the clock, five times as
  // long, may end them.
  EXPECT_GT(number_before(result.reason, " s of processor time"), 0) << result.reason;
  EXPECT_EQ(run_unruly("child_writes", kSlack).status, RunStatus::done);
  // 1.6 s in all, for which a busy machine has five times the limit by the clock.
  EXPECT_EQ(run_unruly("many_threads", milliseconds(1'500)).status, RunStatus::done);
}

TEST_F(Limits, a_line_without_an_end_is_ended) {
  WorkerOptions options = unruly();
  options.line_bytes = std::size_t{1} << 20;
  Worker worker(options);
  TwiceCall call("endless_line");
  const RunResult result = worker.run(call.request());
  EXPECT_EQ(result.status, RunStatus::crash);
  EXPECT_EQ(result.reason, "the worker broke the protocol: a line of more than 1048576 bytes");
  TwiceCall correct("correct");
  EXPECT_EQ(worker.run(correct.request()).status, RunStatus::done);
  EXPECT_EQ(run_unruly("dripping_line", milliseconds(100)).status, RunStatus::hang);
}

TEST_F(Limits, a_line_of_many_kernels_is_read) {
  const RunResult result = run_unruly("many_kernels", milliseconds(20'000));
  EXPECT_EQ(result.status, RunStatus::done) << result.reason;
  EXPECT_GT(result.trace.kernels.size(), 1'000U);
  EXPECT_EQ(result.trace.notes.back().first, "kernels_left_out");
  EXPECT_EQ(result.trace.kernels.size() + std::stoul(result.trace.notes.back().second), 65'000U);
}

TEST_F(Limits, output_without_an_end_does_not_outrun_the_limit) {
  TwiceCall call("chatter_for_ever");
  call.request().timeout = milliseconds(200);
  const auto begin = Clock::now();
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::hang);
  EXPECT_LE(result.output_tail.size(), 16'384U);
  EXPECT_LT(Clock::now() - begin, kSlack);
}

TEST_F(Limits, a_worker_that_reads_no_request_is_a_hang) {
  for (const char* variant : {"stop_later", "correct"}) {
    Worker worker(unruly());
    TwiceCall first(variant);
    first.request().second_run = false;
    EXPECT_EQ(worker.run(first.request()).status, RunStatus::done);
    std::this_thread::sleep_for(milliseconds(300));
    TwiceCall large("correct");  // a request of more than any socket holds
    large.request().call.attributes[0].second = std::string(std::size_t{8} << 20, '1');
    // The correct one has all the time that a busy machine takes.
    large.request().timeout = milliseconds(variant == std::string("correct") ? 60'000 : 400);
    large.request().second_run = false;
    const auto begin = Clock::now();
    const RunResult result = worker.run(large.request());
    EXPECT_EQ(result.status, variant == std::string("correct") ? RunStatus::done : RunStatus::hang)
        << result.reason;
    EXPECT_LT(Clock::now() - begin, kSlack);
  }
}

TEST_F(Limits, a_backend_that_never_closes_is_ended) {
  const auto begin = Clock::now();
  for (const char* options : {"endless_close", ""}) {
    Worker worker(unruly(options));
    TwiceCall call("correct");
    EXPECT_EQ(worker.run(call.request()).status, RunStatus::done);
  }
  EXPECT_LT(Clock::now() - begin, kSlack);
}

TEST_F(Limits, a_time_out_of_opening_names_the_limit_and_is_asked_again_once) {
  WorkerOptions options = unruly("slow");
  options.open_timeout = milliseconds(60);
  Worker worker(options);
  TwiceCall call("correct");
  for (const int starts : {1, 2, 2}) {
    const RunResult result = worker.run(call.request());
    EXPECT_EQ(result.status, RunStatus::failed);
    EXPECT_NE(result.reason.find("while it was opened: hang: 0.0 s of processor time"), std::string::npos)
        << result.reason;
    EXPECT_NE(result.reason.find("(open timeout 60 ms)"), std::string::npos) << result.reason;
    EXPECT_EQ(worker.starts(), starts);
  }
}

TEST_F(Limits, a_backend_that_was_slow_once_is_used_when_it_opens) {
  const std::string file = testing::TempDir() + "assay_slow_once_" + std::to_string(getpid());
  std::filesystem::remove(file);
  WorkerOptions options = unruly("slow_once:" + file);
  options.open_timeout = milliseconds(500);
  Worker worker(options);
  TwiceCall call("correct");
  EXPECT_EQ(worker.run(call.request()).status, RunStatus::failed);
  EXPECT_EQ(worker.run(call.request()).status, RunStatus::done);
  EXPECT_EQ(worker.starts(), 2);
  std::filesystem::remove(file);
}

TEST_F(Limits, the_stop_descriptor_ends_any_wait_with_the_worker) {
  for (const bool stop : {true, false}) {
    const int descriptor = eventfd(0, EFD_CLOEXEC);
    WorkerOptions options = worker_options("assay_misbehaving.so");
    options.stop_descriptor = descriptor;
    Worker worker(options);
    TwiceCall call(stop ? "loop_for_ever" : "correct");
    call.request().timeout = milliseconds(60'000);
    std::thread stopper([&] {
      std::this_thread::sleep_for(milliseconds(100));
      if (stop) eventfd_write(descriptor, 1);
    });
    const auto begin = Clock::now();
    if (stop) {
      EXPECT_THROW(worker.run(call.request()), Stopped);
      EXPECT_THROW(worker.open(), Stopped);
      EXPECT_THROW(worker.declare(call.request().call), Stopped);
    } else {
      EXPECT_EQ(worker.run(call.request()).status, RunStatus::done);
    }
    stopper.join();
    EXPECT_LT(Clock::now() - begin, kSlack);
    close(descriptor);
  }
}

}  // namespace
}  // namespace assay
