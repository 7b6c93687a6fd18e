// What a run promises whatever its cases do, and however it ends: no finished result is lost, and reports are true.
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
using program_testing::kFaulty;
using program_testing::Outcome;
namespace fs = std::filesystem;

// A folder of this process's own, removed with its owner.
class Scratch {
 public:
  Scratch() { fs::create_directories(path_); }
  ~Scratch() { fs::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : fs::directory_iterator(path_)) list.push_back(entry.path().filename().string());
    std::sort(list.begin(), list.end());
    return list;
  }

 private:
  fs::path path_ = program_testing::report_file("scratch");
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}
json json_of(const std::string& path) { return json::parse(text_of(path)); }

// A report without what differs from run to run: times, jobs.
json timeless(json report) {
  const auto strip = [](json& object) {
    std::vector<std::string> times;
    for (const auto& [key, value] : object.items())
      if (key.ends_with("_seconds")) times.push_back(key);
    for (const auto& key : times) object.erase(key);
  };
  for (json& row : report["results"]) strip(row);
  strip(report["summary"]);
  report.erase("jobs");
  report.erase("command");
  return report;
}

const std::string kLines = "softmax rows=1,2,3,4,5,6 cols=2,33,300 variant=correct,wrong,slow";
const std::string kCases = "'" + kLines + "' " + kFaulty;

// The program as a child that can be stopped. Its processes carry a mark in their environment.
pid_t start(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("ASSAY_SUPERVISION_TEST", std::to_string(getppid()).c_str(), 1);
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
  const std::string mark = "ASSAY_SUPERVISION_TEST=" + std::to_string(getpid());
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (text_of(entry.path() / "environ").find(mark) != std::string::npos) ++found;
  }
  return found;
}
bool none_is_left() {
  for (int i = 0; i < 100; ++i) {
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

  json header = json::parse(text.substr(0, text.find('\n')));
  header["words"] = {"softmax rows=3,5 cols=8 variant=correct"};
  std::ofstream(torn) << header.dump() << text.substr(text.find('\n'));
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
    for (int i = 0; i < 500 && text_of(scratch.file("r.jsonl")).find("variant=correct") == std::string::npos;
         ++i)
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

// At random moments, as an operator or the kernel's out-of-memory killer would. ASSAY_KILLS: how often; 200 nightly.
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

TEST(Isolate, finds_a_kernel_that_remembers) {
  const std::string cases =
      " 'softmax rows=3 cols=8 variant=memoises' 'softmax rows=3 cols=8 variant=correct' --repeats 12 " +
      kFaulty;
  EXPECT_EQ(assay("run" + cases).code, 0);
  const Outcome o = assay("run --isolate" + cases);
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.text.find("1 pass, 1 nondeterministic"), std::string::npos) << o.text;
}

TEST(Reports, a_strangers_text_moves_no_cursor) {
  const Scratch scratch;
  const Outcome o = assay("run 'softmax rows=3 cols=8 variant=paints' " + kFaulty + " --json " +
                          scratch.file("r.json") + " --junit " + scratch.file("r.xml"));
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.text.find('\x1b'), std::string::npos) << o.text;
  EXPECT_EQ(o.text.find("\nall green"), std::string::npos) << o.text;
  EXPECT_NE(o.text.find("\\x1b[2J"), std::string::npos) << o.text;
  EXPECT_EQ(text_of(scratch.file("r.xml")).find('\x1b'), std::string::npos);
  EXPECT_EQ(json_of(scratch.file("r.json"))["results"][0]["verdict"], "failed");
}

TEST(Reports, devices_stay_devices_and_links_and_folders_are_refused) {
  const Scratch scratch;
  const std::string run = "run -q 'softmax rows=3 cols=8 variant=correct' " + kFaulty;
  EXPECT_EQ(assay(run + " --json /dev/null --junit /dev/null").code, 2);  // one file for two
  EXPECT_EQ(assay(run + " --json /dev/null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const Outcome piped = assay(run + " --json /dev/stdout | tail -1");
  EXPECT_EQ(piped.last_line(), "all green") << piped.text;
  ASSERT_EQ(mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  EXPECT_NE(assay::run_command("cat " + scratch.file("pipe") + " & " ASSAY_PROGRAM " " + run + " --json " +
                               scratch.file("pipe") + "; wait")
                .text.find("\"assay-run\""),
            std::string::npos);
  std::ofstream(scratch.file("victim")) << "kept";
  fs::create_symlink(scratch.file("victim"), scratch.file("link"));
  EXPECT_EQ(assay(run + " --json " + scratch.file("link")).code, 2);
  fs::create_symlink(scratch.file("victim"), scratch.file("r.json.part"));
  EXPECT_EQ(assay(run + " --json " + scratch.file("r.json")).code, 2);
  EXPECT_EQ(text_of(scratch.file("victim")), "kept");
  EXPECT_EQ(assay(run + " --json .").code, 2);
  EXPECT_EQ(assay(run + " --json " + scratch.file("nowhere/r.json")).code, 2);
}

TEST(Reports, two_runs_into_one_file_are_one_too_many) {
  const Scratch scratch;
  const pid_t child = start(run_of({"--json", scratch.file("r.json")}));
  for (int i = 0; i < 500 && !fs::exists(scratch.file("r.json.jsonl")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const Outcome second = assay("run -q 'softmax rows=3 cols=8' -b cpu --json " + scratch.file("r.json"));
  EXPECT_EQ(second.code, 2) << second.text;
  EXPECT_NE(second.text.find("another run is writing it"), std::string::npos) << second.text;
  EXPECT_EQ(wait_for(child), 1);
  EXPECT_EQ(json_of(scratch.file("r.json"))["results"].size(), 54U);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"r.json"});
}

TEST(Reports, one_that_cannot_be_finished_hides_no_finding_and_is_no_success) {
  const std::string variant = " 'softmax rows=3 cols=8 variant=";
  EXPECT_EQ(assay("run -q --json /dev/full" + variant + "wrong' " + kFaulty).code, 1);
  const Outcome o = assay("run -q --json /dev/full" + variant + "correct' " + kFaulty);
  EXPECT_EQ(o.code, 125);
  EXPECT_NE(o.text.find("could not be completed: No space left on device"), std::string::npos) << o.text;
  EXPECT_EQ(assay("run -q --record /dev/full" + variant + "correct' " + kFaulty).code, 2);  // before the run
}

TEST(Arguments, that_mean_nothing_are_refused) {
  for (const char* argument :
       {"--timeout nan", "--timeout -1", "--timeout inf", "--seed=-1", "--seed 18446744073709551616",
        "--seed 1x", "--shard 4294967296/4294967297", "--shard 0/0", "--shard -0/2", "--shard ''",
        "--json ''", "--junit ''", "--record ''", "--resume ''", "--filter ''", "--jobs 0", "--memory nan",
        "--repeats -1"}) {
    const Outcome o = assay(std::string("run 'softmax rows=1 cols=2' -b cpu ") + argument);
    EXPECT_EQ(o.code, 2) << argument << "\n" << o.text;
  }
}

// The same cases with other jobs, in halves, in another locale and folder: the same report.
TEST(Determinism, jobs_shards_locale_and_folder_change_nothing) {
  const Scratch scratch;
  const std::string cases =
      "'softmax rows=1,2,3,4,5 cols=2,33,300 fill=gaussian,ramp,peaked dtype=f32,f16,bf16 backend=cpu' "
      "'rmsnorm rows=1,2,3 cols=16,300 dtype=f32,f16 backend=cpu' "
      "'softmax rows=3 cols=2,33 variant=correct,wrong,nan,unwritten,overrun backend=" FAULTY_SOFTMAX "'";
  const auto report = [&](const std::string& before, const std::string& more) {
    const std::string path = scratch.file("r.json");
    const Outcome o =
        assay::run_command(before + " " ASSAY_PROGRAM " run -q " + cases + " --json " + path + " " + more);
    EXPECT_TRUE(o.code == 0 || o.code == 1) << o.text;
    return timeless(json_of(path));
  };
  const json one = report("", "--jobs 1");
  EXPECT_EQ(one["results"].size(), 157U);
  EXPECT_EQ(report("", "--jobs 1"), one);
  EXPECT_EQ(report("", "--jobs 5"), one);
  EXPECT_EQ(report("cd / && LC_ALL=de_DE.UTF-8 LANG=tr_TR.UTF-8 TZ=Asia/Kathmandu", "--jobs 2"), one);
  const auto by_case = [](std::vector<json> reports) {
    std::map<std::string, json> rows;
    for (const json& part : reports)
      for (const json& row : part["results"]) rows[row["case"]] = row;
    return rows;
  };
  EXPECT_EQ(by_case({report("", "--shard 0/2"), report("", "--shard 1/2")}), by_case({one}));
}

}  // namespace
