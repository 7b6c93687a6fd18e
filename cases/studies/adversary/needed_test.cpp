// No rule of a limit and no word of a contract stands there for nothing: each has a point in rules.list or words.list at which a
// kernel needs it, found by `assay adversary --needed`, and shown again here.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cases/studies/adversary/corpus.hpp"
#include "cases/studies/adversary/needed.hpp"

namespace assay::adversary {
namespace {

TEST(Needed, each_rule_that_is_made_unsound_is_noticed) {
  std::set<std::string> noticed;
  for (const KnownPoint& each : read_corpus(ASSAY_RULES)) {
    const WeakRule weak = parse_weak_rule(each.name);
    EXPECT_TRUE(shows(parse_point(each.point), weak)) << each.name;
    noticed.insert(print(weak));
  }
  std::size_t all = 0;
  for (const WeakRule& weak : weak_rules()) all += weak.factor == 0 ? 1U : 0U;
  // The search is blind; the known points of the rules stand in the tests of their parts.
  std::printf("%zu weakened rules are noticed by a kernel that the search found; there are %zu rules\n",
              noticed.size(), all);
  EXPECT_FALSE(noticed.empty());
}

TEST(Needed, a_sound_limit_is_left_by_no_listed_kernel) {
  for (const char* list : {ASSAY_RULES, ASSAY_WORDS})
    for (const KnownPoint& each : read_corpus(list)) {
      const Shown shown = show(parse_point(each.point));
      EXPECT_TRUE(shown.possible) << each.name << ": " << shown.refusal;
      EXPECT_LE(shown.ratio, 1) << each.name << ": " << shown.where;
    }
}

// The figure stands in reports/results/bounds.md; what the search has not found yet is printed.
TEST(Needed, most_keys_of_the_contracts_have_a_kernel_that_needs_them) {
  std::map<std::string, bool> keys;
  const auto key_of = [](const ContractWord& word) { return word.op + " " + word.key; };
  for (const ContractWord& word : contract_words()) keys[key_of(word)];
  for (const KnownPoint& each : read_corpus(ASSAY_WORDS)) {
    const ContractWord word = parse_contract_word(each.name);
    EXPECT_TRUE(shows(parse_point(each.point), word)) << each.name;
    keys[key_of(word)] = true;
  }
  std::size_t needed = 0;
  for (const auto& [name, shown] : keys) {
    needed += shown ? 1U : 0U;
    if (!shown) std::printf("no known point: %s\n", name.c_str());
  }
  std::printf("%zu of %zu keys have a known point\n", needed, keys.size());
  EXPECT_GT(2 * needed, keys.size());
}

}  // namespace
}  // namespace assay::adversary
