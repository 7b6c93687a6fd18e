// Small worlds: members are what the sentences of the manual admit, and none of them is beyond the limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <regex>
#include <set>

#include "cases/studies/worlds/members_function.hpp"
#include "cases/studies/worlds/members_sum.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

bool nightly() { return std::getenv("ASSAY_NIGHTLY") != nullptr; }

// Worlds that are known to have members beyond their limits: regular expressions on their names. To be
// emptied.
std::vector<std::string> known() {
  std::ifstream file(ASSAY_KNOWN_WORLDS);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') all.push_back(line);
  return all;
}

TEST(Worlds, numbers_of_a_toy_are_the_sums_and_products_of_its_codes) {
  const Arithmetic a = arithmetic("e4m3fn", false);
  for (const double x : numbers("e4m3fn"))
    for (const double y : numbers("e4m3fn")) {
      const double product = round_to(scalar_format("e4m3fn"), x * y);
      const double sum = round_to(scalar_format("e4m3fn"), x + y);
      if (std::fabs(x * y) <= a.largest) {
        EXPECT_EQ(multiplied(a, x, y), set_of({product})) << x << " " << y;
      }
      if (std::fabs(x + y) <= a.largest) {
        EXPECT_EQ(added(a, x, y), set_of({sum})) << x << " " << y;
      }
    }
  EXPECT_EQ(added(arithmetic("e4m3fn", true), 0x1p-8, -0x1p-9), (Set{0, 0x1p-9}));
}

TEST(Worlds, a_function_has_every_number_within_its_ulps_and_no_other) {
  const Arithmetic a = arithmetic("f16", false);
  EXPECT_EQ(exponential(a, 0, 1), (Set{1 - 0x1p-10, 1 - 0x1p-11, 1, 1 + 0x1p-10}));
  EXPECT_EQ(exponential(a, -100, 2), (Set{0, 0x1p-24, 0x1p-23}));  // two units of the subnormals, not below 0
  EXPECT_EQ(quotient(a, 1, 3, 0.5), Set{round_to_precision(1.0 / 3, a.precision)});
  EXPECT_EQ(quotient(a, -3, 2, 1), (Set{-1.5 - 0x1p-10, -1.5, -1.5 + 0x1p-10}));
  EXPECT_EQ(quotient(a, 3, 0, 1), Set{HUGE_VAL});
}

TEST(Worlds, an_order_admits_its_trees_and_no_others) {
  const Arithmetic a = arithmetic("e4m3fn", false);  // 16 + 1 is a tie, and rounds to 16
  const std::vector<Term> terms{{16}, {1}, {1}, {1}};
  EXPECT_EQ(sums(a, terms, Order::sequential), Set{16});
  EXPECT_EQ(sums(a, terms, Order::tree), Set{18});           // (16 + 1) + (1 + 1)
  EXPECT_EQ(sums(a, terms, Order::any), (Set{16, 18, 20}));  // 16 + 3 is a tie as well, and rounds to 20
  EXPECT_EQ(sums(a, terms, Order(Order::lanes, 2)), Set{18});
  EXPECT_EQ(sums(a, terms, Order(Order::blocks, 3)), (Set{16, 18, 20}));
  EXPECT_EQ(sums(a, terms, Order(Order::depth, 2)), Set{18});
  const std::vector<Term> products{{-1.25, 1, true}, {1.125, 1.125, true}};
  EXPECT_EQ(sums(a, products, Order::sequential), (Set{0, 0x1p-6}));  // the product rounded to 1.25, or not
}

TEST(Worlds, a_world_has_one_name) {
  std::set<std::string> names;
  for (const World& w : worlds("")) EXPECT_TRUE(names.insert(w.name).second) << w.name;
}

class EveryOp : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryOp, no_member_is_beyond_the_limit) {
  std::map<std::string, std::size_t> listed;  // line -> violations
  for (const std::string& line : known()) listed[line] = 0;
  std::size_t members = 0;
  for (const World& w : worlds(GetParam())) {
    const Tally t = judge(w, nightly() ? 20000 : 1000);
    members += t.members;
    const auto line = std::ranges::find_if(
        listed, [&](const auto& each) { return std::regex_search(w.name + " ", std::regex(each.first)); });
    if (line != listed.end()) {
      line->second += t.violations;
    } else {
      EXPECT_EQ(t.violations, 0U) << (t.lines.empty() ? "" : t.lines.front().second);
    }
  }
  EXPECT_GT(members, 0U);
  for (const auto& [line, violations] : listed)
    if (line.starts_with("^" + GetParam() + " ") && violations == 0)
      std::cout << "known.list: no violation is left of " << line << "\n";
}

std::vector<std::string> ops_with_worlds() {
  std::set<std::string> names;
  for (const World& w : worlds("")) names.insert(w.op);
  return {names.begin(), names.end()};
}
INSTANTIATE_TEST_SUITE_P(Worlds, EveryOp, ::testing::ValuesIn(ops_with_worlds()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace assay::worlds
