// One line of a list of factors (strangers.hpp), for one backend: its factors, what of them the backend
// takes, and its cases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/model_shapes.hpp"
#include "harness/pairwise.hpp"
#include "harness/reach.hpp"
#include "harness/suite_text.hpp"

namespace assay {

// What all lines of a suite share.
struct StrangerSetting {
  std::string backend;
  std::uint64_t seed;
  const InputLists& lists;
  std::vector<std::string> variants;  // of the backend
  const ModelShapes& models;
  Reach& reach;
};

// What the lines of one op found out for those that follow.
struct OpReach {
  std::map<std::string, std::string>
      taken;                      // attributes that the backend was found to take, which a line may lack
  std::set<std::string> in_vain;  // pairs of attributes that were tried together, and nothing was taken
};

class StrangerLine {
 public:
  // Throws InputError for a line that cannot be read.
  StrangerLine(const SuiteLine& text, const StrangerSetting& setting);
  StrangerLine(const StrangerLine&) = delete;
  StrangerLine& operator=(const StrangerLine&) = delete;

  const Op& op() const { return *op_; }
  const std::string& where() const { return where_; }
  // Looks for values that the backend takes, with what is known of its op. False when nothing is taken.
  bool find_base(OpReach& known);
  // After find_base(). The next cases that cover pairs, at most so many; none when all are covered.
  std::vector<Case> next(std::size_t most);
  // Each value alone beside those of the base.
  std::vector<Case> singles();

  // Calls behind a call that differs in one word or real number alone, of the same inputs and by the same
  // kernel: what a kernel keeps of an earlier call. At most so many; of keys that are not in `seen`, which
  // grows.
  std::vector<Case> histories(std::set<std::string>& seen, std::size_t most);

  // What judging the case costs, among others.
  static double cost(const Case& c);

 private:
  // Values that stand together are one factor: each has a text for every key.
  struct Factor {
    std::vector<std::string> keys;
    std::vector<std::vector<std::string>> values;
  };

  std::optional<Choice> taken(const Choice& start, OpReach& known);
  std::optional<Case> case_of(const Choice& choice) const;
  bool can_be_made(const Choice& choice);
  Choice plain_sizes(Choice choice) const;
  std::vector<std::optional<std::string>> refusals(std::span<const Choice> choices);
  std::vector<std::string> reasons(std::span<const Choice> choices);
  std::string pair_text(const Choice& c, std::size_t f, std::size_t g) const;
  std::vector<std::size_t> counts() const;
  std::vector<Case> cases_of(const std::vector<Choice>& choices) const;

  const StrangerSetting& setting_;
  std::string where_;
  const Op* op_ = nullptr;
  std::vector<Factor> factors_;
  Choice base_;
  std::optional<Pairwise> pairs_;
  std::map<std::string, bool> possible_;
  FaultSites sites_;
  std::optional<std::size_t> fill_;  // its factor
  std::map<Choice, std::optional<std::string>>
      answers_;  // refusals() that were found, by the choice with the first fill
  double most_work_ = 0, most_elements_ = 0;
};

}  // namespace assay
