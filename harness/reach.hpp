// What a backend takes: asked by declarations, which touch no data, and remembered. A refusal steers: what
// changes its reason got one step further into the backend's checks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/judge.hpp"
#include "harness/pairwise.hpp"

namespace assay {

class Reach {
 public:
  Reach(std::string backend, Workers& workers) : backend_(std::move(backend)), workers_(workers) {}

  // "" when the backend would run the case, or fails in saying so: that is a finding of the run. Otherwise
  // its reason.
  const std::string& refusal(const Case& c);
  // The same of many; those that are new are asked in one go.
  std::vector<std::string> refusals(std::span<const Case> cases);
  std::size_t asked() const { return refusals_.size(); }  // declarations
  std::size_t waits() const { return waits_; }            // for the answers to some of them

 private:
  std::string backend_;
  Workers& workers_;
  std::size_t waits_ = 0;
  std::map<std::string, std::string> refusals_;  // by all of the case that a declaration sees
};

// A choice of values that is taken, near to `start`: from each choice with a reason that was not seen before,
// every single change is tried, at most `most` choices in all; then, where none was taken, every two changes
// of `start` among the factors `joint`, at most as many again: "INT8 by INT8" is refused with one reason
// until both are INT8. refusals() gives for each the reason, "" for a choice that is taken, and nothing for
// one that is impossible in itself. A change that is impossible by itself is made possible by one of a factor
// in `sizes`, where one can (a block of 256 elements wants 256 columns): possible() says so, and costs no
// declaration.
struct ReachProblem {
  std::vector<std::size_t> values;  // of each factor: how many there are
  std::function<std::vector<std::optional<std::string>>(std::span<const Choice>)> refusals;
  std::size_t most = 0;
  std::vector<std::size_t> joint = {};
  std::vector<std::size_t> sizes = {};
  std::function<bool(const Choice&)> possible = {};  // empty: all are
  std::function<bool(const Choice&, std::size_t, std::size_t)> in_vain =
      {};  // two changes that need no trial
};
std::optional<Choice> nearest_taken(const ReachProblem& problem, const Choice& start);

}  // namespace assay
