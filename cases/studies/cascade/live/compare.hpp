// How far two answers to one greedy prompt are apart.
#pragma once

#include <cstddef>

#include "cases/studies/cascade/live/client.hpp"

namespace assay::live {

// With log-probabilities: the largest |log p_A(t) - log p_B(t)| over the tokens t that both answers list, at
// every place where both have read the same tokens so far (up to and including the first fork). A chosen
// token that the other answer does not list is there at most as probable as the least that it lists, which
// bounds the difference from below. Where the server withheld tokens, the comparison ends in front of the
// next one, unless its text shows that they were the same. Infinite where one answer has a log-probability
// that is no number and the other has none such. Without: 1 - (length of the common beginning) / (length of
// the longer text).
struct Distance {
  double value = 0;
  bool forked = false;  // other tokens or another text
  std::size_t at = 0;   // where it forked
  bool by_logprobs = false;
  bool cut = false;  // from `at` on the answers may have read different tokens that the server did not show
};

Distance distance(const Answer& a, const Answer& b);
bool finite(const Answer& a);  // every chosen token's log-probability is a number

}  // namespace assay::live
