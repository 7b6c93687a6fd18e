// The museum's list is well formed, its README shows it, and what it runs is caught.
#include "cases/studies/museum/museum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
    EXPECT_TRUE(e.scenario || !e.correct_behaviour.empty()) << e.name;
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
    EXPECT_TRUE(shown.caught && shown.counterpart_passes) << story(shown);
  }
}

// K in q8_0, V in tq3_0, a missing instance and a conversion that nobody mentions: the routines that were
// entered, the rounding and the memory give it away, each alone, at both head sizes of the report.
TEST(Museum, a_silent_conversion_is_seen_by_three_kinds_of_evidence) {
  const auto known = known_backends();
  Workers workers(known);
  for (const char* d : {"d=256", "d=512"})
    for (const auto& [name, evidence] : {std::pair{"announced_instance", "flash_q8_0_f16"},
                                         {"undeclared_conversion", "beyond the limit"},
                                         {"converted_buffer", "bytes of memory were taken"}}) {
      Exhibit e = find_exhibit(name);
      std::string line(e.line);
      line.replace(line.find("d="), 5, d);
      if (line.find("len=512") != std::string::npos) line.replace(line.find("len=512"), 7, "len=1024");
      e.line = line;
      const Shown shown = show(e, workers);
      EXPECT_TRUE(shown.caught && shown.counterpart_passes) << story(shown);
      EXPECT_NE(shown.defect.verdict.summary.find(evidence), std::string::npos) << story(shown);
    }
}

TEST(Museum, an_exhibit_whose_twin_is_wrong_too_is_a_false_alarm) {
  const auto known = known_backends();
  Workers workers(known);
  Exhibit e = find_exhibit("fnuz_read_as_fn");
  e.line = "dequantize rows=4 cols=256 from=e4m3fn";  // right for the defect, wrong for its counterpart
  const Shown shown = show(e, workers);
  EXPECT_FALSE(shown.caught);
  EXPECT_FALSE(shown.counterpart_passes);
  EXPECT_GT(shown.false_alarms, 0u);
}

TEST(Museum, its_rows_stand_in_the_kill_table) {
  const auto known = known_backends();
  Workers workers(known);
  KillTable table;
  add_exhibits(workers, table);
  const auto cases = static_cast<std::size_t>(
      std::ranges::count_if(exhibits(), [](const Exhibit& e) { return !e.line.empty(); }));
  EXPECT_EQ(table.killed(), cases);
  EXPECT_EQ(table.total(), cases);
  EXPECT_EQ(table.correct.assay, 0u);
  EXPECT_GT(table.missed_by_all_rules(false), 0u);
}

TEST(Museum, division_and_reciprocal_agree_on_random_data) {
  const auto known = known_backends();
  Workers workers(known);
  Exhibit e = find_exhibit("reciprocal_for_divide");
  e.line = "quantize rows=256 cols=1024 to=int8_tok";
  const Shown shown = show(e, workers);
  EXPECT_EQ(shown.defect.verdict.status, Status::pass);
  EXPECT_FALSE(shown.caught);
  EXPECT_TRUE(shown.missed_by_rules());
}

}  // namespace
}  // namespace assay::museum
