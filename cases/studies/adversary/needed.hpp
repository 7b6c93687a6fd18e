// What a limit needs: points that show that a rule (reference/arithmetic/rule.hpp), or a word of a contract,
// is not there for nothing. A rule is attacked by making it unsound; a word by judging a kernel that keeps it
// under another word.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/adversary/search.hpp"
#include "reference/arithmetic/rule.hpp"
#include "reference/error.hpp"

namespace assay::adversary {

// A rule whose terms count `factor` times, and whose conditions always hold.
struct WeakRule {
  Rule rule = Rule::none;
  double factor = 0;
};
std::string print(const WeakRule& weak);          // "unit_cut*0.5"
WeakRule parse_weak_rule(std::string_view text);  // throws InputError unknown_name, bad_value
std::vector<WeakRule> weak_rules();               // every rule dropped, every term at a fifth and at half too

// Above 1 where the kernel of the point, with its own limit, is within it and is not where the rule is weak:
// the largest error / limit there, of the elements whose limit the rule moves. 0 where the kernel leaves its
// own limit.
double need(const WeakRule& weak, const Point& point, const Run& run, const std::vector<Truth>& own);

// A word of an op's contract. Of numbers, accumulators, formats and orders the value is "*": whatever a
// kernel says, held against the most exact value of the key. Of listed words each is held against every other
// one.
struct ContractWord {
  std::string op, key, value;
};
std::string print(const ContractWord& word);              // "softmax exp_ulp=*"
ContractWord parse_contract_word(std::string_view text);  // throws InputError bad_value
// Of every op that has a family; keys that are judged by bits (schedules), or that no value makes more exact,
// apart.
std::vector<ContractWord> contract_words();

// Above 1 where the kernel of the point says the word and is within its limit, and is beyond the limit of
// another word. Of "*": some element errs by half of its limit at least, and the limit without that step is
// half as large at most.
double need(const ContractWord& word, const Point& point, const Run& run, const std::vector<Truth>& own);

// False where the op does not take the point.
template <typename Wanted>
bool shows(const Point& point, const Wanted& wanted) {
  try {
    const Run run = run_of(point);
    return need(wanted, point, run, truths_of(point, run)) > 1;
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace assay::adversary
