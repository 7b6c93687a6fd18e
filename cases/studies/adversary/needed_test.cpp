// No rule of a limit and no word of a contract stands there for nothing: each has a point in rules.list or
// words.list at which a kernel needs it, found by `assay adversary --needed`, and shown again here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cases/studies/adversary/corpus.hpp"
#include "cases/studies/adversary/needed.hpp"

namespace assay::adversary {
namespace {

// One row a rule: by how much it may be weakened until a listed kernel leaves its limit.
TEST(Needed, each_rule_that_is_made_unsound_is_noticed) {
  std::set<std::string> noticed;
  for (const KnownPoint& each : read_corpus(ASSAY_RULES)) {
    const WeakRule listed = parse_weak_rule(each.name);
    const Point point = parse_point(each.point);
    EXPECT_TRUE(shows(point, listed)) << each.name;
    for (const WeakRule& weak : weak_rules())  // a kernel that needs half of a term needs a fifth of it
      if (weak.rule == listed.rule && weak.factor <= listed.factor && !noticed.contains(print(weak)) &&
          shows(point, weak))
        noticed.insert(print(weak));
  }
  std::string table = fmt::format("{:26} {:8} {:8} {:8}", "rule", "dropped", "a fifth", "half");
  for (const WeakRule& weak : weak_rules()) {
    const std::string name = print(weak);
    const bool is = noticed.contains(name);
    if (weak.factor == 0) table += fmt::format("\n{:26}", name.substr(0, name.find('*')));
    table += fmt::format(" {:8}", is ? "noticed" : "MISSING");
    EXPECT_TRUE(is) << name << ": no point";
  }
  std::printf("%s\n%zu of %zu weakened rules are noticed\n", table.c_str(), noticed.size(),
              weak_rules().size());
}

TEST(Needed, a_sound_limit_is_left_by_no_listed_kernel) {
  for (const char* list : {ASSAY_RULES, ASSAY_WORDS})
    for (const KnownPoint& each : read_corpus(list)) {
      const Shown shown = show(parse_point(each.point));
      EXPECT_TRUE(shown.possible) << each.name << ": " << shown.refusal;
      EXPECT_LE(shown.ratio, 1) << each.name << ": " << shown.where;
    }
}

// The figure stands in reports/results/bounds.md; what no kernel is known for is printed.
TEST(Needed, nearly_all_keys_of_the_contracts_have_a_kernel_that_needs_them) {
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
  EXPECT_GE(20 * needed, 19 * keys.size());  // 95 %
}

}  // namespace
}  // namespace assay::adversary
