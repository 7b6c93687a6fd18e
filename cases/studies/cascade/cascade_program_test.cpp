// `assay cascade` as a user runs it: the backend cpu's own kernels, through the worker.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/testing/command.hpp"

namespace {

using assay::Outcome;

Outcome cascade(const std::string& arguments) {
  return assay::run_command(ASSAY_PROGRAM " cascade " + arguments);
}

// CTest runs these tests side by side: each process has files of its own.
std::string own_file(const std::string& ending) {
  return testing::TempDir() + "assay_cascade_test_" + std::to_string(getpid()) + "." + ending;
}

nlohmann::json report(const std::string& arguments) {
  const std::string path = own_file("json");
  const Outcome o = cascade("--json " + path + " " + arguments);
  EXPECT_EQ(o.code, 0) << o.text;
  std::ifstream file(path);
  auto json = nlohmann::json::parse(file);
  std::remove(path.c_str());
  return json;
}

TEST(Program, the_locked_policy_with_one_pass_variance_ends_with_14_of_14_links_and_exit_0) {
  const Outcome o = cascade("");
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_EQ(o.last_line(), "14 of 14 links");
  EXPECT_NE(o.text.find("The links fired in this order."), std::string::npos);
  EXPECT_NE(o.text.find("scale 0.025"), std::string::npos);
}

TEST(Program, per_token_scales_end_with_0_of_14_links_and_exit_0) {
  const Outcome o = cascade("--policy per_token");
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_EQ(o.last_line(), "0 of 14 links");
}

TEST(Program, several_seeds_on_the_backends_own_kernels_give_the_chain_and_its_cause) {
  for (int seed = 2; seed <= 6; ++seed) {
    const auto json = report("--quick --seed " + std::to_string(seed));
    EXPECT_EQ(json["fired"], 14) << seed;
    EXPECT_EQ(json["in_order"], true) << seed;
    EXPECT_EQ(json["first_cause"], "scale locked on the first request") << seed;
  }
}

TEST(Program, every_policy_through_the_worker_has_the_cause_that_it_has_in_process) {
  const std::map<std::string, std::string> causes = {
      {"locked_dummy", "scale locked on a dummy pass"},
      {"locked_zero", "scale locked on an all-zero request"},
      {"fixed", "fixed scale too large"},
      {"checkpoint_dropped", "checkpoint scales dropped"},
      {"checkpoint_swapped", "checkpoint scales of K and V swapped"},
      {"diverging", "host and device copies of the scale diverge"},
      {"per_request", ""},
      {"per_head", ""},
      {"calibrated", ""},
      {"split", ""},
      {"none", ""},
      {"checkpoint", ""}};
  for (const auto& [policy, cause] : causes)
    EXPECT_EQ(report("--quick --seed 7 --policy " + policy)["first_cause"], cause) << policy;
}

TEST(Program, the_kernels_own_variance_is_measured_to_be_negative) {
  const auto json = report("");
  constexpr double kEps = 1e-12F;  // of the model's norms: a variance below -eps has no root
  EXPECT_LT(json["links"][5]["value"].get<double>(), -kEps);
  EXPECT_EQ(json["remedies"].size(), 11U);
}

TEST(Program, says_where_and_why_the_chain_ends_by_norm_eps_and_width) {
  const Outcome rms = cascade("--quick --norm rmsnorm");
  EXPECT_EQ(rms.code, 0) << rms.text;
  EXPECT_EQ(rms.last_line(), "5 of 14 links");
  EXPECT_NE(rms.text.find("The chain stops behind link 5: RMSNorm"), std::string::npos) << rms.text;
  const Outcome eps = cascade("--quick --eps 1e-5");
  EXPECT_EQ(eps.code, 0) << eps.text;
  EXPECT_NE(eps.text.find("plus eps = 1e-05 is not negative"), std::string::npos) << eps.text;
  EXPECT_EQ(report("--quick --null-block")["fired"], 14);
}

TEST(Program, monitors_take_less_than_5_percent_of_the_engines_time) {
  const auto engine = report("--quick --policy per_token")["engine"];
  EXPECT_LT(100 * engine["monitor_seconds"].get<double>(), 5 * engine["seconds"].get<double>());
}

TEST(Program, the_page_is_self_contained_and_shows_the_spread) {
  const std::string path = own_file("html");
  ASSERT_EQ(cascade("--quick --html " + path).code, 0);
  std::ifstream file(path);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::remove(path.c_str());
  // The data that reports/page/page_test.py draws in a browser.
  EXPECT_NE(page.find("\"schema\":\"assay-cascade\""), std::string::npos);
  EXPECT_NE(page.find("\"fired\":14,"), std::string::npos);
  EXPECT_NE(page.find("\"pictures\":[{"), std::string::npos);
  for (const char* fetched : {" src=", "href=", "<link", "import "})
    EXPECT_EQ(page.find(fetched), std::string::npos) << fetched;
}

TEST(Program, wrong_usage_is_2_with_what_is_allowed) {
  const std::map<std::string, std::string> mistakes = {
      {"--policy lokked", "per_token"}, {"--variance two", "welford"},
      {"--norm batch", "rmsnorm"},      {"--traffic jam", "published"},
      {"--argmax maybe", "checked"},    {"--layers 1", "2"},
      {"--width 12", "multiples of 8"}, {"--eps 2", "1"},
      {"--backend cuba", "no backend"}, {"--json /nowhere/x", "cannot be written"}};
  for (const auto& [arguments, message] : mistakes) {
    const Outcome o = cascade(arguments);
    EXPECT_EQ(o.code, 2) << arguments << "\n" << o.text;
    EXPECT_NE(o.text.find(message), std::string::npos) << arguments << "\n" << o.text;
  }
}

}  // namespace
