// A second opinion of sums whose order nobody declared. A proof for every order grows with the number of
// terms, while the errors of a kernel that is right grow with its root: between the two lies room for a
// kernel that is wrong and passes. The second opinion judges by a model, not by a proof: with order=likely in
// place of order=any (arithmetic/order.hpp) a sum of n terms may be off by kLikely sqrt(n) u instead of n u.
// What it finds is `suspect`, never `wrong`: its premise, rounding errors of conditional mean 0, is no
// theorem, and what follows from it (2 exp(-kLikely^2 / 2) = 6.7e-4, whatever n) is for one output.
//
// Where root-n models fail, it is refused:
//   a matrix unit      truncation has one sign, so that errors add up
//   few values         a tensor of at most kFewValues numbers makes the same rounding error again and again,
//                      and a tie of one sign each time
//   no proof           of n terms in a sum of n u >= 1 the proof claims nothing; there addends are less than
//                      half a step of the sum and are lost whole, one after the other, with one sign (sums in
//                      f16 of 4,096 positive terms come to 0.67 of the likely limit, and to more with every
//                      further term)
//   nothing declarable no sum of the contract has an order
//
// So it is calibrated, on kernels that are right (reports/results/second_opinion.md).
#pragma once

#include <optional>

#include "reference/arithmetic/order.hpp"
#include "reference/ops/op.hpp"

namespace assay {

inline constexpr std::size_t kFewValues = 16;
// Where the proof itself shows errors of 1 % in half of the elements, nobody is asked again.
inline constexpr double kAskAgain = 0.01;

// The contract to judge by again, or nothing where the model is refused.
std::optional<Contract> second_opinion(const Op& op, const Attributes& attributes, const TensorSet& inputs,
                                       const Contract& contract);

// Where the proof claims nothing, the opinion does not either. opinion: of the same case by the contract of
// second_opinion().
void keep_silent_with(std::span<const Truth> proof, std::vector<Truth>& opinion);

}  // namespace assay
