// Suites that are made: every pair that can stand together does, what a backend takes is found behind its
// refusals, and a case goes to no backend that it does not name.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "cases/lists.hpp"
#include "harness/pairwise.hpp"
#include "harness/plan.hpp"
#include "harness/reach.hpp"

namespace assay {
namespace {

using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;

std::set<Pair> pairs_of(const Choice& c) {
  std::set<Pair> pairs;
  for (std::size_t f = 0; f < c.size(); ++f)
    for (std::size_t g = f + 1; g < c.size(); ++g) pairs.insert({f, c[f], g, c[g]});
  return pairs;
}

// Asked one by one.
auto each(std::function<bool(const Choice&)> valid) {
  return [valid = std::move(valid)](std::span<const Choice> choices) {
    std::vector<std::string> all;
    for (const Choice& c : choices) all.emplace_back(valid(c) ? "" : "no");
    return all;
  };
}

TEST(Pairwise, every_pair_that_can_stand_together_does_in_few_valid_tests) {
  // Value 1 of factor 0 asks for a value above 0 of factor 1 (a window for its mask); 2 of factor 2 and 3 of
  // factor 3 exclude each other.
  const auto valid = [](const Choice& c) {
    return (c[0] != 1 || c[1] > 0) && (c[0] == 1 || c[1] == 0) && !(c[2] == 2 && c[3] == 3);
  };
  for (const std::uint64_t seed : {1, 2, 3}) {
    const PairwiseProblem problem{{3, 3, 4, 5, 6}, {0, 0, 0, 0, 0}, each(valid), seed};
    std::set<Pair> possible, covered;
    for (Choice c(5, 0);;) {
      if (valid(c)) possible.merge(pairs_of(c));
      std::size_t f = 0;
      while (f < 5 && ++c[f] == problem.values[f]) c[f++] = 0;
      if (f == 5) break;
    }
    const auto tests = pairwise(problem);
    EXPECT_EQ(tests.front(), problem.base);
    for (const Choice& c : tests) {
      EXPECT_TRUE(valid(c));
      covered.merge(pairs_of(c));
    }
    EXPECT_EQ(covered, possible) << "seed " << seed;
    EXPECT_LT(tests.size(), 70U);  // of 1,080 choices; no fewer than 30 can do
  }
}

TEST(Pairwise, a_value_that_stands_in_no_valid_choice_is_left_out) {
  const PairwiseProblem problem{{2, 3}, {0, 0}, each([](const Choice& c) { return c[1] != 2; })};
  for (const Choice& c : pairwise(problem)) EXPECT_NE(c[1], 2U);
}

// Sixty formats of blocks want 256 columns, which one of them finds out for all; sixty that nothing helps are
// looked for a few at a time.
TEST(Pairwise, what_one_value_needs_is_tried_with_all_that_are_refused_alike) {
  std::size_t goes = 0;
  const PairwiseProblem problem{
      {130, 20}, {0, 0}, [&](std::span<const Choice> choices) {
        ++goes;
        std::vector<std::string> all;
        for (const Choice& c : choices)
          all.emplace_back(c[0] >= 70 ? "no such format" : c[0] >= 10 && c[1] != 17 ? "blocks of 256" : "");
        return all;
      }};
  Pairwise tests(problem);
  std::set<std::size_t> formats{tests.next(1).at(0)[0]};
  EXPECT_LT(goes, 15U);  // one for each value would be 120
  for (auto more = tests.next(16); !more.empty(); more = tests.next(16))
    for (const Choice& c : more) formats.insert(c[0]);
  EXPECT_EQ(formats.size(), 70U);
}

auto reasons(std::function<std::optional<std::string>(const Choice&)> refusal) {
  return [refusal = std::move(refusal)](std::span<const Choice> choices) {
    std::vector<std::optional<std::string>> all;
    for (const Choice& c : choices) all.push_back(refusal(c));
    return all;
  };
}

TEST(Reach, a_refusal_that_changes_its_reason_leads_to_what_is_taken) {
  // One choice of 10^6 is taken, and six checks stand in front of it.
  const Choice wanted = {7, 3, 9, 1, 4, 8};
  std::size_t asked = 0;
  const auto refusal = [&](const Choice& c) -> std::optional<std::string> {
    ++asked;
    for (std::size_t f = 0; f < c.size(); ++f)
      if (c[f] != wanted[f]) return "factor " + std::to_string(f);
    return "";
  };
  const auto found = nearest_taken({std::vector<std::size_t>(6, 10), reasons(refusal), 2500}, Choice(6, 0));
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, wanted);
  EXPECT_LT(asked, 500U);
  const auto never = [](const Choice&) -> std::optional<std::string> { return "not here"; };
  EXPECT_FALSE(nearest_taken({std::vector<std::size_t>(6, 10), reasons(never), 2500}, Choice(6, 0)));
}

TEST(Reach, two_changes_behind_one_reason_are_found_among_the_factors_that_are_named) {
  const auto refusal = [](const Choice& c) -> std::optional<std::string> {
    return c[1] == 7 && c[4] == 9 ? "" : "not these two";
  };
  const std::vector<std::size_t> counts(6, 10);
  const Choice start(6, 0);
  EXPECT_EQ(nearest_taken({counts, reasons(refusal), 2500, {1, 4}}, start), (Choice{0, 7, 0, 0, 9, 0}));
  EXPECT_FALSE(nearest_taken({counts, reasons(refusal), 2500, {1, 3}}, start));
}

TEST(Reach, a_change_that_is_possible_only_with_another_is_made_with_it) {
  // Blocks of 256 elements (value 3 of factor 0) want the columns for them (value 2 of factor 1), and are all
  // that is taken.
  const auto possible = [](const Choice& c) { return c[0] != 3 || c[1] == 2; };
  const auto refusal = [&](const Choice& c) -> std::optional<std::string> {
    if (!possible(c)) return std::nullopt;
    return c[0] == 3 ? "" : "not this format";
  };
  const std::vector<std::size_t> counts{5, 4};
  EXPECT_EQ(nearest_taken({counts, reasons(refusal), 100, {}, {1}, possible}, {0, 0}), (Choice{3, 2}));
  EXPECT_FALSE(nearest_taken({counts, reasons(refusal), 100}, {0, 0}));
}

class Backends : public testing::Test {
 protected:
  static BackendInfo backend(const std::string& name) {
    BackendInfo b;
    b.name = name, b.file = "/" + name + ".so", b.is_default = true;
    return b;
  }
  Plan plan(const std::string& line, const std::vector<std::string>& backends) const {
    PlanOptions options;
    options.backends = backends;
    return make_plan({{line, "test"}}, options, known_, input_lists(), {});
  }
  const std::vector<BackendInfo> known_{backend("cpu"), backend("other")};
};

TEST_F(Backends, a_case_that_names_a_backend_goes_to_no_other) {
  const Plan elsewhere = plan("softmax rows=2 cols=3,4 backend=cpu", {"other"});
  EXPECT_EQ(elsewhere.cases, 0U);
  EXPECT_EQ(elsewhere.elsewhere, (std::map<std::string, std::size_t>{{"cpu", 2}}));
  const Plan here = plan("softmax rows=2 cols=3 backend=cpu", {"other", "cpu"});
  ASSERT_EQ(here.cases, 1U);
  EXPECT_EQ(here.groups[0].cases[0].backend, "cpu");
  EXPECT_TRUE(here.elsewhere.empty());
  EXPECT_EQ(plan("softmax rows=2 cols=3 backend=cpu", {}).cases, 1U);  // nobody said --backend
}

TEST_F(Backends, options_that_a_case_leaves_open_are_those_that_were_given) {
  EXPECT_EQ(plan("softmax rows=2 cols=3 backend=cpu", {"cpu:threads=2"}).groups[0].cases[0].backend,
            "cpu:threads=2");
  EXPECT_EQ(plan("softmax rows=2 cols=3 backend=cpu:a=1", {"cpu:threads=2"}).groups[0].cases[0].backend,
            "cpu:a=1");
  EXPECT_EQ(plan("softmax rows=2 cols=3", {"cpu:threads=2"}).groups[0].cases[0].backend, "cpu:threads=2");
}

}  // namespace
}  // namespace assay
