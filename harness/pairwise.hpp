// Pairwise coverage: few tests in which every pair of values of two factors that can stand together does
// stand together. Most defects of a kernel depend on one attribute or on two (Kuhn, Wallace, Gallo: "Software
// fault interactions and implications for software testing", IEEE TSE 30(6), 2004), and the product of all
// values is out of reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace assay {

// For each factor which of its values.
using Choice = std::vector<std::size_t>;

struct PairwiseProblem {
  std::vector<std::size_t> values;  // of each factor: how many there are
  Choice base;                      // valid
  // Of each choice "", or the reason why it cannot be had. Asked often, and of many at once: whoever can
  // remembers the answers, and has those that are missing from elsewhere in one go.
  std::function<std::vector<std::string>(std::span<const Choice>)> refusals;
  std::uint64_t seed = 1;  // of the order in which pairs are taken up
};

// The tests, the base first and then those that cover most pairs, all of them valid; made as they are asked
// for, so that the first of many cost little. A value that no valid choice was found for is in none, and no
// further one is looked for once that was in vain for kHopeless values of its factor with the same reason;
// neither is a pair in one that could not be completed from the choices in which its values do stand.
class Pairwise {
 public:
  static constexpr std::size_t kHopeless = 64;
  explicit Pairwise(PairwiseProblem problem);
  Pairwise(Pairwise&&) noexcept;
  Pairwise& operator=(Pairwise&&) noexcept;
  ~Pairwise();
  // The next tests, `most` at most; none when every pair is covered. They are made side by side: which they
  // are depends on how many are asked for at a time.
  std::vector<Choice> next(std::size_t most);

 private:
  class Cover;
  std::unique_ptr<Cover> cover_;
};

// All of them.
std::vector<Choice> pairwise(const PairwiseProblem& problem);

}  // namespace assay
