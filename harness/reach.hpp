// What a backend takes: asked by declarations, which touch no data, and remembered. A refusal steers: what changes its
// reason got one step further into the backend's checks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "harness/judge.hpp"
#include "harness/pairwise.hpp"

namespace assay {

class Reach {
 public:
  Reach(std::string backend, Workers& workers) : backend_(std::move(backend)), workers_(workers) {}

  // "" when the backend would run the case, or fails in saying so: that is a finding of the run. Otherwise its reason.
  const std::string& refusal(const Case& c);
  std::size_t asked() const { return refusals_.size(); }

 private:
  std::string backend_;
  Workers& workers_;
  std::map<std::string, std::string> refusals_;  // by all of the case that a declaration sees
};

// A choice of values that is taken, near to `start`: from each choice with a reason that was not seen before, every
// single change is tried, at most `most` choices in all; then, where none was taken, every two changes of `start` among
// the factors `joint`, at most as many again: "INT8 by INT8" is refused with one reason until both are INT8. refusal()
// gives the reason, "" for a choice that is taken, and nothing for one that is impossible in itself.
std::optional<Choice> nearest_taken(const std::vector<std::size_t>& values, const Choice& start,
                                    const std::function<std::optional<std::string>(const Choice&)>& refusal,
                                    std::size_t most, const std::vector<std::size_t>& joint = {});

}  // namespace assay
