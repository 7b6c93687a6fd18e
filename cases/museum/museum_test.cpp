// The museum's list is well formed, its README shows it, and what it runs is caught.
#include "cases/museum/museum.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace assay::museum {
namespace {

TEST(Museum, numbers_and_names_are_unique_and_every_exhibit_has_a_source_and_a_way_to_be_shown) {
  std::set<std::string_view> seen;
  for (const auto& e : exhibits()) {
    EXPECT_TRUE(seen.insert(e.name).second) << e.name;
    EXPECT_TRUE(seen.insert(e.number).second) << e.number;
    EXPECT_FALSE(e.citation.empty()) << e.name;
    EXPECT_EQ(1, int{e.scenario} + int{e.check != nullptr} + int{!e.line.empty()}) << e.name;
    EXPECT_TRUE(e.scenario || !e.duty.empty()) << e.name;
  }
}

TEST(Museum, its_numbers_run_from_1_to_43_without_a_gap) {
  std::set<int> numbers;
  for (const auto& e : exhibits()) numbers.insert(std::stoi(std::string(e.number)));
  EXPECT_EQ(numbers.size(), 43u);
  EXPECT_EQ(*numbers.begin(), 1);
  EXPECT_EQ(*numbers.rbegin(), 43);
}

TEST(Museum, the_readme_has_the_list_as_it_is) {
  std::ifstream file(ASSAY_MUSEUM_README);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(table()), std::string::npos) << "print it with: assay museum --table";
}

TEST(Museum, an_unknown_exhibit_is_refused_with_its_neighbours) {
  EXPECT_THROW(find_exhibit("tq3_centroid"), InputError);
  EXPECT_EQ(find_exhibit("18b").name, "offset_overflow");
}

TEST(Museum, every_exhibit_is_caught_with_its_verdict_and_every_twin_passes) {
  const auto known = known_backends();
  Workers workers(known);
  for (const auto& e : exhibits()) {
    if (e.scenario) continue;
    const Shown shown = show(e, workers);
    EXPECT_TRUE(shown.caught && shown.twin_passes) << story(shown);
  }
}

TEST(Museum, division_and_reciprocal_agree_on_random_data) {
  const auto known = known_backends();
  Workers workers(known);
  Exhibit e = find_exhibit("reciprocal_for_divide");
  e.line = "quantize rows=256 cols=1024 to=int8_tok";
  EXPECT_EQ(show(e, workers).defect.verdict.status, Status::pass);
}

}  // namespace
}  // namespace assay::museum
