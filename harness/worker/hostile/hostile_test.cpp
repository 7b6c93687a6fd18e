// Runs the hostile corpus: every row gets its own verdict, an innocent call on the same Worker behind it
// passes, and nothing is left: no process, no descriptor, no file. One row after the other, and four at a
// time.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ranges>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "harness/worker/hostile/rows.hpp"
#include "harness/worker/misbehaving/twice_call.hpp"
#include "harness/worker/sandbox_fixture.hpp"

namespace assay {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr milliseconds kShortLimit{80};    // of processor time; five times as much by the clock
constexpr milliseconds kLongLimit{8'000};  // never reached
constexpr milliseconds kLongestRow{25'000};

// What the rows may reach: a folder, a port, a file; and what they may not leave behind in them.
class Machine {
 public:
  Machine() : folder_(testing::TempDir() + "assay_hostile_" + std::to_string(getpid())) {
    fs::create_directories(folder_ + "/temporary");
    std::ofstream(folder_ + "/file") << "kept";
    setenv("TMPDIR", (folder_ + "/temporary").c_str(), 1);
    listener_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener_.get(), 64) != 0 ||
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      ADD_FAILURE() << "no port to listen at";
    port_ = ntohs(address.sin_port);
    refusal_ = kernel_refuses();
  }
  ~Machine() { fs::remove_all(folder_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const std::string& folder() const { return folder_; }
  std::string file() const { return folder_ + "/file"; }
  int port() const { return port_; }
  const std::string& sandbox_refusal() const { return refusal_; }
  std::string left_files() const {
    std::string names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.is_regular_file() && entry.path() != file()) names += entry.path().string() + " ";
    return names;
  }

 private:
  std::string folder_;
  Descriptor listener_;
  int port_ = 0;
  std::string refusal_;
};

Machine& machine() {
  static Machine it;
  return it;
}

std::size_t open_descriptors() {
  const fs::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

// Processes that were started with this text in their environment.
std::string processes_with(const std::string& mark) {
  std::string found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || std::stoi(name) == getpid()) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find(mark) != std::string::npos) found += name + " ";
  }
  return found;
}

// `alone`: no other thread starts workers, so that this process's environment may carry what the worker is to find; the
// worker is then started as the program starts it. Otherwise by `env`.
WorkerOptions options_of(const Row& row, const std::string& mark, const std::string& scratch, bool alone) {
  WorkerOptions options;
  options.keeper = ASSAY_WORKER;
  std::vector<std::string> variables = {
      mark, "HOSTILE_PORT=" + std::to_string(machine().port()), "HOSTILE_FILE=" + machine().file(),
      "HOSTILE_JUDGE=" + std::to_string(getpid()),
      std::string("HOSTILE_CONTAINED=") + ((row.flags & kSandbox) != 0 ? "1" : "0")};
  if (!alone) {
    options.command = std::move(variables);
    options.command.insert(options.command.begin(), "env");
  } else {
    for (const std::string& variable : variables) {
      const auto equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
  }
  const auto add = [&](std::initializer_list<std::string> words) {
    options.command.insert(options.command.end(), words);
  };
  if ((row.flags & kSandbox) != 0) {
    const bool bounded = row.name.starts_with("allocate");
    options.sandbox = Sandbox{scratch, bounded ? std::int64_t{768} << 20 : 0};
  }
  if (row.via == Via::raw || row.via == Via::greeting) {
    add({ASSAY_RAW_WORKER, row.via == Via::greeting ? std::string(row.name) : std::string("correct")});
  } else if (row.via == Via::python) {
    add({ASSAY_PYTHON, ASSAY_PYTHON_WORKER});
    options.plugin = ASSAY_HOSTILE_SUBJECTS;
  } else {
    add({ASSAY_WORKER});
    options.plugin = ASSAY_HOSTILE_PLUGIN;
  }
  if (row.via == Via::open) options.options = row.misdeed();
  options.open_timeout = (row.flags & kShort) != 0 && (row.via == Via::open || row.via == Via::greeting)
                             ? kShortLimit
                             : milliseconds(60'000);
  return options;
}

bool is_twice(const RunResult& result, const TwiceCall& call) {
  if (result.outputs.size() != 1) return false;
  const auto y = TwiceCall::floats(result.outputs[0]);
  if (y.size() != call.values().size()) return false;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (!(y[i] == 2 * call.values()[i])) return false;
  return true;
}

constexpr std::int64_t kRows = 4, kCols = 6, kRowGap = 40;

class Problems {
 public:
  void add(const std::string& text) { text_ += (text_.empty() ? "" : "; ") + text; }
  const std::string& text() const { return text_; }
  void expect(const Row& row, RunStatus status, const std::string& reason) {
    const bool missed = (row.flags & kOrDone) != 0 && status == RunStatus::done;
    const bool other = missed || (!row.why.empty() && status == row.other);
    if (status != row.status && !other)
      add("is " + std::string(to_string(status)) + " (" + reason.substr(0, 300) + "), not " +
          std::string(to_string(row.status)));
    else if (!other && reason.find(row.reason) == std::string::npos)
      add("says '" + reason.substr(0, 300) + "', without '" + std::string(row.reason) + "'");
    for (const char byte : reason)
      if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F)
        return add("has a control byte in its reason");
  }

 private:
  std::string text_;
};

// Whether the misdeed may go on behind the call: seen in it or not, what it does next may strike the call behind it.
bool run_misdeed(const Row& row, Worker& worker, Problems& problems) {
  TwiceCall call(std::string(row.misdeed()), kRows, kCols, kRowGap);
  RunRequest& request = call.request();
  request.timeout = (row.flags & kShort) != 0 ? kShortLimit : kLongLimit;
  request.isolate = (row.flags & kIsolate) != 0;
  request.repeats = (row.flags & kRepeat) != 0 ? 2 : 0;
  if ((row.flags & kOtherFirst) != 0) {
    TwiceCall other(std::string(row.misdeed()), kRows, kCols, kRowGap);
    std::vector<float> values(other.values().size(), 0.25F);
    other.x().data = std::as_bytes(std::span(values));
    worker.run(other.request());
  }
  const RunResult result = worker.run(request);
  problems.expect(row, result.status, result.reason);
  if (result.status == RunStatus::done && (row.flags & kOrDone) == 0 &&
      is_twice(result, call) == ((row.flags & kWrong) != 0))
    problems.add((row.flags & kWrong) != 0 ? "has right outputs" : "has wrong outputs");
  return (row.flags & kOrDone) != 0;
}

void declare_misdeed(const Row& row, Worker& worker, Problems& problems) {
  TwiceCall call(std::string(row.misdeed()), kRows, kCols, kRowGap);
  const DeclareResult result =
      worker.declare(call.request().call, (row.flags & kShort) != 0 ? kShortLimit : kLongLimit);
  problems.expect(row, result.status,
                  result.status == RunStatus::done ? result.declaration.contract : result.reason);
}

// Whether the backend is there afterwards.
bool open_misdeed(const Row& row, Worker& worker, Problems& problems) {
  const auto answer = worker.open();
  const auto* refused = std::get_if<reply::Refused>(&answer);
  if (refused != nullptr) {
    problems.expect(row, RunStatus::failed, refused->reason);
    if (refused->reason.empty()) problems.add("is refused without a reason");
    return false;
  }
  if (row.status == RunStatus::failed) problems.add("opens");
  if (row.status == RunStatus::done) return true;
  run_misdeed(row, worker, problems);
  return false;
}

std::string check(const Row& row, int job) {
  if ((row.flags & kSandbox) != 0 && !machine().sandbox_refusal().empty())
    return "";  // said by a test of its own
  Problems problems;
  const std::string name = std::string(row.name) + "." + std::to_string(static_cast<int>(row.via));
  const std::string mark =
      "HOSTILE=" + name + "." + std::to_string(job) + "." + std::to_string(getpid()) + ";";
  std::string scratch = name + "." + std::to_string(job);
  std::ranges::replace(scratch, '/', '_');
  scratch = machine().folder() + "/" + scratch;
  fs::create_directory(scratch);
  const auto begin = std::chrono::steady_clock::now();
  {
    Worker worker(options_of(row, mark, scratch, job == 0));
    bool innocent = true, goes_on = false;
    if (row.via == Via::open || row.via == Via::greeting)
      innocent = open_misdeed(row, worker, problems);
    else if (row.via == Via::declare)
      declare_misdeed(row, worker, problems);
    else
      goes_on = run_misdeed(row, worker, problems);
    if (innocent) {
      TwiceCall call("innocent", kRows, kCols, kRowGap);
      call.request().timeout = kLongLimit;
      RunResult result = worker.run(call.request());
      // As the runner does: a finding that a new process does not make again is that of the calls before it.
      if (result.status != RunStatus::done && goes_on)
        result = Worker(options_of(row, mark, scratch, false)).run(call.request());
      if (result.status != RunStatus::done)
        problems.add("the innocent call behind it is " + std::string(to_string(result.status)) + " (" +
                     result.reason.substr(0, 300) + ")");
      else if (!is_twice(result, call))
        problems.add("the innocent call behind it has wrong outputs");
    }
  }
  if (std::chrono::steady_clock::now() - begin > kLongestRow) problems.add("takes too long");
  const std::string left = processes_with(mark);
  if (!left.empty()) problems.add("leaves processes: " + left);
  fs::remove_all(scratch);
  return problems.text().empty() ? "" : name + " " + problems.text();
}

class Hostile : public ::testing::TestWithParam<const Row*> {};

std::vector<const Row*> all_rows() {
  const auto all = rows() | std::views::transform([](const Row& row) { return &row; });
  return {all.begin(), all.end()};
}

TEST_P(Hostile, gets_its_own_verdict_and_harms_nobody) {
  const auto before = (machine(), open_descriptors());
  const std::string problems = check(*GetParam(), 0);
  EXPECT_EQ(problems, "");
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(machine().left_files(), "");
  std::ifstream file(machine().file());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, GetParam()->name == "write_to_a_home_folder" ? "spoilt" : "kept");
  std::ofstream(machine().file()) << "kept";
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

std::string test_name(const ::testing::TestParamInfo<const Row*>& tested) {
  constexpr const char* kVias[] = {"run", "declare", "open", "raw", "greeting", "python"};
  std::string name = kVias[static_cast<int>(tested.param->via)];
  name += "_" + std::string(tested.param->name);
  std::ranges::replace(name, '/', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Row, Hostile, ::testing::ValuesIn(all_rows()), test_name);

TEST(HostileInParallel, four_jobs_get_the_same_verdicts) {
  const auto before = (machine(), open_descriptors());
  std::atomic<std::size_t> next = 0;
  std::vector<std::string> found(4);
  std::vector<std::thread> jobs;
  for (int job = 0; job < 4; ++job)
    jobs.emplace_back([&, job] {
      for (std::size_t i = next++; i < rows().size(); i = next++) {
        const std::string problems = check(rows()[i], job + 1);
        if (!problems.empty()) found[static_cast<std::size_t>(job)] += problems + "\n";
      }
    });
  for (std::thread& job : jobs) job.join();
  for (const std::string& problems : found) EXPECT_EQ(problems, "");
  std::ofstream(machine().file()) << "kept";
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(machine().left_files(), "");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(HostileSandbox, is_there_for_the_rows_that_need_it) {
  const std::string refusal = machine().sandbox_refusal();
  if (!refusal.empty()) GTEST_SKIP() << "SKIPPED: the kernel refuses " << refusal;
}

// Both ways: a misdeed without a row would never be tried, a row without a misdeed would try nothing.
TEST(HostileTable, names_the_misdeeds_of_the_plug_in) {
  Row plain{"correct", Via::open, RunStatus::done, ""};
  Worker worker(options_of(plain, "HOSTILE=table", "", true));
  const auto answer = worker.open();
  ASSERT_TRUE(std::holds_alternative<reply::Opened>(answer));
  const auto& variants = std::get<reply::Opened>(answer).variants;
  std::set<std::string> in_plugin(variants.begin(), variants.end()), in_table{"innocent"};
  for (const Row& row : rows())
    if (row.via == Via::run) in_table.insert(std::string(row.misdeed()));
  EXPECT_EQ(in_table, in_plugin);
  EXPECT_GE(rows().size(), 150U);
}

// The check for processes sees one.
TEST(HostileTable, a_process_that_is_left_is_seen) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ready[1], STDOUT_FILENO);
    execlp("env", "env", "HOSTILE=left.behind", "sh", "-c", "echo; sleep 100", static_cast<char*>(nullptr));
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NE(processes_with("HOSTILE=left.behind").find(std::to_string(child)), std::string::npos);
  EXPECT_EQ(processes_with("HOSTILE=never.started"), "");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int end : ready) close(end);
}

}  // namespace
}  // namespace assay
