// Nothing of a worker outlives it: neither what hides in a session of its own, nor what outlives assay or the
// keeper.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <string>
#include <thread>

#include "harness/worker/alive_pipe.hpp"
#include "harness/worker/process.hpp"
#include "harness/worker/process_tree.hpp"
#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;
constexpr int kGoneMs = 10'000;

WorkerOptions unruly() { return worker_options("assay_unruly.so"); }

TEST(Tree, what_a_kernel_started_ends_with_the_worker_wherever_it_hid) {
  for (const char* variant : {"escape", "escape_and_spin", "fork_chain", "stop_keeper", "correct"}) {
    AlivePipe alive;
    {
      Worker worker(unruly());
      TwiceCall call(variant);
      call.request().second_run = false;
      const bool spins = variant == std::string("escape_and_spin");
      if (spins) call.request().timeout = milliseconds(300);
      const RunResult result = worker.run(call.request());
      EXPECT_EQ(result.status, spins ? RunStatus::hang : RunStatus::done) << variant << ": " << result.reason;
      close(alive.inherited());
      EXPECT_EQ(alive.all_gone(0), spins) << variant << ": the worker is there as long as it is used";
    }
    EXPECT_TRUE(alive.all_gone(kGoneMs)) << variant;
  }
}

TEST(Tree, a_worker_that_kills_its_keeper_is_at_fault_and_leaves_nothing) {
  AlivePipe alive;
  Worker worker(unruly());
  TwiceCall call("kill_keeper");
  call.request().timeout = milliseconds(20'000);
  const auto begin = std::chrono::steady_clock::now();
  const RunResult result = worker.run(call.request());
  EXPECT_EQ(result.status, RunStatus::crash);
  EXPECT_EQ(result.reason, "the worker ended without an answer: its keeper was killed");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(15'000));
  close(alive.inherited());
  EXPECT_TRUE(alive.all_gone(kGoneMs));
  TwiceCall correct("correct");
  EXPECT_EQ(worker.run(correct.request()).status, RunStatus::done);
}

TEST(Tree, a_program_that_is_killed_leaves_nothing) {
  AlivePipe alive;
  const pid_t program = fork();
  if (program == 0) {
    Worker worker(unruly());
    TwiceCall escapes("escape");
    const char ran = worker.run(escapes.request()).status == RunStatus::done ? 'y' : 'n';
    if (write(alive.inherited(), &ran, 1) != 1) _exit(1);
    TwiceCall spins("escape_and_spin");
    spins.request().timeout = milliseconds(60'000);
    worker.run(spins.request());
    _exit(1);
  }
  close(alive.inherited());
  char byte = 0;
  ASSERT_EQ(read(alive.read_end(), &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(alive.all_gone(0));
  kill(program, SIGKILL);
  int status = 0;
  waitpid(program, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(alive.all_gone(kGoneMs));
}

// Of a process that is traced the tracer hears first, and this one says nothing.
TEST(Tree, a_keeper_that_is_traced_stalls_nobody) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may trace a keeper";
  pid_t tracer = -1;
  {
    Worker worker(unruly());
    TwiceCall correct("correct");
    ASSERT_EQ(worker.run(correct.request()).status, RunStatus::done);
    const std::vector<pid_t> below = descendants(getpid());
    int attached[2];
    ASSERT_EQ(pipe(attached), 0);
    tracer = fork();
    if (tracer == 0) {
      if (ptrace(PTRACE_SEIZE, below.front(), nullptr, nullptr) != 0) _exit(1);
      if (write(attached[1], "y", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte = 0;
    ASSERT_EQ(read(attached[0], &byte, 1), 1);
    EXPECT_EQ(tracer_of(below.front()), tracer);
    close(attached[0]);
    close(attached[1]);
  }  // ends the worker
  int status = 0;
  ASSERT_EQ(waitpid(tracer, &status, 0), tracer);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

// A keeper that its tracer has stopped cannot end its worker, nor say how that ended. The tracer is ended
// while the keeper is waited for, and not once the wait is over: then the keeper would have been killed, and
// nobody would know.
TEST(Tree, the_tracer_of_a_keeper_ends_while_the_keeper_is_waited_for) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may trace a keeper";
  for (const bool stopped : {false, true}) {
    ProcessOptions options;
    options.command = {"sleep", "1000"};
    options.keeper = ASSAY_WORKER;
    const Descriptor memory(memfd_create("memory", 0));
    options.memory = memory.get();
    WorkerProcess process(options);
    const pid_t keeper = descendants(getpid()).front();
    int attached[2];
    ASSERT_EQ(pipe(attached), 0);
    const pid_t tracer = fork();
    if (tracer == 0) {
      bool is = ptrace(PTRACE_SEIZE, keeper, nullptr, nullptr) == 0;
      if (stopped)
        is = is && ptrace(PTRACE_INTERRUPT, keeper, nullptr, nullptr) == 0 &&
             waitpid(keeper, nullptr, 0) == keeper;
      if (!is || write(attached[1], "y", 1) != 1) _exit(1);
      for (;;) pause();
    }
    char byte = 0;
    ASSERT_EQ(read(attached[0], &byte, 1), 1);
    close(attached[0]), close(attached[1]);
    const ExitStatus status = process.finish(milliseconds(0));
    EXPECT_FALSE(status.keeper_lost) << stopped;
    EXPECT_EQ(describe(status), "killed by SIGKILL") << stopped;
    int how = 0;
    ASSERT_EQ(waitpid(tracer, &how, 0), tracer);
    EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << stopped;
  }
}

TEST(Tree, processes_are_found_by_descent_and_by_environment) {
  const pid_t child = fork();
  if (child == 0) {
    execlp("env", "env", "ASSAY_TREE_TEST=one", "sh", "-c", "sleep 60 & wait", nullptr);
    _exit(1);
  }
  std::vector<pid_t> found;
  for (int i = 0; i < 500 && found.size() < 2; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    found = started_with("ASSAY_TREE_TEST=one");
  }
  EXPECT_EQ(found.size(), 2U);
  EXPECT_TRUE(started_with("ASSAY_TREE_TEST=on").empty());
  EXPECT_EQ(descendants(child).size(), 1U);
  EXPECT_EQ(descendants(getpid()).size(), 2U);
  for (const pid_t process : found) kill(process, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(descendants(getpid()).empty());
}

TEST(Tree, processor_times_are_those_of_each_thread_of_each_process) {
  const auto before = processor_times(getpid());
  const auto spin = [] {
    timespec now{};
    while (now.tv_sec == 0 && now.tv_nsec < 150'000'000) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    pause();
  };
  const pid_t child = fork();
  if (child == 0) {
    std::thread other(spin);
    spin();
  }
  while (busiest_since({}, processor_times(child)) < milliseconds(140))
    std::this_thread::sleep_for(milliseconds(10));
  std::this_thread::sleep_for(milliseconds(300));
  const auto now = processor_times(getpid());
  EXPECT_EQ(now.size(), before.size() + 2);
  EXPECT_GE(busiest_since(before, now), milliseconds(140));
  EXPECT_LT(busiest_since(before, now), milliseconds(280)) << "two threads are no busier one";
  EXPECT_EQ(busiest_since(now, now), milliseconds(0));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace assay
