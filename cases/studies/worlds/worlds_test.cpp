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
#include "reference/arithmetic/rule.hpp"

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

TEST(Worlds, the_judge_sees_a_number_beyond_and_a_nan) {
  for (const double wrong : {1.0 - 0x1p-20, 1.0 + 0x1p-20, HUGE_VAL, std::nan("")}) {
    World w{"logsumexp", "planted", {}, {{"acc", "f32"}}, "none", {}};
    w.batches = [&](const World&, std::size_t) {
      Batch b;
      b.attributes = {{"rows", "1"}, {"cols", "1"}};
      b.inputs["x"] = tensor("f32", {1, 1}, {1});
      b.members = {{1, wrong}};
      b.inputs_of = [](std::size_t) { return std::string("x=[1]"); };
      return std::vector<Batch>{b};
    };
    EXPECT_EQ(judge(w, 1).violations, 1U) << wrong;
    w.batches = [&, right = w.batches](const World& of, std::size_t n) {
      auto all = right(of, n);
      all[0].members = {{1}};
      return all;
    };
    EXPECT_EQ(judge(w, 1).violations, 0U);
  }
}

// noticed.list, "RULE: WORLD": where dropping the rule moves a limit of that world, a member is beyond it.
TEST(Worlds, a_rule_that_is_dropped_is_noticed) {
  std::map<std::string, World> named;
  for (World& w : worlds("")) named.emplace(w.name, std::move(w));
  std::ifstream file(ASSAY_NOTICED_RULES);
  std::size_t moved = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto colon = line.find(": ");
    const auto rule =
        std::ranges::find_if(kRules, [&](const RuleRow& r) { return r.name == line.substr(0, colon); });
    const auto world = named.find(line.substr(colon + 2));
    if (rule == kRules.end() || world == named.end()) {
      std::cout << "noticed.list: not of these sources: " << line << "\n";
      continue;
    }
    bool moves = false, noticed = false;
    for (const std::size_t budget : {150, 1500}) {
      const Tally sound = judge(world->second, budget);
      const Unsound weak(rule->rule);
      const Tally dropped = judge(world->second, budget);
      moves = moves || sound.tightest != dropped.tightest || sound.loosest != dropped.loosest ||
              sound.median != dropped.median || sound.unclaimed != dropped.unclaimed;
      noticed = noticed || dropped.violations > sound.violations;
      if (noticed) break;
    }
    moved += moves;
    EXPECT_TRUE(noticed || !moves) << line;
  }
  std::cout << "rules whose limits moved: " << moved << "\n";
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
