// What a project keeps: its list of known findings (--expected, --write-expected), its assay.toml; and what a
// run says as Markdown.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/program_testing.hpp"

namespace {

using program_testing::assay;
using program_testing::json_of;
using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::Scratch;
using program_testing::text_of;

const std::string kRun = "run -q 'softmax rows=3 cols=8 variant=wrong,fallback,read_past' " + kFaulty;

std::string with(const std::string& text, const std::string& what, const std::string& by) {
  std::string out = text;
  const auto at = out.find(what);
  EXPECT_NE(at, std::string::npos) << what << "\n" << text;
  return out.replace(at, what.size(), by);
}

class Expected : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(assay(kRun + " --write-expected " + scratch_.file("written.list")).code, 1);
    written_ = text_of(scratch_.file("written.list"));
  }
  Outcome under(const std::string& list, const std::string& options = "") {
    std::ofstream(scratch_.file("known.list")) << list;
    return assay(kRun + " --expected " + scratch_.file("known.list") + " " + options);
  }
  Scratch scratch_;
  std::string written_;
};

TEST_F(Expected, what_a_run_writes_explains_that_run_and_nothing_else) {
  const Outcome o =
      under(written_, "--junit " + scratch_.file("r.xml") + " --json " + scratch_.file("r.json"));
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_NE(text_of(scratch_.file("r.xml")).find("message=\"not examined yet"), std::string::npos);
  EXPECT_EQ(json_of(scratch_.file("r.json"))["summary"]["expected"], 3);
  const Outcome other = assay("run -q 'softmax rows=3 cols=9 variant=wrong' " + kFaulty + " --expected " +
                              scratch_.file("known.list"));
  EXPECT_EQ(other.code, 1) << other.text;
}

TEST_F(Expected, a_small_finding_hides_no_great_one) {
  const auto at = written_.find("@ratio=");
  ASSERT_NE(at, std::string::npos);
  const std::string word = written_.substr(at, written_.find(' ', at) - at);
  EXPECT_EQ(under(with(written_, word, "@ratio=1000000")).code, 0);
  const Outcome o = under(with(written_, word, "@ratio=2"));  // it is off by a hundred limits
  EXPECT_EQ(o.code, 1) << o.text;
  EXPECT_NE(o.text.find("FAIL wrong softmax"), std::string::npos) << o.text;
}

TEST_F(Expected, a_date_that_has_passed_explains_nothing_and_is_said) {
  EXPECT_EQ(under(with(written_, " # ", " @owner=anna @until=2999-12-31 # ")).code, 0);
  const Outcome o = under(with(written_, " # ", " @until=2001-12-31 # "));
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.text.find("expired 2001-12-31"), std::string::npos) << o.text;
}

TEST_F(Expected, what_comes_by_chance_has_a_rate_and_more_of_it_is_red) {
  const std::string all = "wrong softmax variant=wrong @rate=0.11 # by chance\n";
  // One of thirty is what the rate lets expect, and none is no reason to take the line out; thirty of thirty
  // are not.
  const auto judged = [&](const std::string& cases) {
    std::ofstream(scratch_.file("known.list")) << all;
    return assay("run -q -j 1 " + cases + kFaulty + " --expected " + scratch_.file("known.list"));
  };
  EXPECT_EQ(judged("'softmax rows=3 cols=8 variant=wrong' 'softmax rows=3 cols=9 variant=correct' ").code, 0);
  EXPECT_EQ(judged("'softmax rows=3 cols=9 variant=correct' ").code, 0);
  const Outcome o = judged("'softmax rows=3 cols=8 variant=wrong seed=1,2,3,4,5,6,7,8,9,10,11,12' ");
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.text.find("6 wrong, 6 known"), std::string::npos)
      << o.text;  // P(Binomial(12, 0.11) >= 6) = 9e-4, >= 7: 9e-5
}

TEST_F(Expected, one_that_is_fixed_is_said) {
  const Outcome o = under(written_ + "crash softmax rows=3 variant=wrong # it crashed\n");
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.text.find("stale expectation, remove it"), std::string::npos) << o.text;
}

TEST_F(Expected, what_some_machines_alone_have_is_no_finding_on_others) {
  EXPECT_EQ(under(written_ + "crash softmax rows=3 variant=wrong @machine=odd # there\n").code, 0);
}

TEST_F(Expected, what_is_no_condition_is_refused) {
  for (const std::string word : {"@ratio=0.5", "@ratio=inf", "@ratio=2x", "@rate=0", "@rate=1", "@rate=x",
                                 "@until=tomorrow", "@until=2027-13-01", "@owner=", "@machine=", "@who=me"}) {
    const Outcome o = under("wrong softmax " + word + " # why\n");
    EXPECT_EQ(o.code, 2) << word << "\n" << o.text;
    EXPECT_NE(o.text.find("known.list:1"), std::string::npos) << o.text;
  }
  EXPECT_EQ(assay(kRun + " --expected /nowhere.list").code, 2);
}

TEST_F(Expected, markdown_has_the_matrix_the_findings_and_their_repro_and_is_not_broken_by_a_strangers_text) {
  const std::string file = scratch_.file("r.md");
  EXPECT_EQ(
      assay("run -q 'softmax rows=3 cols=8 variant=correct,wrong,paints' " + kFaulty + " --md " + file).code,
      1);
  const std::string text = text_of(file);
  EXPECT_EQ(text.find("### not green: 3 cases"), 0u) << text;
  EXPECT_NE(text.find("op       formats"), std::string::npos) << text;
  EXPECT_NE(text.find("assay run 'softmax rows=3 cols=8 seed=1"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

class Config : public testing::Test {
 protected:
  // The program in a folder with this assay.toml.
  Outcome under(const std::string& toml, const std::string& arguments) {
    std::ofstream(scratch_.file("assay.toml")) << toml;
    return ::assay::run_command("cd " + scratch_.file("") + " && " ASSAY_PROGRAM " " + arguments);
  }
  Scratch scratch_;
};

TEST_F(Config, gives_cases_backends_and_flags_which_the_command_line_replaces) {
  const std::string toml =
      "[run]\ncases = [\"softmax rows=3 cols=8,9 variant=correct\", \"softmax rows=4 cols=8 variant=wrong\"] "
      " # three\n"
      "backend = [\"" FAULTY_SOFTMAX "\"]\nquiet = true\nstrict = false\n[laws]\nbudget = 3\n";
  const Outcome all = under(toml, "run");
  EXPECT_EQ(all.code, 1);
  EXPECT_NE(all.text.find("3 cases: 2 pass, 1 wrong"), std::string::npos) << all.text;
  EXPECT_EQ(all.text.find("3 cases, "), std::string::npos) << all.text;  // quiet
  const Outcome typed = under(toml, "run 'softmax rows=2 cols=5 variant=correct'");
  EXPECT_NE(typed.text.find("1 case: 1 pass"), std::string::npos) << typed.text;
  const Outcome none = under(toml, "--config '' run 'softmax rows=2 cols=5 variant=correct' " + kFaulty);
  EXPECT_NE(none.text.find("1 case, "), std::string::npos) << none.text;
}

TEST_F(Config, leaves_a_record_alone_that_is_resumed) {
  const std::string record = scratch_.file("r.jsonl"), cases = "'softmax rows=2 cols=5 variant=correct' ";
  ASSERT_EQ(assay("run -q " + cases + kFaulty + " --record " + record).code, 0);
  const Outcome o = under("[run]\ncases = \"norms\"\nbackend = \"cpu\"\n", "run --resume " + record);
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_NE(o.text.find("1 case: 1 pass"), std::string::npos) << o.text;
}

TEST_F(Config, says_what_it_does_not_know_with_its_line) {
  for (const auto& [toml, said] : std::vector<std::pair<std::string, std::string>>{
           {"[run]\njobs = 1\nbacend = \"cpu\"\n",
            "assay.toml:3: assay run has no option 'bacend'; did you mean 'backend'?"},
           {"[rum]\njobs = 1\n", "assay.toml:2: no subcommand 'rum'; did you mean 'run'?"},
           {"jobs = 1\n", "assay.toml:1: 'jobs' stands in no section"},
           {"[run]\njobs =\n", "assay.toml:2: "},
           {"[run]\nbackend = { a = 1 }\n", "assay.toml:2: backend: allowed: a text"},
           {"[run]\njobs = \"two\"\n", "--jobs: two: allowed: 1..1024"}}) {
    const Outcome o = under(toml, "run 'softmax rows=2 cols=5 variant=correct' " + kFaulty);
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_NE(o.text.find(said), std::string::npos) << o.text;
  }
  EXPECT_EQ(assay("--config /nowhere.toml run 'softmax rows=2 cols=5 variant=correct' " + kFaulty).code, 2);
}

TEST(Console, stops_at_the_first_finding_where_that_is_asked_for) {
  const std::string cases = "run -q -j 1 'softmax rows=3 cols=8 variant=correct,wrong,fallback' " + kFaulty;
  const Outcome all = assay(cases);
  EXPECT_NE(all.text.find("3 cases: 1 pass, 1 wrong, 1 fallback"), std::string::npos) << all.text;
  const Outcome first = assay(cases + " -x");
  EXPECT_EQ(first.code, 1);
  EXPECT_NE(first.text.find("2 cases: 1 pass, 1 wrong;"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find("1 of 3 cases were left"), std::string::npos) << first.text;
}

TEST(Console, lists_cases_that_can_be_given_back) {
  const Outcome listed = assay("run --list 'softmax rows=3,4 cols=8 fill=peaked,ramp' " + kFaulty);
  EXPECT_EQ(listed.code, 0);
  EXPECT_EQ(std::count(listed.text.begin(), listed.text.end(), '\n'), 4) << listed.text;
  const std::string line = listed.text.substr(0, listed.text.find('\n'));
  EXPECT_EQ(assay("run --list '" + line + "'").text, line + "\n");
}

TEST(Console, says_what_cases_will_cost_before_they_run) {
  const Outcome o =
      assay("run --list --cost 'softmax rows=1,600 cols=1000' 'logsumexp rows=4 cols=8' -b cpu -j 2");
  EXPECT_EQ(o.code, 0) << o.text;
  const std::regex kRow(
      R"( *[\d.]+ m?s +[\d.]+ [MG]iB  (softmax|logsumexp) rows=\d+ cols=\d+ seed=1 backend=cpu)");
  std::istringstream lines(o.text);
  std::vector<double> seconds;
  for (std::string line; seconds.size() < 3 && std::getline(lines, line);) {
    ASSERT_TRUE(std::regex_match(line, kRow)) << line;
    seconds.push_back(std::stod(line) * (line.find(" ms ") < 10 ? 1e-3 : 1));
  }
  EXPECT_GT(seconds.at(1), 2 * seconds.at(0)) << o.text;
  EXPECT_TRUE(std::regex_search(
      o.last_line(),
      std::regex(
          R"(^3 cases: [\d.]+ m?s of work, [\d.]+ m?s with 2 jobs; at most \d+ MiB of memory in a case; from \d judged)")))
      << o.text;
  const Outcome alone = assay("run --cost 'softmax rows=1 cols=8' -b cpu");
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.text.find("assay run --list --cost"), std::string::npos) << alone.text;
}

TEST(Console, is_coloured_on_a_terminal_alone_and_says_which_build_it_is) {
  const auto on_a_terminal = [](const std::string& before) {
    return ::assay::run_command(before +
                                " TERM=xterm script -qec \"" ASSAY_PROGRAM
                                " run -q 'softmax rows=3 cols=8 variant=wrong' " +
                                kFaulty + "\" /dev/null")
        .text;
  };
  EXPECT_NE(on_a_terminal("NO_COLOR=").find("\x1b[1m\x1b[31mFAIL"), std::string::npos);
  EXPECT_EQ(on_a_terminal("NO_COLOR=1").find("\x1b["), std::string::npos);
  const Outcome version = assay("--version");
  EXPECT_NE(version.text.find("(commit "), std::string::npos) << version.text;
}

}  // namespace
