// `assay kill-table` as a user runs it, on a corpus of one softmax: what it ends with, and what it writes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "cases/studies/mutants/mutant_list.hpp"

namespace assay::mutants {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string text;
  bool says(const std::string& words) const { return text.find(words) != std::string::npos; }
};

class KillTableProgram : public testing::Test {
 protected:
  KillTableProgram()
      : directory_(fs::path(testing::TempDir()) / fmt::format("assay_kill_table_{}", getpid())) {
    fs::create_directories(directory_);
    put("corpus.cases", "softmax rows=3 cols=40\n");
    put("none.list", "");
  }
  ~KillTableProgram() override { fs::remove_all(directory_); }

  std::string put(const std::string& name, const std::string& text) const {
    const fs::path path = directory_ / name;
    std::ofstream(path) << text;
    return path.string();
  }
  // Of the build tree, or the one that the environment names.
  static std::string program() {
    const char* given = std::getenv("ASSAY_PROGRAM_UNDER_TEST");
    return given != nullptr ? given : ASSAY_PROGRAM;
  }
  // In a directory of its own, which stays empty unless the program writes into it.
  Outcome run(const std::string& arguments, const std::string& list = "none.list") const {
    fs::create_directories(directory_ / "here");
    const std::string command = fmt::format(
        "cd '{}/here' && '{}' kill-table --corpus ../corpus.cases {} --planted 0 --correct '' -q {} 2>&1",
        directory_.string(), program(), list.empty() ? "" : "--equivalent ../" + list, arguments);
    FILE* pipe = popen(command.c_str(), "r");
    Outcome o;
    std::array<char, 4096> buffer{};
    for (std::size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      o.text.append(buffer.data(), n);
    const int status = pclose(pipe);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return o;
  }
  bool wrote_nothing() const { return fs::is_empty(directory_ / "here"); }

  static const Manifest& mutant(const std::string& file, const std::string& before,
                                const std::string& after) {
    static const std::vector<Manifest> all = read_manifest(ASSAY_MUTANTS_JSON);
    const auto found = std::ranges::find_if(
        all, [&](const Manifest& m) { return m.file == file && m.before == before && m.after == after; });
    if (found == all.end()) throw std::runtime_error("no mutant " + before + " -> " + after + " in " + file);
    return *found;
  }
  // The corpus shows the first, and does not come by the second.
  static const Manifest& killed() {
    return mutant("backends/cpu/softmax.cpp", "x[static_cast<std::size_t>(j)]",
                  "x[static_cast<std::size_t>(j)] in bf16's 8 bits");
  }
  static const Manifest& survivor() {
    return mutant("backends/cpu/rmsnorm.cpp", "1.0F / std::sqrt(mean + eps)",
                  "1.0F / std::sqrt(mean + eps) in bf16's 8 bits");
  }
  static std::string row(const Manifest& m, int count = 1) {
    return fmt::format("{} @ {} @ {} -> {} @ {} @ for the test\n", m.file, m.text, m.before, m.after, count);
  }

  fs::path directory_;
};

TEST_F(KillTableProgram, a_chosen_mutant_that_is_killed_ends_with_0_and_writes_nothing) {
  const Outcome o = run(fmt::format("--only {}", killed().id));
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_TRUE(o.says("killed 1 of 1 (100.0 %)")) << o.text;
  EXPECT_TRUE(o.says("no report written")) << o.text;
  EXPECT_TRUE(wrote_nothing());
}

// Of an installation too: the test package.kill_table runs this one against it.
TEST_F(KillTableProgram, mutants_and_excuses_are_found_without_being_named) {
  const Outcome o = run(fmt::format("--only {}", killed().id), "");
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_TRUE(o.says("killed 1 of 1 (100.0 %)")) << o.text;
}

TEST_F(KillTableProgram, a_directory_without_mutants_is_wrong_usage) {
  const Outcome o = run(fmt::format("--only {} --mutants .", killed().id));
  EXPECT_EQ(o.code, 2) << o.text;
}

TEST_F(KillTableProgram, a_chosen_mutant_that_survives_ends_with_1) {
  const Outcome one = run(fmt::format("--only {}", survivor().id));
  EXPECT_EQ(one.code, 1) << one.text;
  EXPECT_TRUE(one.says("killed 0 of 1")) << one.text;
  const Outcome two = run(fmt::format("--only {},{}", killed().id, survivor().id));
  EXPECT_EQ(two.code, 1) << two.text;
  EXPECT_TRUE(two.says("killed 1 of 2")) << two.text;
}

TEST_F(KillTableProgram, a_number_that_no_mutant_has_is_wrong_usage) {
  for (const char* only : {"0", "1000000", "-3"}) {
    const Outcome o = run(fmt::format("--only={}", only));
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_TRUE(o.says("no mutant of this number")) << o.text;
  }
  EXPECT_EQ(run("--sample 3/2").code, 2);
  EXPECT_EQ(run("--sample 1/2/3").code, 2);
}

TEST_F(KillTableProgram, a_sample_without_a_mutant_ends_with_3) {
  const Outcome o = run("--sample 999999/1000000");
  EXPECT_EQ(o.code, 3) << o.text;
}

TEST_F(KillTableProgram, a_sample_of_one_mutant_that_survives_ends_with_1) {
  const Outcome o = run(fmt::format("--sample {}/1000000", survivor().id - 1));  // ids count from 1
  EXPECT_EQ(o.code, 1) << o.text;
  EXPECT_TRUE(o.says("may have 0 survivors")) << o.text;
  const Outcome good = run(fmt::format("--sample {}/1000000", killed().id - 1));
  EXPECT_EQ(good.code, 0) << good.text;
}

TEST_F(KillTableProgram, a_report_is_written_where_it_is_asked_for) {
  const Outcome o = run(fmt::format("--only {} --out reports", killed().id));
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_TRUE(o.says("written: " + (directory_ / "here" / "reports").string())) << o.text;
  for (const char* name : {"kill_table.txt", "kill_table.json", "kill_table.html"}) {
    std::ifstream file(directory_ / "here" / "reports" / name);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("assay kill-table --corpus"), std::string::npos) << name << ": the command";
    EXPECT_NE(text.find("cores"), std::string::npos) << name << ": the machine";
  }
}

TEST_F(KillTableProgram, an_excuse_for_a_mutant_that_a_case_kills_is_a_finding) {
  put("wrong.list", row(killed()));
  const Outcome o = run(fmt::format("--only {}", killed().id), "wrong.list");
  EXPECT_EQ(o.code, 1) << o.text;
  EXPECT_TRUE(o.says("not equivalent: 'softmax rows=3 cols=40")) << o.text;
}

TEST_F(KillTableProgram, an_excused_survivor_counts_in_the_raw_rate_and_not_in_the_adjusted_one) {
  put("good.list", row(survivor()));
  const Outcome o = run(fmt::format("--only {},{}", killed().id, survivor().id), "good.list");
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_TRUE(o.says("killed 1 of 2 (50.0 %); less 1 excused: 1 of 1 (100.0 %)")) << o.text;
  const Outcome nothing = run(fmt::format("--only {}", survivor().id), "good.list");
  EXPECT_EQ(nothing.code, 3) << nothing.text;
}

TEST_F(KillTableProgram, an_excuse_that_is_stale_or_too_wide_is_a_finding_whatever_is_chosen) {
  put("stale.list", row(survivor(), 2));
  const Outcome stale = run(fmt::format("--only {}", killed().id), "stale.list");
  EXPECT_EQ(stale.code, 1) << stale.text;
  EXPECT_TRUE(stale.says("stale")) << stale.text;
  put("wide.list", fmt::format("{} @ {} @ *sqrt* @ 1 @ for the test\n", survivor().file, survivor().text));
  const Outcome wide = run(fmt::format("--only {}", killed().id), "wide.list");
  EXPECT_EQ(wide.code, 1) << wide.text;
  EXPECT_TRUE(wide.says("too wide")) << wide.text;
}

}  // namespace
}  // namespace assay::mutants
