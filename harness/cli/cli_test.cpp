// The program as a user meets it: exit codes, messages, verdicts, reports, repros.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

struct Outcome {
  int code;
  std::string text;
};

Outcome assay(const std::string& arguments) {
  FILE* pipe = popen((ASSAY_PROGRAM " " + arguments + " 2>&1").c_str(), "r");
  Outcome o{-1, ""};
  std::array<char, 4096> buffer{};
  for (std::size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    o.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return o;
}

// Of this process alone: ctest runs several of these tests at once.
std::string report_file(const std::string& ending) {
  return testing::TempDir() + "assay_cli_test_" + std::to_string(getpid()) + "." + ending;
}

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

const std::string kFaulty = "-b " FAULTY_SOFTMAX;

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
                                                        {"bad_contract", "failed"}};
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
    const auto start = text.find("FAIL " + key);
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

TEST(Selftest, passes_on_this_build) { EXPECT_EQ(assay("selftest").code, 0) << assay("selftest").text; }

TEST(Doctor, lists_the_cpu_backend_as_ready) {
  const Outcome o = assay("doctor");
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.text.find("ready     cpu"), std::string::npos) << o.text;
}

TEST(Explain, shows_contract_limit_and_what_the_inputs_show) {
  const Outcome o = assay("explain 'softmax rows=3 cols=8 variant=correct' " + kFaulty);
  EXPECT_EQ(o.code, 0);
  for (const char* part : {"exp_ulp", "median limit", "an all-zero output fails"})
    EXPECT_NE(o.text.find(part), std::string::npos) << part << "\n" << o.text;
}

}  // namespace
