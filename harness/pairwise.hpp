// Pairwise coverage: few tests in which every pair of values of two factors that can stand together does stand together.
// Most defects of a kernel depend on one attribute or on two (Kuhn, Wallace, Gallo: "Software fault interactions and
// implications for software testing", IEEE TSE 30(6), 2004), and the product of all values is out of reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace assay {

// For each factor which of its values.
using Choice = std::vector<std::size_t>;

struct PairwiseProblem {
  std::vector<std::size_t> values;           // of each factor: how many there are
  Choice base;                               // valid
  std::function<bool(const Choice&)> valid;  // asked often: whoever can remembers its answers
  std::uint64_t seed = 1;                    // of the order in which pairs are taken up
};

// The tests, the base first and then those that cover most pairs, all of them valid. A value that no valid choice was found
// for is in none; neither is a pair that could not be completed from the choices in which its values do stand.
std::vector<Choice> pairwise(const PairwiseProblem& problem);

}  // namespace assay
