// Which single fault explains what a kernel gave. Every node of the op's model with every way to be wrong is
// a hypothesis; what it predicts of each answer is compared with what the kernel gave there.
//
//   error(h)^2 = mean over elements of min(|got - predicted by h| / limit, 10^6)^2      over all answers, the
//   same weight each
//
// The right hypothesis leaves the kernel's own roundings, any other the fault beside them; so that a fault is
// told from others by far less than what the limit leaves, and by answers that are within their limits too.
#pragma once

#include <optional>
#include <string>

#include "cases/attribution/bench.hpp"
#include "cases/attribution/fault.hpp"

namespace assay::attribution {

struct Explanation {
  std::string stage, what;  // "the sum of the weights: in 17 bits"
  double error = 1;         // error(h) / error(no fault)
  double next = 1;          // the same of the best hypothesis of another stage
  std::string other;        // which that is; "" where there is none
  bool tied = false;        // another stage explains the answers alike
  double left = 1;          // of the answers, in limits
  Fault fault;              // its node: of the model, in the order of the computation
};
// Nothing where no hypothesis explains the answers. Where those of several stages do, `probed`, the stage
// that the probes named, or else the earliest. answers[0] is the case as it was given.
std::optional<Explanation> explain(const Op& op, const std::vector<Answer>& answers, std::string_view probed);

}  // namespace assay::attribution
