// What two runs are told apart by.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "harness/cli/program_testing.hpp"

namespace {

using nlohmann::json;
using program_testing::assay;
using program_testing::json_of;
using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::Scratch;
using program_testing::text_of;

// A report of forty green cases, and what a test changes of it.
class Compare : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Scratch;
    ASSERT_EQ(assay("run -q 'softmax rows=1,2,3,4 cols=1,2,3,4,5,6,7,8,9,10 variant=correct' " + kFaulty +
                    " --json " + folder_->file("before.json") + " --record " + folder_->file("before.jsonl"))
                  .code,
              0);
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string before() { return folder_->file("before.json"); }
  static std::string record() { return folder_->file("before.jsonl"); }

  // Compares with the report after `change` was made to its results.
  static Outcome against(const std::function<void(json& results)>& change, const std::string& options = "") {
    json report = json_of(before());
    change(report["results"]);
    std::ofstream(folder_->file("after.json")) << report;
    return assay("compare " + before() + " " + folder_->file("after.json") + " --json " +
                 folder_->file("changes.json") + " --md " + folder_->file("changes.md") + " --html " +
                 folder_->file("changes.html") + " " + options);
  }
  static std::size_t count(const std::string& kind) {
    return json_of(folder_->file("changes.json"))["counts"][kind];
  }
  static Scratch* folder_;
};
Scratch* Compare::folder_ = nullptr;

void make_wrong(json& row, double ratio) {
  row["verdict"] = "wrong";
  row["green"] = false;
  row["summary"] = "y: 1 of 24 | beyond";
  row["worst_ratio"] = ratio;
}

TEST_F(Compare, a_run_and_its_record_are_the_same_run) {
  const Outcome o = assay("compare " + before() + " " + record() +
                          " --fail-on red,other,worse,lost,path,contract,drift,slower,added");
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_NE(o.text.find("40 cases in both; nothing changed"), std::string::npos) << o.text;
}

TEST_F(Compare, a_new_finding_is_told_with_its_repro_and_one_that_is_gone_as_fixed) {
  const Outcome red = against([](json& rows) { make_wrong(rows[7], 3); });
  EXPECT_EQ(red.code, 1);
  EXPECT_EQ(count("red"), 1u);
  EXPECT_NE(red.text.find("pass -> wrong (3 x)"), std::string::npos) << red.text;
  EXPECT_NE(red.text.find("assay run"), std::string::npos) << red.text;
  const std::string markdown = text_of(folder_->file("changes.md"));
  EXPECT_NE(markdown.find("1 of 24 \\| beyond"), std::string::npos) << markdown;
  EXPECT_NE(text_of(folder_->file("changes.html")).find("1 of 24 | beyond"), std::string::npos);
  const std::string after = folder_->file("after.json");
  const Outcome fixed = assay("compare " + after + " " + before());
  EXPECT_EQ(fixed.code, 0) << fixed.text;
  EXPECT_NE(fixed.text.find("fixed: 1"), std::string::npos) << fixed.text;
}

TEST_F(Compare, a_finding_does_not_hide_a_greater_one_or_another) {
  json report = json_of(before());
  make_wrong(report["results"][7], 2);
  std::ofstream(folder_->file("known.json")) << report;
  const auto with = [&](const std::function<void(json&)>& change) {
    json later = report;
    change(later["results"][7]);
    std::ofstream(folder_->file("later.json")) << later;
    return assay("compare " + folder_->file("known.json") + " " + folder_->file("later.json"));
  };
  EXPECT_EQ(with([](json&) {}).code, 0);
  EXPECT_EQ(with([](json& row) { row["worst_ratio"] = 19; }).code, 0);
  EXPECT_EQ(with([](json& row) { row["worst_ratio"] = 2000; }).code, 1);
  EXPECT_EQ(with([](json& row) { row["worst_ratio"] = "inf"; }).code, 1);
  EXPECT_EQ(with([](json& row) { row["verdict"] = "crash"; }).code, 1);
}

TEST_F(Compare, another_path_and_a_lost_case_are_findings_and_another_contract_where_asked) {
  EXPECT_EQ(against([](json& rows) { rows[3]["kernels"] = {"softmax_generic"}; }).code, 1);
  EXPECT_EQ(count("path"), 1u);
  EXPECT_EQ(against([](json& rows) { rows.erase(5); }).code, 1);
  EXPECT_EQ(count("lost"), 1u);
  EXPECT_EQ(against([](json& rows) { rows[3]["contract"] = "acc=f16"; }).code, 0);
  EXPECT_EQ(count("contract"), 1u);
  EXPECT_EQ(against([](json& rows) { rows[3]["contract"] = "acc=f16"; }, "--fail-on contract").code, 1);
}

TEST_F(Compare, a_pass_drifts_beyond_all_that_was_and_not_within) {
  const auto drift = [](double factor) {
    return [factor](json& rows) { rows[9]["worst_ratio"] = factor * rows[9]["worst_ratio"].get<double>(); };
  };
  against([](json& rows) { rows[9]["worst_ratio"] = 0.5; });
  const std::string wide = folder_->file("wide.json");
  std::filesystem::copy_file(folder_->file("after.json"), wide);
  EXPECT_EQ(against(drift(3), "--fail-on drift").code, 1);
  EXPECT_EQ(against(drift(1.9), "--fail-on drift").code, 0);
  against([](json& rows) { rows[9]["worst_ratio"] = 0.9; });
  EXPECT_EQ(
      assay("compare --fail-on drift " + wide + " " + before() + " " + folder_->file("after.json")).code, 0);
}

TEST_F(Compare, a_machine_that_is_slower_as_a_whole_is_no_finding_and_one_op_that_is_slower_is) {
  json slow = json_of(before());
  std::size_t at = 0;
  for (json& row : slow["results"]) {
    row["kernel_seconds"] = 1e-3;
    row["op"] = ++at % 4 == 0 ? "softmax" : "rmsnorm";  // ten of forty are another group
  }
  std::ofstream(folder_->file("timed.json")) << slow;
  const auto compared = [&](double all, double group) {
    json later = slow;
    std::size_t n = 0;
    for (json& row : later["results"])
      row["kernel_seconds"] =
          1e-3 * all * (row["op"] == "softmax" ? group : 1) * (1 + 0.01 * static_cast<double>(n++ % 7));
    std::ofstream(folder_->file("later.json")) << later;
    return assay("compare --fail-on slower " + folder_->file("timed.json") + " " +
                 folder_->file("later.json"));
  };
  EXPECT_EQ(compared(3, 1).code, 0);
  const Outcome o = compared(3, 2);
  EXPECT_EQ(o.code, 1) << o.text;
  EXPECT_NE(o.text.find("softmax"), std::string::npos) << o.text;
}

TEST_F(Compare, history_follows_a_case_and_says_where_its_verdict_or_path_changed) {
  against([](json& rows) { make_wrong(rows[7], 3); });
  const std::string after = folder_->file("after.json"), page = folder_->file("trend.html");
  const std::string line = json_of(after)["results"][7]["case"];
  const Outcome one = assay("history '" + line + "' " + before() + " " + after);
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_NE(one.text.find("<- another verdict"), std::string::npos) << one.text;
  EXPECT_NE(one.text.find("1 case in 2 runs; 1 changed"), std::string::npos) << one.text;
  const Outcome changed =
      assay("history '' " + before() + " " + record() + " " + after + " --changed --html " + page);
  EXPECT_NE(changed.text.find("1 case in 3 runs; 1 changed"), std::string::npos) << changed.text;
  EXPECT_NE(text_of(page).find("1 cases in 3 runs; 1 changed"), std::string::npos);
  // A word is a whole one, and the runs of before alone show no change.
  EXPECT_NE(assay("history 'rows=1 cols=1' " + before()).text.find("1 case in 1 runs; 0 changed"),
            std::string::npos);
  EXPECT_EQ(assay("history cols=77 " + before()).code, 3);
  EXPECT_EQ(assay("history cols=1 /nowhere.json").code, 2);
}

TEST_F(Compare, what_was_red_is_begun_first) {
  against([](json& rows) { make_wrong(rows[31], 3); });
  const std::string after = folder_->file("after.json");
  const std::string line = json_of(after)["results"][31]["case"];
  const auto first_of = [&](const std::string& option) {
    const std::string again = folder_->file("again.jsonl");
    std::filesystem::remove(again);
    const Outcome o = assay("run -j 1 'softmax rows=1,2,3,4 cols=1,2,3,4,5,6,7,8,9,10 variant=correct' " +
                            kFaulty + " --record " + again + option);
    EXPECT_EQ(o.code, 0) << o.text;
    std::istringstream lines(text_of(again));
    std::string header, first;
    std::getline(lines, header), std::getline(lines, first);
    return json::parse(first)["case"].get<std::string>();
  };
  EXPECT_NE(first_of(""), line);
  EXPECT_EQ(first_of(" --failed-first " + after), line);
  EXPECT_NE(first_of(" --failed-first " + folder_->file("none_yet.json")), line);
}

TEST_F(Compare, what_is_no_run_is_refused) {
  std::ofstream(folder_->file("other.json")) << R"({"schema": "something"})";
  for (const std::string& arguments :
       {before(), before() + " /nowhere.json", before() + " " + folder_->file("other.json"),
        before() + " " + record() + " --fail-on rde", before() + " " + record() + " --drift 0.5"}) {
    const Outcome o = assay("compare " + arguments);
    EXPECT_EQ(o.code, 2) << arguments << "\n" << o.text;
  }
}

}  // namespace
