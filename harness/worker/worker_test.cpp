// The worker as a process: what it opens and declares, how it dies, and that the next call still runs.
#include "harness/worker/worker.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "harness/worker/alive_pipe.hpp"
#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;

class WorkerTest : public WorkerFixture {};

TEST_F(WorkerTest, open_tells_what_the_backend_is) {
  const auto answer = worker_.open();
  ASSERT_TRUE(std::holds_alternative<reply::Opened>(answer)) << std::get<reply::Refused>(answer).reason;
  const auto& opened = std::get<reply::Opened>(answer);
  EXPECT_EQ(opened.name, "misbehaving");
  EXPECT_EQ(opened.description, "breaks one rule per variant, NOT watched");
  ASSERT_EQ(opened.variants.size(), 30U);
  EXPECT_EQ(opened.variants.front(), "correct");
  EXPECT_EQ(opened.variants.back(), "print_much");
}

TEST_F(WorkerTest, declare_gives_the_contract_or_a_reason) {
  TwiceCall call("correct");
  const DeclareResult declared = worker_.declare(call.request().call);
  EXPECT_EQ(declared.status, RunStatus::done) << declared.reason;
  EXPECT_EQ(declared.declaration.contract, "out=f32");
  EXPECT_EQ(declared.declaration.path, "twice_correct");
  EXPECT_EQ(declared.declaration.promises, "deterministic=yes");
  call.request().call.op = "thrice";
  const DeclareResult unsupported = worker_.declare(call.request().call);
  EXPECT_EQ(unsupported.status, RunStatus::unsupported);
  EXPECT_EQ(unsupported.reason, "op thrice: only twice is here");
  EXPECT_EQ(run(call).status, RunStatus::unsupported);
}

TEST_F(WorkerTest, an_unknown_variant_fails_with_the_backends_reason) {
  const RunResult result = run_variant("no_such_variant");
  EXPECT_EQ(result.status, RunStatus::failed);
  EXPECT_EQ(result.reason, "variant no_such_variant is unknown");
}

TEST_F(WorkerTest, a_correct_kernel_is_done_with_outputs_and_trace) {
  for (const std::int64_t row_gap : {0, 40}) {
    TwiceCall call("correct", 5, 7, row_gap);
    call.request().repeats = 2;
    const RunResult result = run(call);
    ASSERT_EQ(result.status, RunStatus::done) << result.reason;
    const auto y = TwiceCall::floats(result.outputs[0]);
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 2 * call.values()[i]);
    EXPECT_TRUE(result.second.empty());
    EXPECT_EQ(result.trace.kernels, (std::vector<std::string>{"prepare", "twice_correct"}));
    EXPECT_EQ(result.trace.notes, (TextPairs{{"attributes", "5"}}));
    EXPECT_EQ(result.wall_ns.size(), 4U);
  }
  EXPECT_EQ(worker_.starts(), 1);
}

TEST_F(WorkerTest, a_transposed_output_is_read_back_in_its_own_order) {
  TwiceCall call("correct", 1, 6);
  call.x().shape = call.y().shape = {3, 2};
  call.y().stride = {8, 4};
  call.x().stride = {8, 4};
  const RunResult result = run(call);
  ASSERT_EQ(result.status, RunStatus::done) << result.reason;
  EXPECT_EQ(TwiceCall::floats(result.outputs[0])[5], 2 * call.values()[5]);
}

TEST_F(WorkerTest, a_fatal_signal_is_a_crash_with_its_name) {
  const RunResult segfault = run_variant("write_null");
  EXPECT_EQ(segfault.status, RunStatus::crash);
  EXPECT_EQ(segfault.signal, SIGSEGV);
  EXPECT_EQ(segfault.address, 8U);
  EXPECT_EQ(segfault.reason, "SIGSEGV at address 0x8");
  EXPECT_EQ(run_variant("abort_run").signal, SIGABRT);
  EXPECT_EQ(run_variant("crash_in_thread").signal, SIGSEGV);
  const RunResult overflow = run_variant("overflow_stack");
  EXPECT_EQ(overflow.signal, SIGSEGV);
  EXPECT_NE(overflow.address, 0U);  // so the handler ran, on a stack of its own
  EXPECT_EQ(worker_.starts(), 5);
}

TEST_F(WorkerTest, an_endless_loop_is_a_hang) {
  TwiceCall call("loop_for_ever");
  call.request().timeout = milliseconds(150);
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::hang);
  EXPECT_EQ(result.reason.find("hang: 0."), 0U) << result.reason;
}

TEST_F(WorkerTest, an_endless_loop_that_prints_is_a_hang_too) {
  TwiceCall call("chatter_for_ever");
  call.request().timeout = milliseconds(150);
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::hang);
  EXPECT_NE(result.output_tail.find("still here"), std::string::npos);
}

TEST_F(WorkerTest, an_endless_declare_is_a_hang) {
  TwiceCall call("loop_for_ever");
  call.request().call.attributes.clear();
  EXPECT_EQ(worker_.declare(call.request().call, milliseconds(150)).status, RunStatus::hang);
  EXPECT_EQ(run_variant("correct").status, RunStatus::done);
}

TEST_F(WorkerTest, an_exception_is_a_failure_with_its_text) {
  const RunResult result = run_variant("throw_standard");
  EXPECT_EQ(result.status, RunStatus::failed);
  EXPECT_EQ(result.reason, "threw an exception: no memory for the tile");
  EXPECT_EQ(run_variant("throw_number").status, RunStatus::failed);
  EXPECT_EQ(worker_.starts(), 1);
}

TEST_F(WorkerTest, an_exit_is_a_crash_with_its_status) {
  const RunResult result = run_variant("leave");
  EXPECT_EQ(result.status, RunStatus::crash);
  EXPECT_EQ(result.reason, "the worker ended without an answer: exited with status 3");
}

TEST_F(WorkerTest, closed_descriptors_are_a_crash) {
  EXPECT_EQ(run_variant("close_descriptors").status, RunStatus::crash);
}

TEST_F(WorkerTest, a_child_that_holds_the_sockets_does_not_hide_the_end) {
  TwiceCall call("leave_child_behind");
  call.request().timeout = milliseconds(20'000);
  const auto begin = std::chrono::steady_clock::now();
  const RunResult result = run_then_correct(call);
  EXPECT_EQ(result.status, RunStatus::crash);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(10'000));
}

TEST_F(WorkerTest, much_output_is_read_and_its_end_kept) {
  const RunResult result = run_variant("print_much");
  EXPECT_EQ(result.status, RunStatus::done) << result.reason;
  EXPECT_NE(result.output_tail.find("the last words"), std::string::npos);
  EXPECT_LE(result.output_tail.size(), 16384U);
}

TEST_F(WorkerTest, planes_that_cannot_be_placed_are_refused) {
  TwiceCall overlap("correct");
  overlap.y().stride = {20, 4};
  EXPECT_THROW(run(overlap), std::invalid_argument);
  TwiceCall same_poison("correct");
  same_poison.y().poison = {std::vector{std::byte{1}}, std::vector{std::byte{1}, std::byte{1}}};
  EXPECT_THROW(run(same_poison), std::invalid_argument);
  TwiceCall no_data("correct");
  no_data.x().data = {};
  EXPECT_THROW(run(no_data), std::invalid_argument);
}

struct Refusal {
  const char* plugin;
  const char* options;
  const char* reason;  // a part of it
  bool mistake = false;
};
class WorkerRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(WorkerRefusal, names_its_cause) {
  WorkerOptions options = worker_options(GetParam().plugin, GetParam().options);
  Worker worker(options);
  const auto answer = worker.open();
  ASSERT_TRUE(std::holds_alternative<reply::Refused>(answer));
  EXPECT_EQ(std::get<reply::Refused>(answer).mistake, GetParam().mistake);
  EXPECT_NE(std::get<reply::Refused>(answer).reason.find(GetParam().reason), std::string::npos)
      << std::get<reply::Refused>(answer).reason;
  TwiceCall call("correct");
  const RunResult result = worker.run(call.request());
  EXPECT_EQ(result.status, RunStatus::failed);
  EXPECT_EQ(result.reason, std::get<reply::Refused>(answer).reason);
  EXPECT_EQ(worker.starts(), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Open, WorkerRefusal,
    ::testing::Values(Refusal{"assay_wrong_version.so", "", "is built for version 43 of assay_backend.h"},
                      Refusal{"assay_no_entry.so", "", "does not export assay_backend_open", true},
                      Refusal{"no_such_file.so", "", "cannot load", true},
                      Refusal{"assay_misbehaving.so", "absent", "no such device"},
                      Refusal{"assay_misbehaving.so", "crash", "while it was opened: SIGABRT"}));

TEST(WorkerProgram, that_speaks_another_protocol_is_refused_and_said_to_do_so) {
  // $id is that of the request, and a read at the end waits for what comes next.
  const std::pair<const char*, const char*> programs[] = {
      {"echo garbage >&3", "broke the protocol"},
      {R"(echo '{"type":"hello","protocol":"assay-worker","version":2}' >&3)",
       "broke the protocol"},  // no id
      {R"(echo '{"type":"hello","id":-1,"protocol":"assay-worker","version":2}' >&3)", "a reply of id -1"},
      {R"(echo '{"type":"hello","id":'$id',"protocol":"assay-worker","version":1}' >&3)",
       "does not speak assay-worker version 2"},
      {R"(echo '{"type":"failed","id":'$id',"reason":""}' >&3)", "does not speak"}};
  for (const auto& [program, reason] : programs) {
    WorkerOptions options;
    options.command = {"sh", "-c",
                       R"(read line <&3; id=$(expr "$line" : '.*"id":\([0-9]*\)'); )" + std::string(program) +
                           "; read line <&3"};
    Worker worker(options);
    const auto answer = worker.open();
    ASSERT_TRUE(std::holds_alternative<reply::Refused>(answer)) << program;
    EXPECT_NE(std::get<reply::Refused>(answer).reason.find(reason), std::string::npos)
        << std::get<reply::Refused>(answer).reason;
  }
}

TEST(WorkerProgram, that_is_missing_or_speaks_nothing_is_refused) {
  for (const char* program : {"/no/such/worker", "true"}) {
    WorkerOptions options = worker_options("assay_misbehaving.so");
    options.command = {program};
    Worker worker(options);
    EXPECT_TRUE(std::holds_alternative<reply::Refused>(worker.open())) << program;
  }
}

TEST(Workers, run_in_several_threads_and_leave_nothing_behind) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = open_files();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&right, t] {
      Worker worker(worker_options("assay_misbehaving.so"));
      for (int i = 0; i < 20; ++i) {
        const bool crash = (i + t) % 5 == 0;
        TwiceCall call(crash ? "write_null" : "correct", 3 + t, 5 + i);
        const RunResult result = worker.run(call.request());
        right += result.status == (crash ? RunStatus::crash : RunStatus::done) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(Workers, take_the_processes_that_a_kernel_started_with_them) {
  AlivePipe alive;
  {
    Worker worker(worker_options("assay_misbehaving.so"));
    TwiceCall call("leave_child_behind");
    EXPECT_EQ(worker.run(call.request()).status, RunStatus::crash);
  }
  close(alive.inherited());
  EXPECT_TRUE(alive.all_gone(5'000)) << "the kernel's child outlives its worker";
}

TEST(Workers, end_with_the_program_that_started_them_even_in_an_endless_loop) {
  AlivePipe alive;
  const pid_t program = fork();
  if (program == 0) {
    Worker worker(worker_options("assay_misbehaving.so"));
    worker.open();
    const char started = worker.starts() == 1 ? 'y' : 'n';
    std::thread([&] {
      TwiceCall call("loop_for_ever");
      call.request().timeout = milliseconds(60'000);
      worker.run(call.request());
    }).detach();
    std::this_thread::sleep_for(milliseconds(200));
    _exit(write(alive.inherited(), &started, 1) == 1 ? 0 : 1);
  }
  close(alive.inherited());
  char byte = 0;
  ASSERT_EQ(read(alive.read_end(), &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  waitpid(program, nullptr, 0);
  EXPECT_TRUE(alive.all_gone(20'000)) << "the worker outlives its program";
}

TEST(Workers, may_be_used_after_the_thread_that_started_them_ended) {
  Worker worker(worker_options("assay_misbehaving.so"));
  std::thread([&] { worker.open(); }).join();
  TwiceCall call("correct");
  EXPECT_EQ(worker.run(call.request()).status, RunStatus::done);
  EXPECT_EQ(worker.starts(), 1);
}

}  // namespace
}  // namespace assay
