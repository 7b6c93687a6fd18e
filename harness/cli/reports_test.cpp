// What a run promises of its reports and arguments: files are whole, nothing else is touched, the same cases
// give the same report.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "harness/cli/program_testing.hpp"

namespace {

using nlohmann::json;
using program_testing::assay;
using program_testing::json_of;
using program_testing::kFaulty;
using program_testing::linked;
using program_testing::Outcome;
using program_testing::Scratch;
using program_testing::text_of;
using program_testing::timeless;
namespace fs = std::filesystem;

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
  EXPECT_TRUE(piped.last_line().starts_with("all green; 1 case: 1 pass; 24 outputs")) << piped.text;
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
  const std::string report = scratch.file("r.json");
  const std::string slow =
      "run -q 'softmax rows=1,2,3 cols=2,33,300 variant=slow' " + kFaulty + " --json " + report;
  const std::string second = "run -q 'softmax rows=3 cols=8' -b cpu --json " + report;
  const Outcome o = assay::run_command("{ " ASSAY_PROGRAM " " + slow + " & while [ ! -e " + report +
                                       ".jsonl ]; do sleep 0.01; "
                                       "done; " ASSAY_PROGRAM " " +
                                       second + "; echo code $?; wait; }");
  EXPECT_NE(o.text.find("another run is writing it"), std::string::npos) << o.text;
  EXPECT_NE(o.text.find("code 2"), std::string::npos) << o.text;
  EXPECT_EQ(json_of(report)["results"].size(), 9U);
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

TEST(Records, what_was_changed_after_it_was_written_is_refused) {
  const Scratch scratch;
  const std::string record = scratch.file("r.jsonl");
  ASSERT_EQ(assay("run -q 'softmax rows=3 cols=2,33 variant=wrong' " + kFaulty + " --record " + record).code,
            1);
  const std::string whole = text_of(record);
  ASSERT_EQ(linked(whole), whole);
  const auto refused = [&](const std::string& text, const std::string& why) {
    std::ofstream(record) << text;
    const Outcome o = assay("run -q --resume " + record);
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_NE(o.text.find(why), std::string::npos) << o.text;
  };
  std::string pass = whole;
  const std::string wrong = "\"verdict\":\"wrong\",\"green\":false",
                    good = "\"verdict\":\"pass\",\"green\":true";
  pass.replace(pass.find(wrong), wrong.size(), good);
  refused(pass, "line 2: it, or a line before it, was changed");
  const std::size_t second = whole.find('\n') + 1, third = whole.find('\n', second) + 1;
  refused(whole.substr(0, second) + whole.substr(third), "line 2: it, or a line before it, was changed");
  refused(whole.substr(0, third) + whole.substr(second), "line 3: it, or a line before it, was changed");
  std::string green = whole;
  green.replace(green.find(wrong), wrong.size(), "\"verdict\":\"wrong\",\"green\":true");
  refused(linked(green), "verdict wrong and green true contradict each other");
  std::ofstream(record) << whole;
  EXPECT_EQ(assay("run -q --resume " + record).code, 1);
  EXPECT_EQ(assay("run -q --resume /dev/zero").code, 2);
}

// A plug-in that knows how records are made, while the run goes on: the judge has the fingerprint in memory.
TEST(Records, what_is_written_anew_while_the_run_goes_on_is_noticed) {
  const Scratch scratch;
  const std::string record = scratch.file("r.jsonl");
  const auto run = [&](const std::string& variant) {
    return ::assay::run_command(
        "RECORD_TO_EDIT=" + record +
        " " ASSAY_PROGRAM
        " run -q --jobs 1 'softmax rows=3 cols=2 variant=wrong' 'softmax rows=3 cols=8 variant=" +
        variant + "' 'softmax rows=3 cols=33 variant=correct' " + kFaulty + " --record " + record);
  };
  const Outcome edited = run("edits_record");
  EXPECT_EQ(edited.code, 1) << edited.text;
  EXPECT_NE(edited.text.find("somebody else has written to it while the run went on"), std::string::npos)
      << edited.text;
  EXPECT_NE(text_of(record).find("\"verdict\":\"pass\",\"green\":true"), std::string::npos);
  EXPECT_EQ(assay("run -q --resume " + record).code, 2);

  const Outcome honest = run("correct");
  EXPECT_EQ(honest.code, 1);
  EXPECT_EQ(honest.text.find("somebody else"), std::string::npos) << honest.text;
  // What a record ends with, told apart from it: another one that holds in itself is not gone on with.
  const std::string whole = text_of(record);
  const std::string chain = whole.substr(whole.size() - 19, 16);
  EXPECT_EQ(assay("run -q --resume " + record + " --chain " + chain).code, 1);
  const std::string wrong = "\"verdict\":\"wrong\",\"green\":false";
  std::string pass = whole;
  pass.replace(pass.find(wrong), wrong.size(), "\"verdict\":\"pass\",\"green\":true");
  std::ofstream(record) << linked(pass);
  const Outcome other = assay("run -q --resume " + record + " --chain " + chain);
  EXPECT_EQ(other.code, 2) << other.text;
  EXPECT_NE(other.text.find("it was written to since"), std::string::npos) << other.text;
  EXPECT_EQ(assay("run -q --resume " + record).code, 0);
  EXPECT_EQ(assay("run -q 'softmax rows=3 cols=8' --chain " + chain + " " + kFaulty).code, 2);
}

TEST(Reports, no_ratio_that_a_double_can_be_ends_a_report) {
  for (const std::string ratio : {"1e-310", "1.7976931348623157e+308", "0.0"}) {
    const Scratch scratch;
    const std::string record = scratch.file("r.jsonl"), page = scratch.file("r.html");
    ASSERT_EQ(assay("run -q 'softmax rows=3 cols=8 backend=cpu' --record " + record).code, 0);
    std::string text = text_of(record);
    const std::string key = "\"worst_ratio\":";
    const auto at = text.find(key);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at + key.size(), text.find(',', at) - at - key.size(), ratio);
    std::ofstream(record) << linked(text);
    const Outcome o =
        assay("run -q --resume " + record + " --html " + page + " --json " + scratch.file("r.json") +
              " --junit " + scratch.file("r.xml") + " --md " + scratch.file("r.md"));
    EXPECT_EQ(o.code, 0) << o.text;
    EXPECT_NE(text_of(page).find(ratio), std::string::npos);
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
