// Workers that break the protocol, and kernels that touch what is not theirs behind the worker's back: each
// is found in the case that did it, beside a twin that is let pass.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;

class Supervision : public WorkerFixture {
 protected:
  Supervision() : unruly_(worker_options("assay_unruly.so")) {}
  RunResult run_unruly(const char* variant) {
    TwiceCall call(variant);
    RunResult result = unruly_.run(call.request());
    TwiceCall correct("correct");
    const RunResult next = unruly_.run(correct.request());
    EXPECT_EQ(next.status, RunStatus::done) << variant << ": " << next.reason;
    return result;
  }
  // A write that races with the look at it: some run of many sees it.
  RunResult first_finding(const char* variant) {
    TwiceCall call(variant);
    call.request().vary_placement = false;  // elsewhere, it would be seen as a write outside the elements
    call.request().deterministic = false;
    RunResult result;
    const auto end = std::chrono::steady_clock::now() + milliseconds(30'000);
    while (std::chrono::steady_clock::now() < end) {
      result = unruly_.run(call.request());
      if (result.status == RunStatus::overrun) break;
    }
    return result;
  }
  Worker unruly_;
};

struct Breach {
  const char* name;
  RunStatus status;
  const char* reason;  // a part of it
};
class ProtocolBreach : public ::testing::TestWithParam<Breach> {};

TEST_P(ProtocolBreach, is_the_fault_of_the_case_that_ran) {
  if (std::string_view(ASSAY_PYTHON).empty()) GTEST_SKIP() << "no Python interpreter was found";
  WorkerOptions options;
  options.command = {ASSAY_PYTHON, ASSAY_UNRULY_WORKER, ASSAY_EXAMPLE_WORKER, GetParam().name};
  Worker worker(options);
  TwiceCall call("");
  call.request().second_run = false;
  EXPECT_EQ(worker.run(call.request()).status, RunStatus::done);
  if (GetParam().status == RunStatus::hang) call.request().timeout = milliseconds(100);
  const RunResult guilty = worker.run(call.request());
  EXPECT_EQ(guilty.status, GetParam().status) << guilty.reason;
  EXPECT_NE(guilty.reason.find(GetParam().reason), std::string::npos) << guilty.reason;
  const RunResult next =
      worker.run(call.request());  // the first run of a new worker, or the third of a good one
  EXPECT_EQ(next.status, RunStatus::done) << next.reason;
  EXPECT_EQ(worker.starts(), GetParam().status == RunStatus::done ? 1 : 2);
}

constexpr const char* kBroken = "the worker broke the protocol: ";
INSTANTIATE_TEST_SUITE_P(
    Breaches, ProtocolBreach,
    ::testing::Values(
        Breach{"none", RunStatus::done, ""}, Breach{"no_id", RunStatus::crash, kBroken},
        Breach{"wrong_id", RunStatus::crash, "protocol: a reply of id"},
        Breach{"text_id", RunStatus::crash, kBroken},
        Breach{"two_replies", RunStatus::crash, "protocol: a second reply to one request"},
        Breach{"bytes_before", RunStatus::crash, kBroken}, Breach{"bytes_behind", RunStatus::crash, kBroken},
        Breach{"no_json", RunStatus::crash, kBroken}, Breach{"no_pong", RunStatus::hang, "hang: "},
        Breach{"other_pong", RunStatus::crash, "is no pong"},
        Breach{"two_pongs", RunStatus::crash, "more came behind its reply"},
        Breach{"bytes_behind_pong", RunStatus::crash, "more came behind its reply"},
        // What a worker says of memory that the shared one does not show: believed, and a new process.
        Breach{"finding_overrun", RunStatus::overrun, "found by the worker"},
        Breach{"finding_leak", RunStatus::leak, "found by the worker"},
        Breach{"finding_input_changed", RunStatus::input_changed, "found by the worker"},
        Breach{"finding_crash", RunStatus::crash, "found by the worker"},
        Breach{"finding_pass", RunStatus::crash, kBroken}),
    [](const auto& breach) { return std::string(breach.param.name); });

TEST_F(Supervision, a_kernel_that_speaks_on_the_control_channel_is_at_fault_itself) {
  const RunResult result = run_unruly("stray_line");
  EXPECT_EQ(result.status, RunStatus::crash);
  EXPECT_EQ(result.reason.find(kBroken), 0U) << result.reason;
  const RunResult printed = run_unruly("print_line");
  EXPECT_EQ(printed.status, RunStatus::done) << printed.reason;
  EXPECT_NE(printed.output_tail.find("done"), std::string::npos);
}

TEST_F(Supervision, what_a_kernel_reads_of_the_stack_differs_between_the_runs) {
  const RunResult result = run_unruly("read_stack");
  EXPECT_EQ(result.status, RunStatus::leak) << result.reason;
  EXPECT_EQ(result.unit, 1);
  EXPECT_EQ(run_unruly("read_clean_stack").status, RunStatus::done);
}

TEST_F(Supervision, inputs_written_behind_the_guards_are_changed_inputs) {
  for (const char* variant : {"write_input_by_file", "unprotect_input"}) {
    const RunResult result = run_unruly(variant);
    EXPECT_EQ(result.status, RunStatus::input_changed) << variant << ": " << result.reason;
    EXPECT_EQ(result.plane, "x");
    EXPECT_EQ(result.offset / 4, 8);
  }
  EXPECT_EQ(run_unruly("write_output_by_file").status, RunStatus::done);
}

TEST_F(Supervision, memory_that_a_worker_would_cut_short_stays_whole) {
  EXPECT_EQ(run_unruly("cut_memory").status, RunStatus::done);
  EXPECT_EQ(unruly_.starts(), 1);
}

TEST_F(Supervision, threads_and_children_that_go_on_writing_are_an_overrun_of_their_own_case) {
  for (const char* variant : {"write_late", "child_writes_late"}) {
    const RunResult result = first_finding(variant);
    EXPECT_EQ(result.status, RunStatus::overrun) << variant << ": " << result.reason;
    EXPECT_EQ(result.reason, "wrote after its run ended: byte " + std::to_string(result.offset) + " of y");
    unruly_.restart();
  }
  const int starts = unruly_.starts();
  EXPECT_EQ(run_unruly("write_in_thread").status, RunStatus::done);
  EXPECT_EQ(run_unruly("child_writes").status, RunStatus::done);
  EXPECT_EQ(unruly_.starts(), starts + 1);
}

// Too late for its own case, which has its verdict; the next case is not to pay for it.
TEST_F(Supervision, who_writes_between_two_cases_is_replaced_before_the_next_one) {
  for (const bool late : {true, false}) {
    Worker worker(worker_options("assay_unruly.so"));
    TwiceCall call(late ? "write_once_later" : "correct");
    call.request().second_run = false;
    EXPECT_EQ(worker.run(call.request()).status, RunStatus::done);
    std::this_thread::sleep_for(milliseconds(400));
    TwiceCall correct("correct");
    EXPECT_EQ(worker.run(correct.request()).status, RunStatus::done);
    EXPECT_EQ(worker.starts(), late ? 2 : 1);
  }
}

TEST_F(Supervision, a_machine_that_cannot_map_the_memory_finds_the_case_too_big) {
#if defined(ASSAY_ADDRESS_SANITIZER)
  GTEST_SKIP() << "SKIPPED: AddressSanitizer maps more than any limit";
#endif
  const WorkerOptions plain = worker_options("assay_unruly.so");
  for (const char* address_space : {"3000000", "unlimited"}) {
    WorkerOptions options = plain;
    options.keeper = plain.command[0];
    options.command = {"sh", "-c", std::string("ulimit -v ") + address_space + " && exec \"$0\"",
                       plain.command[0]};
    Worker worker(options);
    TwiceCall call("correct", 4, 6, std::int64_t{3} << 30);
    call.request().call.variant = "no_such";  // reached where the memory can be mapped
    const RunResult result = worker.run(call.request());
    const bool limited = address_space != std::string("unlimited");
    EXPECT_EQ(result.status, limited ? RunStatus::too_big : RunStatus::failed) << result.reason;
    EXPECT_EQ(result.reason, limited ? "cannot map the shared memory: Cannot allocate memory"
                                     : "variant no_such is unknown");
    TwiceCall small("correct");
    EXPECT_EQ(worker.run(small.request()).status, limited ? RunStatus::too_big : RunStatus::done);
  }
}

TEST_F(Supervision, planes_beyond_all_address_space_are_too_big) {
  TwiceCall call("correct", 4, 6, std::int64_t{1} << 50);
  const RunResult result = unruly_.run(call.request());
  EXPECT_EQ(result.status, RunStatus::too_big) << result.reason;
  EXPECT_EQ(run_unruly("correct").status, RunStatus::done);
}

TEST_F(Supervision, isolation_makes_each_run_in_a_process_of_its_own) {
  TwiceCall call("process_bits");
  EXPECT_EQ(unruly_.run(call.request()).status, RunStatus::done);  // two runs in one process agree
  call.request().isolate = true;
  const RunResult result = unruly_.run(call.request());
  EXPECT_EQ(result.status, RunStatus::nondeterministic) << result.reason;
  EXPECT_EQ(result.unit, 0);
  TwiceCall remembers("other_bits");  // of the plug-in that counts its calls
  EXPECT_EQ(run(remembers).status, RunStatus::nondeterministic);
  worker_.restart();
  remembers.request().isolate = true;
  EXPECT_EQ(run(remembers).status, RunStatus::done);
  EXPECT_EQ(worker_.starts(), 3);
}

TEST_F(Supervision, a_restart_is_a_new_process_at_the_next_call) {
  EXPECT_EQ(run_unruly("correct").status, RunStatus::done);
  unruly_.restart();
  unruly_.restart();
  EXPECT_EQ(unruly_.starts(), 1);
  EXPECT_EQ(run_unruly("correct").status, RunStatus::done);
  EXPECT_EQ(unruly_.starts(), 2);
}

TEST_F(Supervision, a_sandbox_that_cannot_be_had_is_refused) {
  WorkerOptions options = worker_options("assay_unruly.so");
  options.sandbox = Sandbox{"no/absolute/path", 0};
  Worker worker(options);
  const auto answer = worker.open();
  ASSERT_TRUE(std::holds_alternative<reply::Refused>(answer));
  EXPECT_NE(std::get<reply::Refused>(answer).reason, "");
  EXPECT_EQ(std::get<reply::Refused>(answer).reason.find("the worker ended"), std::string::npos);
}

}  // namespace
}  // namespace assay
