// The program as a user meets it: exit codes, messages, verdicts, reports, repros.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/cli/program_testing.hpp"

namespace {

using program_testing::assay;
using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::report_file;
namespace fs = std::filesystem;

nlohmann::json run_json(const std::string& arguments, int* code = nullptr) {
  const std::string path = report_file("json");
  const Outcome o = assay("run -q --json " + path + " " + arguments);
  if (code) *code = o.code;
  std::ifstream file(path);
  if (!file) ADD_FAILURE() << o.text;
  auto json = nlohmann::json::parse(file);
  std::remove(path.c_str());
  return json;
}

TEST(Exit, wrong_usage_is_2_with_what_is_allowed) {
  const std::map<std::string, std::string> kMistakes = {
      {"run 'sofmax rows=1 cols=2'", "did you mean 'softmax'"},
      {"run 'softmax rows=1 cols=2' -b cuba", "no backend 'cuba'"},
      {"run 'softmax rows=1 cols=2 fill=gausian'", "did you mean 'gaussian'"},
      {"run 'softmax rows=0 cols=2'", "1..1048576"},
      {"run 'dequantize rows=1 cols=33 from=q8_0'", "32"},
      {"run nowhere.cases", "cannot be read"},
      {"run 'softmax rows=1 cols=2' --shard 3/2", "0 <= i < n"},
      {"run 'softmax rows=1 cols=2' --filter '('", "--filter"},
      {"run 'softmax rows=1 cols=2' --junit /nowhere/x.xml", "cannot be written"},
      {"list opz", "did you mean 'ops'"},
      {"", "subcommand"}};
  for (const auto& [arguments, message] : kMistakes) {
    const Outcome o = assay(arguments);
    EXPECT_EQ(o.code, 2) << arguments << "\n" << o.text;
    EXPECT_NE(o.text.find(message), std::string::npos) << arguments << "\n" << o.text;
  }
}

TEST(Exit, nothing_executed_is_3) {
  EXPECT_EQ(assay("run 'softmax rows=1 cols=2' -b cpu --filter no_such_case").code, 3);
}

TEST(Exit, a_backend_whose_device_is_missing_is_125_with_its_reason) {
  const Outcome o = assay("run 'softmax rows=1 cols=2' -b " FAULTY_SOFTMAX ":absent");
  EXPECT_EQ(o.code, 125);
  EXPECT_NE(o.text.find("no such device here"), std::string::npos) << o.text;
}

TEST(Exit, green_is_0_and_a_finding_is_1) {
  EXPECT_EQ(assay("run 'softmax rows=3 cols=8 variant=correct' -q " + kFaulty).code, 0);
  EXPECT_EQ(assay("run 'softmax rows=3 cols=8 variant=wrong' -q " + kFaulty).code, 1);
}

TEST(Arguments, a_case_may_follow_the_backend) {
  EXPECT_EQ(assay("run -b cpu 'softmax rows=1 cols=2' 'softmax rows=1 cols=3' -q").code, 0);
  EXPECT_EQ(assay("explain -b cpu 'softmax rows=1 cols=2'").code, 0);
}

// One run over all of them: each fault has its own verdict, and the cases behind it still run.
TEST(Verdicts, each_way_of_going_wrong_has_its_own) {
  const std::map<std::string, std::string> kExpected = {{"correct", "pass"},
                                                        {"segfault", "crash"},
                                                        {"hang", "hang"},
                                                        {"overrun", "overrun"},
                                                        {"unwritten", "unwritten"},
                                                        {"read_past", "leak"},
                                                        {"other_bits", "nondeterministic"},
                                                        {"varies", "pass"},
                                                        {"varies_beyond", "wrong"},
                                                        {"wrong", "wrong"},
                                                        {"nan", "wrong"},
                                                        {"fallback", "fallback"},
                                                        {"refuses", "failed"},
                                                        {"bad_contract", "failed"},
                                                        {"keeps_buffer", "pass"},
                                                        {"memoises", "pass"},
                                                        {"paints", "failed"},
                                                        {"vague", "pass"},
                                                        {"slow", "pass"},
                                                        {"twice", "pass"}};
  int code = 0;
  const auto json = run_json("'softmax rows=3 cols=8 variant=all' --timeout 0.5 --jobs 1 " + kFaulty, &code);
  EXPECT_EQ(code, 1);
  std::map<std::string, std::string> got;
  for (const auto& r : json["results"]) {
    const std::string line = r["case"];
    got[line.substr(line.rfind('=') + 1)] = r["verdict"];
  }
  EXPECT_EQ(got, kExpected);
}

// The plug-in announces softmax_fast; what a witness saw decides.
TEST(Verdicts, a_dead_path_is_a_fallback_whatever_the_backend_says) {
  const auto verdict = [](const char* seen, std::string* summary) {
    setenv("ASSAY_WITNESS", FAKE_WITNESS_FILE, 1);
    setenv("FAKE_WITNESS", seen, 1);
    const auto json = run_json("'softmax rows=3 cols=8 variant=correct' " + kFaulty);
    unsetenv("ASSAY_WITNESS");
    unsetenv("FAKE_WITNESS");
    const auto& result = json["results"][0];
    *summary = result["summary"];
    if (result.contains("witness")) {
      EXPECT_EQ(result["witness"]["by"], "fake");
    }
    return std::string(result["verdict"]);
  };
  std::string summary;
  EXPECT_EQ(verdict("void softmax_fast<8>(float const*)", &summary), "pass") << summary;
  EXPECT_EQ(verdict("void softmax_generic<8>(float const*)", &summary), "fallback");
  EXPECT_NE(summary.find("the witness fake saw: void softmax_generic<8>(float const*)"), std::string::npos)
      << summary;
  EXPECT_EQ(verdict("", &summary), "fallback");
  EXPECT_EQ(verdict("blind", &summary), "pass") << summary;  // nobody watches, and the notes say so
}

TEST(Verdicts, an_unsupported_case_that_no_list_expects_is_a_finding) {
  const Outcome o = assay("run 'logsumexp rows=3 cols=8' -q " + kFaulty);
  EXPECT_EQ(o.code, 1) << o.text;
  EXPECT_NE(o.text.find("unsupported"), std::string::npos) << o.text;
}

TEST(Repro, the_printed_line_repeats_the_bits) {
  const Outcome first =
      assay("run 'softmax rows=3,5 cols=8,9 fill=gaussian,ramp variant=wrong seed=11' -q " + kFaulty);
  const auto at = first.text.find("assay run '");
  ASSERT_NE(at, std::string::npos) << first.text;
  const std::string line = first.text.substr(at + 11, first.text.find('\'', at + 11) - at - 11);
  const Outcome again = assay("run '" + line + "' -q");
  const auto block = [](const std::string& text, const std::string& key) {
    const auto start = text.find("FAIL wrong " + key);
    return text.substr(start, text.find("repro", start) - start);
  };
  EXPECT_EQ(block(first.text, line), block(again.text, line));
  EXPECT_NE(block(again.text, line).find("got"), std::string::npos);
}

std::vector<std::string> lines_of(const std::string& arguments) {
  const auto json = run_json(arguments);
  std::vector<std::string> lines;
  for (const auto& r : json["results"]) lines.push_back(r["case"]);
  return lines;
}

TEST(Shards, two_halves_are_the_whole) {
  const std::string cases = "'softmax rows=1,2,3 cols=2,3 fill=gaussian,ramp variant=correct' " + kFaulty;
  auto whole = lines_of(cases), parts = lines_of(cases + " --shard 0/2");
  const auto second = lines_of(cases + " --shard 1/2");
  EXPECT_EQ(parts.size(), 6U);
  parts.insert(parts.end(), second.begin(), second.end());
  std::sort(whole.begin(), whole.end());
  std::sort(parts.begin(), parts.end());
  EXPECT_EQ(whole.size(), 12U);
  EXPECT_EQ(parts, whole);
}

TEST(Jobs, the_order_of_results_does_not_depend_on_them) {
  const std::string cases = "'softmax rows=1,2,3,4,5 cols=2,300 variant=correct,wrong' " + kFaulty;
  const auto one = lines_of(cases + " --jobs 1");
  EXPECT_EQ(one.size(), 20U);
  EXPECT_EQ(one, lines_of(cases + " --jobs 4"));
}

TEST(Reports, junit_counts_failures) {
  const std::string path = report_file("xml");
  assay("run -q --junit " + path + " 'softmax rows=3 cols=8 variant=correct,wrong' " + kFaulty);
  std::ifstream file(path);
  const std::string xml((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(xml.find("failures=\"1\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("tests=\"2\""), std::string::npos) << xml;
  std::remove(path.c_str());
}

// Directory of suites with one line in expected.list, and a run of variants under it.
struct Expecting {
  explicit Expecting(const std::string& line) {
    fs::create_directories(directory_);
    std::ofstream(directory_ / "expected.list") << line << "\n";
    setenv("ASSAY_SUITES", directory_.c_str(), 1);
  }
  ~Expecting() {
    unsetenv("ASSAY_SUITES");
    fs::remove_all(directory_);
  }
  Expecting(const Expecting&) = delete;
  Expecting& operator=(const Expecting&) = delete;

 private:
  fs::path directory_ = report_file("suites");
};

// The kernel that was expected to be wrong passes: whoever reads only a report must see why the run is red.
TEST(Reports, a_stale_expectation_is_a_failure_in_each) {
  const std::string path = report_file("xml");
  const auto reports = [&](const char* variant, int& code, nlohmann::json& json) {
    json = run_json("--junit " + path + " 'softmax rows=3 cols=8 variant=" + variant + "' " + kFaulty, &code);
    std::ifstream file(path);
    const std::string xml((std::istreambuf_iterator<char>(file)), {});
    std::remove(path.c_str());
    return xml;
  };
  const auto has = [](const std::string& xml, const std::string& text) {
    return xml.find(text) != std::string::npos;
  };
  int code = 0;
  nlohmann::json json;
  {
    const Expecting stale("wrong softmax variant=correct # a defect that was repaired");
    const std::string xml = reports("correct", code, json);
    EXPECT_EQ(code, 1);
    EXPECT_TRUE(has(xml, "<testsuites name=\"assay\" tests=\"2\" failures=\"1\"")) << xml;
    EXPECT_TRUE(has(xml, "<testsuite name=\"expectations\" tests=\"1\" failures=\"1\"")) << xml;
    EXPECT_TRUE(has(xml, "expected.list:1: wrong softmax variant=correct")) << xml;
    ASSERT_EQ(json["failures"].size(), 1U);
    EXPECT_EQ(json["failures"][0]["kind"], "stale");
    EXPECT_FALSE(json["summary"]["green"]);
  }
  const Expecting confirmed("wrong softmax variant=wrong # a defect that is known");
  const std::string xml = reports("wrong", code, json);
  EXPECT_EQ(code, 0) << xml;
  EXPECT_TRUE(has(xml, "<testsuites name=\"assay\" tests=\"1\" failures=\"0\"")) << xml;
  EXPECT_FALSE(has(xml, "expectations")) << xml;
  EXPECT_TRUE(json["failures"].empty());
  EXPECT_TRUE(json["summary"]["green"]);
}

// A copy of the program with its worker, and with the plug-in that its self-test is to judge, or without it.
struct Installation {
  explicit Installation(const char* plugin, bool worker = true) {
    fs::create_directories(directory_ / "selftest");
    fs::copy_file(ASSAY_PROGRAM, directory_ / "assay");
    if (worker) fs::copy_file(ASSAY_WORKER_PROGRAM, directory_ / "assay-worker");
    if (plugin != nullptr) fs::copy_file(plugin, directory_ / "selftest" / "assay_misbehaving.so");
  }
  ~Installation() { fs::remove_all(directory_); }
  Installation(const Installation&) = delete;
  Installation& operator=(const Installation&) = delete;
  Outcome selftest() const { return ::assay::run_command((directory_ / "assay").string() + " selftest"); }

 private:
  fs::path directory_ = report_file("installation");
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Selftest, passes_on_this_build_and_names_what_it_noticed) {
  const Outcome o = assay("selftest");
  EXPECT_EQ(o.code, 0) << o.text;
  for (const char* part : {"write_past_end: overrun: ", "read_gap: leak: ", "loop_for_ever: hang: ",
                           "write_null: crash: SIGSEGV", "skip_row: unwritten: ",
                           "other_bits: nondeterministic: ", "change_input: input_changed: ",
                           "throw_standard: failed: ", "write_poison_values: no misdeed, and none seen"})
    EXPECT_EQ(count(o.text, part), 1U) << part << "\n" << o.text;
}

TEST(Selftest, fails_when_misdeeds_go_unnoticed) {
  EXPECT_EQ(Installation(MISBEHAVING).selftest().code, 0);
  const Outcome o = Installation(BEHAVING).selftest();  // 26 misdeeds of 30 variants, and none is committed
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(count(o.text, "BROKEN"), 26U) << o.text;
  EXPECT_EQ(count(o.text, "BROKEN  write_past_end: done instead of overrun"), 1U) << o.text;
}

TEST(Selftest, fails_without_the_plug_in_and_without_a_worker_and_says_so) {
  const Outcome no_plugin = Installation(nullptr).selftest();
  EXPECT_EQ(no_plugin.code, 1);
  EXPECT_EQ(count(no_plugin.text, "BROKEN  the misbehaving plug-in is missing: no file"), 1U)
      << no_plugin.text;
  const Outcome no_worker = Installation(MISBEHAVING, false).selftest();
  EXPECT_EQ(no_worker.code, 1);
  EXPECT_EQ(count(no_worker.text, "BROKEN  the misbehaving plug-in cannot be opened"), 1U) << no_worker.text;
}

TEST(Doctor, lists_the_cpu_backend_as_ready) {
  const Outcome o = assay("doctor");
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.text.find("ready     cpu"), std::string::npos) << o.text;
  EXPECT_LE(count(o.text, "\n"), 30U) << o.text;
  EXPECT_EQ(o.text.find("museum.correct"), std::string::npos);
  const auto museum = o.text.find("ready     museum"), variants = o.text.find("variants: ", museum);
  EXPECT_LE(o.text.find('\n', variants) - o.text.rfind('\n', variants), 131U) << o.text;
  EXPECT_NE(o.text.find(" more: assay doctor -v\n", variants), std::string::npos) << o.text;
}

TEST(Console, says_beside_which_tensor_a_leak_reads_and_whether_a_stride_was_taken_for_dense) {
  const std::string gaps = "run -q 'softmax rows=3 cols=8 layout=gaps variant=";
  const Outcome dense = assay(gaps + "dense' " + kFaulty), gap = assay(gaps + "read_gap' " + kFaulty);
  EXPECT_NE(dense.text.find("; those bytes stand beside the elements of x (a stride taken for dense: x)\n"),
            std::string::npos)
      << dense.text;
  EXPECT_NE(gap.text.find("; those bytes stand beside the elements of x\n"), std::string::npos) << gap.text;
  EXPECT_EQ(assay(gaps + "correct' " + kFaulty).code, 0);
  EXPECT_EQ(assay("run -q 'softmax rows=3 cols=8 variant=dense' " + kFaulty).code, 0);  // its rows are dense
}

TEST(Console, lists_the_findings_once_more_and_counts_in_its_last_line) {
  const Outcome o = assay("run 'softmax rows=3 cols=8,9 variant=wrong,read_past,correct' " + kFaulty);
  EXPECT_EQ(count(o.text, "\nFAIL "), 4U) << o.text;  // one spelling, whatever the verdict
  EXPECT_NE(o.text.find("\nFAIL wrong softmax"), std::string::npos) << o.text;
  EXPECT_NE(o.text.find("\nFAIL leak softmax"), std::string::npos) << o.text;
  EXPECT_NE(
      o.text.find("findings, how many of a kind and the first:\n      2 leak             assay run 'softmax"),
      std::string::npos)
      << o.text;
  EXPECT_TRUE(o.last_line().starts_with("not green; 6 cases: 2 pass, 2 wrong, 2 leak; ")) << o.text;
  const Outcome green = assay("run 'softmax rows=3 cols=8 variant=correct' " + kFaulty);
  EXPECT_EQ(count(green.text, "findings, how many"), 0U) << green.text;
}

TEST(Explain, names_every_plane_of_a_case_and_what_python_calls_it) {
  const Outcome o = assay("explain 'matmul m=2 n=4 k=128 a=e4m3fn_tok b=int4_g32 dtype=f32 path=f32' -b cpu");
  EXPECT_EQ(o.code, 0) << o.text;
  for (const char* row : {"  a            [2,128] e4m3fn_tok\n    a.scale    [2] f32, in Python a_scale\n",
                          "  b            [4,128] int4_g32\n    b.scale    [4,4] f32, in Python b_scale\n"})
    EXPECT_NE(o.text.find(row), std::string::npos) << o.text;
}

TEST(Explain, shows_contract_limit_and_what_the_inputs_show) {
  const Outcome o = assay("explain 'softmax rows=3 cols=8 variant=correct' " + kFaulty);
  EXPECT_EQ(o.code, 0);
  for (const char* part : {"exp_ulp", "median limit", "an all-zero output fails"})
    EXPECT_NE(o.text.find(part), std::string::npos) << part << "\n" << o.text;
}

}  // namespace
