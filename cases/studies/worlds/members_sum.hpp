// Members of a sum: what a kernel may hold of sum x_i, or of sum x_i y_i, under a declared order.
#pragma once

#include <vector>

#include "cases/studies/worlds/toy.hpp"
#include "reference/arithmetic/order.hpp"

namespace assay::worlds {

struct Term {
  double x = 0;
  double y = 1;
  bool product = false;  // x y, rounded on its own or fused with its addition; otherwise x as it stands
};

// "any: every association and permutation, fused or not" "sequential: in memory order, one accumulator"
// "tree: pairwise, of height ceil(log2 n)" -- any pairs, for the sentence names none "lanes:N: N partial
// sums, each over an N-th of the terms (strided or contiguous), then added as a tree" "blocks:N: sums of N
// terms in any order, and then those sums in any order" -- any N terms, for the sentence names none "depth:N:
// any association in which no term goes through more than N additions"
Set sums(const Arithmetic& a, const std::vector<Term>& terms, const Order& order);

// The same of numbers that are already there, each a set of its own: a weight may be one of several.
Set sums(const Arithmetic& a, const std::vector<Set>& numbers, const Order& order);

}  // namespace assay::worlds
