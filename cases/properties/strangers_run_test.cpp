// `assay run -b PLUG-IN` without a case: what a stranger meets first. Every planted defect is found, every
// correct kernel of the same plug-in is green, and the same seed makes the same cases.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/testing/command.hpp"

namespace assay {
namespace {

nlohmann::json run(const std::string& arguments, int* code = nullptr) {
  const std::string file = testing::TempDir() + "strangers_" + std::to_string(getpid()) + ".json";
  const auto outcome = run_command(std::string(ASSAY_PROGRAM) + " run " + arguments + " -q --json " + file);
  if (code != nullptr) *code = outcome.code;
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

std::string variant_of(const nlohmann::json& result) {
  const std::string line = result["case"];
  const auto at = line.find(" variant=");
  return at == std::string::npos ? "" : line.substr(at + 9, line.find(' ', at + 9) - at - 9);
}

TEST(Strangers, the_default_run_finds_every_planted_defect_and_accuses_no_correct_kernel) {
  int code = 0;
  const auto report = run("-b " SHORT_SIGHTED " --budget 600", &code);
  EXPECT_EQ(code, 1);
  std::map<std::string, int> red, all;
  for (const auto& result : report["results"]) {
    ++all[variant_of(result)];
    if (!result["green"]) {
      ++red[variant_of(result)];
      if (variant_of(result).empty() || variant_of(result) == "fp8_right")
        ADD_FAILURE() << "accused: " << result["case"] << ": " << result["summary"];
    }
  }
  for (const char* defect : {"half_up",
                             "drops_last",
                             "drops_lane",
                             "skips_tile",
                             "starts_high",
                             "rows_in_16_bits",
                             "skips_small_rescales",
                             "own_maximum",
                             "first_is_longest",
                             "drops_full_block",
                             "rounds_nan_bits",
                             "columns_in_17_bits",
                             "halves_to_even",
                             "nan_of_nothing",
                             "starts_with_none",
                             "drops_500_of_1000",
                             "many_rows_otherwise",
                             "wide_rows_lose_their_tail",
                             "knows_one_nan",
                             "maximum_of_whole_vectors",
                             "unaligned_otherwise",
                             "cap_is_flat_from_4",
                             "keeps_eps_by_shape",
                             "fp8_clips_at_240",
                             "fp8_unshifted",
                             "honest_on_probes",
                             "wrong_on_probes"})
    EXPECT_GT(red[defect], 0) << defect << " in " << all[defect] << " cases";
  EXPECT_GT(all[""], 100);
  EXPECT_EQ(report["summary"]["left"], 0);
}

// What a green run is worth is told for every op, and by which of the two ways it was found.
TEST(Strangers, the_summary_names_the_smallest_defects_that_it_would_have_shown) {
  const auto text = run_command(ASSAY_PROGRAM " run -b " EXAMPLE " --budget 60").text;
  EXPECT_NE(text.find("the smallest defects that these cases would have shown"), std::string::npos) << text;
  EXPECT_NE(text.find("  rmsnorm: scale "), std::string::npos) << text;
  EXPECT_NE(text.find("study: terms 1 (f32), asked of 1 of 1 formats"), std::string::npos) << text;
}

TEST(Strangers, a_budget_ends_the_run_between_cases_and_says_what_is_left) {
  int code = 0;
  const auto report = run("-b " EXAMPLE " --budget 0.4 --jobs 1", &code);
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(report["complete"]);
  EXPECT_EQ(report["results"].size() + report["summary"]["left"].get<std::size_t>() +
                report["summary"]["left_out"].get<std::size_t>(),
            report["planned"]);
}

TEST(Strangers, the_seed_draws_other_shapes_and_the_same_seed_the_same) {
  const auto cases = [](const nlohmann::json& report) {
    std::string text;
    for (const auto& result : report["results"]) text += result["case"].get<std::string>() + "\n";
    return text;
  };
  const std::string few = "-b " EXAMPLE " --budget 600 --filter fill=uniform";
  const std::string one = cases(run(few)), again = cases(run(few)), two = cases(run(few + " --seed 2"));
  EXPECT_EQ(one, again);
  EXPECT_NE(one, two);
}

}  // namespace
}  // namespace assay
