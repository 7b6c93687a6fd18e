// Members of ops on rows of exponentials.
#pragma once

#include <string_view>
#include <vector>

#include "cases/studies/worlds/members_function.hpp"
#include "cases/studies/worlds/members_sum.hpp"

namespace assay::worlds {

struct Exponentials {
  Arithmetic acc;
  Order order;
  double exp_ulp = 2, div_ulp = 2, tanh_ulp = 4, log_ulp = 2;
  bool base2 = false;
  int rescales = 0;
  double log_abs = 0;      // "absolute error of log between 1/2 and 2, besides log_ulp"
  bool base2_log = false;  // "base: of the logarithm that is stored"
  std::string_view weights = "f32";
  double temperature = 1, softcap = 0;
  double sink = 0;
  bool has_sink = false;
  bool ended_by_sink = false;  // "a sink is first or last"
  bool kept_in_time = false;   // "kept against the maximum of its time"
  std::vector<bool>
      visible;           // of each place, where not all are: what is masked is a zero at its place in the sum
  std::size_t most = 5;  // of a function's members that are tried together with all others
};

// Before they are stored: the weight of each visible logit; of a row without one, nothing (its definition is
// the op's).
std::vector<Set> softmax_members(const Exponentials& k, const std::vector<double>& x);
Set logsumexp_members(const Exponentials& k, const std::vector<double>& x);

}  // namespace assay::worlds
