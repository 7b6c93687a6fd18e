// The list of excuses is judged before it excuses anything: a row that is wider than it says, or stale, is a
// fault.
#include "cases/studies/mutants/mutant_list.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "reference/error.hpp"

namespace assay::mutants {
namespace {

std::vector<Excuse> list_of(const std::string& text) {
  const std::string path = testing::TempDir() + "assay_excuses_" + std::to_string(getpid()) + ".list";
  std::ofstream(path) << text;
  auto list = read_excuses(path);
  std::remove(path.c_str());
  return list;
}

const std::vector<Manifest>& mutants() {
  static const std::vector<Manifest> list{
      {1, "a.cpp", 7, "comparison", "x < y", "x <= y", "if (x < y) return x * 2;"},
      {2, "a.cpp", 7, "constant", "2", "3", "if (x < y) return x * 2;"},
      {3, "a.cpp", 9, "special", "x", "x with NaN as 0", "y = x;"},
      {4, "a.cpp", 9, "precision", "x", "x in 20 bits", "y = x;"},
  };
  return list;
}

std::vector<std::string> faults_of(const std::string& text) {
  const auto list = list_of(text);
  return excused(list, mutants()).faults;
}

TEST(MutantList, a_row_that_states_what_it_excuses_is_right) {
  const auto list = list_of(
      "a.cpp @ if (x < y) return x * 2; @ x < y -> x <= y @ 1 @ equal numbers are equal\n"
      "a.cpp @ y = x; @ x -> x * @ 2 @ x has 8 bits and is no NaN\n");
  const Excused found = excused(list, mutants());
  EXPECT_TRUE(found.faults.empty());
  EXPECT_EQ(found.find(1), list.data());
  EXPECT_EQ(found.find(2), nullptr);
  ASSERT_NE(found.find(4), nullptr);
  EXPECT_EQ(found.find(4)->reason, "x has 8 bits and is no NaN");
}

TEST(MutantList, a_row_may_excuse_one_of_several_that_read_alike) {
  const auto list = list_of("a.cpp @ y = x; @ x -> x * @ 2/2 @ x has 20 bits\n");
  const Excused found = excused(list, mutants());
  EXPECT_TRUE(found.faults.empty());
  EXPECT_EQ(found.find(3), nullptr);
  EXPECT_EQ(found.find(4), list.data());
  EXPECT_EQ(faults_of("a.cpp @ y = x; @ x -> x * @ 2/3 @ x has 20 bits\n").size(), 1U);
}

TEST(MutantList, a_row_that_excuses_more_than_it_states_is_too_wide) {
  const auto faults = faults_of("a.cpp @ y = x; @ x -> x * @ 1 @ no NaN\n");
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_NE(faults[0].find("too wide"), std::string::npos) << faults[0];
}

TEST(MutantList, a_row_whose_source_line_has_gone_or_changed_is_stale) {
  for (const char* row : {"a.cpp @ y = z; @ x -> x in 20 bits @ 1 @ eight bits\n",
                          "a.cpp @ y = x; @ x -> x in 17 bits @ 1 @ eight bits\n",
                          "b.cpp @ y = x; @ x -> x in 20 bits @ 1 @ eight bits\n",
                          "a.cpp @ y = x; @ x -> x * @ 3 @ eight bits\n"}) {
    const auto faults = faults_of(row);
    ASSERT_EQ(faults.size(), 1U) << row;
    EXPECT_NE(faults[0].find("stale"), std::string::npos) << faults[0];
  }
}

TEST(MutantList, a_star_in_the_source_line_is_a_multiplication) {
  EXPECT_FALSE(faults_of("a.cpp @ if (x * 2; @ 2 -> 3 @ 1 @ why\n").empty());
  EXPECT_FALSE(faults_of("a.cpp @ * @ 2 -> 3 @ 1 @ why\n").empty());
  EXPECT_TRUE(faults_of("a.cpp @ if (x < y) return x * 2; @ 2 -> 3 @ 1 @ why\n").empty());
}

TEST(MutantList, two_rows_for_one_mutant_are_one_too_many) {
  const auto faults = faults_of(
      "a.cpp @ y = x; @ x -> x in 20 bits @ 1 @ eight bits\n"
      "a.cpp @ y = x; @ *in 20 bits @ 1 @ eight bits\n");
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_NE(faults[0].find("both excuse"), std::string::npos) << faults[0];
}

TEST(MutantList, rows_that_are_none_are_refused) {
  for (const char* row :
       {"a.cpp @ y = x; @ * @ 2 @ anything\n", "a.cpp @ y = x; @ x -> x in 20 bits @ eight bits\n",
        "a.cpp @ y = x; @ x -> x in 20 bits @ some @ eight bits\n",
        "a.cpp @ y = x; @ x -> x in 20 bits @ 0 @ eight bits\n",
        "a.cpp @ y = x; @ x -> x in 20 bits @ 1x @ eight bits\n",
        "a.cpp @ y = x; @ x -> x in 20 bits @ 3/2 @ bits\n"})
    EXPECT_THROW(list_of(row), InputError) << row;
}

TEST(MutantList, a_pattern_of_many_stars_is_matched_in_no_time) {
  std::string pattern, text(4000, 'a');
  for (int i = 0; i < 500; ++i) pattern += "*a";
  EXPECT_TRUE(matches(pattern, text));
  EXPECT_FALSE(matches(pattern + "b", text));  // exponential when every star is tried
  EXPECT_TRUE(matches("a*c*", "abbc"));
  EXPECT_FALSE(matches("a*c", "abbd"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(MutantList, a_manifest_that_is_none_is_refused_with_its_row) {
  const std::string right = R"("file":"a","line":1,"class":"c","before":"b","after":"a","text":"t"})";
  EXPECT_EQ(parse_manifest(R"([{"id":1,)" + right + "]", "mutants.json").at(0).kind, "c");
  for (const char* id : {"0", "-1", "2147483648", "1.5", "true", "\"1\""}) {
    try {
      parse_manifest(R"([{"id":)" + std::string(id) + "," + right + "]", "mutants.json");
      ADD_FAILURE() << id;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("mutants.json: row 1: 'id'"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(parse_manifest(R"([{"id":1,)" + right + R"(,{"id":1,)" + right + "]", "m"), InputError);
  EXPECT_THROW(parse_manifest("{", "m"), InputError);
}

TEST(MutantList, an_excused_mutant_that_is_killed_is_named_with_its_killer) {
  const auto list = list_of("a.cpp @ y = x; @ x -> x in 20 bits @ 1 @ eight bits\n");
  const std::string fault = killed_after_all(list[0], mutants()[3], "'softmax rows=1 cols=2'");
  EXPECT_NE(fault.find("mutant 4"), std::string::npos) << fault;
  EXPECT_NE(fault.find("softmax rows=1 cols=2"), std::string::npos) << fault;
}

}  // namespace
}  // namespace assay::mutants
