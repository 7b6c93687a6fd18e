// What a run promises whatever its cases do, and however it ends: no finished result is lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "harness/cli/program_testing.hpp"

namespace {

using nlohmann::json;
using program_testing::assay;
using program_testing::json_of;
using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::Scratch;
using program_testing::text_of;
using program_testing::timeless;
namespace fs = std::filesystem;

const std::string kLines = "softmax rows=1,2,3,4,5,6 cols=2,33,300 variant=correct,wrong,slow";
const std::string kCases = "'" + kLines + "' " + kFaulty;

// The program as a child that can be stopped. Its processes carry a mark in their environment.
pid_t start(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("RUN_TEST_MARK", std::to_string(getppid()).c_str(), 1);
  const int out = open("/dev/null", O_WRONLY);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  std::vector<std::string> all{ASSAY_PROGRAM};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (auto& word : all) words.push_back(word.data());
  words.push_back(nullptr);
  execv(ASSAY_PROGRAM, words.data());
  _exit(127);
}
int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
std::vector<std::string> run_of(const std::vector<std::string>& more) {
  std::vector<std::string> words{"run", kLines, "-b", FAULTY_SOFTMAX, "-q", "--jobs", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int marked_processes() {
  const std::string mark = "RUN_TEST_MARK=" + std::to_string(getpid());
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (text_of(entry.path() / "environ").find(mark) != std::string::npos) ++found;
  }
  return found;
}
bool none_is_left() {
  for (int i = 0; i < 500; ++i) {
    if (marked_processes() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST(TooBig, ends_its_case_alone_and_says_what_it_needed) {
  const Scratch scratch;
  const Outcome o = assay("run 'softmax rows=100000 cols=1000000' 'softmax rows=2 cols=3' -b cpu --json " +
                          scratch.file("r.json"));
  EXPECT_EQ(o.code, 1) << o.text;
  const json report = json_of(scratch.file("r.json"));
  EXPECT_EQ(report["results"][0]["verdict"], "too_big");
  EXPECT_EQ(report["results"][1]["verdict"], "pass");
  EXPECT_NE(o.text.find("it needs 5215.4 GiB of memory"), std::string::npos) << o.text;
  EXPECT_EQ(assay("run 'softmax rows=64 cols=4096' -b cpu --memory 0.001").code, 1);
  EXPECT_EQ(assay("run 'softmax rows=64 cols=4096' -b cpu --memory 1 --jobs 4").code, 0);
}

// The process may take less than the machine has: an allocation that fails is that case's verdict too.
TEST(TooBig, a_failed_allocation_ends_its_case_alone) {
#if defined(ASSAY_ADDRESS_SANITIZER)
  GTEST_SKIP() << "SKIPPED: AddressSanitizer maps more than any limit";
#endif
  const Outcome o = assay::run_command("ulimit -v 3000000; " ASSAY_PROGRAM
                                       " run 'softmax rows=2048 cols=65536' 'softmax rows=2 cols=3' -b cpu "
                                       "--jobs 1 --memory 1000");
  EXPECT_EQ(o.code, 1) << o.text;
  EXPECT_NE(o.text.find("1 pass, 1 too_big"), std::string::npos) << o.text;
}

TEST(Record, makes_the_same_report_again) {
  const Scratch scratch;
  const std::string record = scratch.file("r.jsonl"), first = scratch.file("a.json"),
                    again = scratch.file("b.json");
  EXPECT_EQ(assay("run -q " + kCases + " --record " + record + " --json " + first).code, 1);
  EXPECT_EQ(assay("run -q --resume " + record + " --json " + again).code, 1);
  json a = json_of(first), b = json_of(again);
  EXPECT_EQ(a["results"].size(), 54U);
  EXPECT_EQ(a["results"], b["results"]);
  EXPECT_EQ(timeless(a), timeless(b));
}

TEST(Record, of_another_plan_is_refused_and_a_torn_line_is_not) {
  const Scratch scratch;
  const std::string record = scratch.file("r.jsonl"), torn = scratch.file("torn.jsonl");
  ASSERT_EQ(assay("run -q 'softmax rows=3,4 cols=8 variant=correct' " + kFaulty + " --record " + record).code,
            0);
  const std::string text = text_of(record);
  const auto second_row = text.find('\n', text.find('\n') + 1) + 1;
  std::ofstream(torn) << text.substr(0, second_row + 20);
  EXPECT_EQ(assay("run -q --resume " + torn).code, 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);  // header, two results, the end
  const std::string resumed = text_of(torn);
  EXPECT_EQ(std::count(resumed.begin(), resumed.end(), '\n'), 4) << resumed;

  auto header = nlohmann::ordered_json::parse(text.substr(0, text.find('\n')));
  header["words"] = {"softmax rows=3,5 cols=8 variant=correct"};
  std::ofstream(torn) << program_testing::linked(header.dump() + text.substr(text.find('\n')));
  const Outcome other = assay("run --resume " + torn);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.text.find("the record is of another plan"), std::string::npos) << other.text;
  std::ofstream(torn) << "{}\n";
  EXPECT_EQ(assay("run --resume " + torn).code, 2);
  EXPECT_EQ(assay("run --resume " + scratch.file("absent")).code, 2);
  EXPECT_EQ(assay("run 'softmax rows=1 cols=2' --resume " + record).code, 2);
}

TEST(Signals, stop_the_run_with_whole_reports_that_say_so) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Scratch scratch;
    // The variant hangs: only a stop that reaches into the wait for a worker ends the run in time.
    const pid_t child = start({"run", "softmax rows=2,3 cols=8 variant=correct,hang", "-b", FAULTY_SOFTMAX,
                               "--timeout", "300", "--jobs", "1", "--json", scratch.file("r.json"), "--junit",
                               scratch.file("r.xml"), "--record", scratch.file("r.jsonl")});
    while (text_of(scratch.file("r.jsonl")).find("\"place\"") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, signal);
    EXPECT_EQ(wait_for(child), 128 + signal);
    EXPECT_TRUE(none_is_left());
    const json report = json_of(scratch.file("r.json"));
    EXPECT_EQ(report["complete"], false);
    EXPECT_EQ(report["ended_by"], std::string("SIG") + sigabbrev_np(signal));
    EXPECT_EQ(report["results"].size(), 1U);
    EXPECT_EQ(report["planned"], 4);
    EXPECT_FALSE(report["summary"]["green"]);
    const std::string xml = text_of(scratch.file("r.xml"));
    EXPECT_NE(xml.find("type=\"incomplete\""), std::string::npos) << xml;
    EXPECT_EQ(scratch.names(), (std::vector<std::string>{"r.json", "r.jsonl", "r.xml"}));
  }
}

TEST(Signals, what_the_caller_ignores_stays_ignored) {
  EXPECT_EQ(assay::run_command("trap '' INT; " ASSAY_PROGRAM " run -q 'softmax rows=2 cols=3' -b cpu & "
                               "kill -INT $!; wait $!")
                .code,
            0);
}

// At random moments, as an operator or the kernel's out-of-memory killer would. ASSAY_KILLS: how often; 200
// nightly.
TEST(Kill, loses_no_finished_result_and_leaves_nothing_behind) {
  const Scratch scratch;
  ASSERT_EQ(wait_for(start(run_of({"--json", scratch.file("whole.json")}))), 1);
  const json whole = timeless(json_of(scratch.file("whole.json")));
  fs::remove(scratch.file("whole.json"));
  std::mt19937 random(20261122);
  const char* asked = std::getenv("ASSAY_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : 20;
  const std::string record = scratch.file("r.json.jsonl");
  std::size_t results = 0;
  bool running = false;
  for (int i = 0; i < kills; ++i) {
    const pid_t child =
        start(running ? std::vector<std::string>{"run", "--resume", record, "-q", "--jobs", "2"}
                      : run_of({"--json", scratch.file("r.json")}));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300'000));
    kill(child, SIGKILL);
    (void)wait_for(child);
    ASSERT_TRUE(none_is_left()) << "after kill " << i;
    if (!fs::exists(record) || text_of(record).find('\n') == std::string::npos) continue;
    ASSERT_EQ(scratch.names(), std::vector<std::string>{"r.json.jsonl"});
    running = true;
    std::ifstream file(record);
    std::size_t rows = 0;
    for (std::string line; std::getline(file, line);)
      rows += line.ends_with("}") && line.find("\"place\"") != std::string::npos;
    ASSERT_GE(rows, results) << "results were lost by kill " << i;
    results = rows;
    if (rows < 54) continue;
    ASSERT_EQ(assay("run -q --resume " + record + " --json " + scratch.file("r.json")).code, 1);
    EXPECT_EQ(timeless(json_of(scratch.file("r.json"))), whole);
    fs::remove(record);
    fs::remove(scratch.file("r.json"));
    running = false;
    results = 0;
  }
  if (!running) return;
  ASSERT_EQ(assay("run -q --resume " + record + " --json " + scratch.file("r.json")).code, 1);
  EXPECT_EQ(timeless(json_of(scratch.file("r.json"))), whole);
}

TEST(History, a_finding_that_needs_earlier_calls_has_a_repro_that_makes_them) {
  const Scratch scratch;
  const Outcome o =
      assay("run 'softmax rows=2 cols=5,9,7,8 variant=keeps_buffer' 'softmax rows=3 cols=8 variant=wrong' " +
            kFaulty + " --jobs 1 --json " + scratch.file("r.json"));
  EXPECT_EQ(o.code, 1);
  const json results = json_of(scratch.file("r.json"))["results"];
  EXPECT_EQ(results[0]["verdict"], "pass");
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(results[i]["verdict"], "wrong");
    EXPECT_EQ(results[i]["repeat"], "after_calls");
    EXPECT_EQ(results[i]["after"].size(), 1U);
  }
  EXPECT_FALSE(results[4].contains("after"));  // red in any process
  const std::string repro = results[1]["repro"];
  EXPECT_EQ(repro, "assay run 'softmax rows=2 cols=9 seed=1 backend=" FAULTY_SOFTMAX
                   " variant=keeps_buffer after=\"softmax rows=2 cols=5 seed=1 variant=keeps_buffer\"'");
  EXPECT_NE(o.text.find("repro  " + repro), std::string::npos) << o.text;
  const std::string arguments = repro.substr(repro.find(' ') + 1);
  EXPECT_EQ(assay(arguments).code, 1);
  EXPECT_EQ(assay(arguments.substr(0, arguments.find(" after=")) + "'").code, 0);  // alone it passes
}

// A contract that allows two million ulps proves nothing of a kernel, however right it is.
TEST(Strict, a_pass_that_shows_nothing_is_blind) {
  const Scratch scratch;
  const std::string cases = " 'softmax rows=3 cols=8 variant=vague,correct' " + kFaulty;
  const Outcome told = assay("run -v" + cases + " --json " + scratch.file("r.json"));
  EXPECT_EQ(told.code, 0);
  EXPECT_NE(told.text.find("1 of them is blind"), std::string::npos) << told.text;
  EXPECT_NE(told.text.find("2 [1 blind]"), std::string::npos) << told.text;
  const json report = json_of(scratch.file("r.json"));
  EXPECT_EQ(report["results"][0]["blind"], true);
  EXPECT_GT(report["results"][0]["seen"]["half"], 0.1);
  EXPECT_EQ(report["results"][1]["blind"], false);
  EXPECT_LT(report["results"][1]["seen"]["loosest"], report["results"][0]["seen"]["some"]);
  EXPECT_EQ(report["summary"]["blind"], 1);
  const std::string record = scratch.file("r.jsonl");
  const Outcome strict = assay("run --strict" + cases + " --record " + record);
  EXPECT_EQ(strict.code, 1);
  EXPECT_NE(strict.text.find("1 pass, 1 blind"), std::string::npos) << strict.text;
  EXPECT_EQ(assay("run --resume " + record).code, 1);  // the record says that the run was strict
}

TEST(Isolate, finds_a_kernel_that_remembers) {
  const std::string cases =
      " 'softmax rows=3 cols=8 variant=memoises' 'softmax rows=3 cols=8 variant=correct' --repeats 12 " +
      kFaulty;
  EXPECT_EQ(assay("run" + cases).code, 0);
  const Outcome o = assay("run --isolate" + cases);
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.text.find("1 pass, 1 nondeterministic"), std::string::npos) << o.text;
}

}  // namespace
