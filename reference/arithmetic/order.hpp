// The order in which a kernel adds the n terms of one sum, in the one grammar that every op's contract uses:
//   any          every association and permutation, fused or not
//   sequential   in memory order, one accumulator
//   tree         pairwise, of height ceil(log2 n)
//   lanes:N      N partial sums, each over an N-th of the terms (strided or contiguous), then added as a tree: a block of N
//                threads and its butterfly
//   blocks:N     sums of N terms in any order, and then those sums in any order: what a tile of N terms does
//   depth:N      any association in which no term goes through more than N additions: whatever the others do not say
// and one that no contract can declare, of the second opinion (reference/ops/second_opinion.hpp):
//   likely       any order whose rounding errors behave like independent draws of mean 0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

inline constexpr double kLikely = 4;

struct Order {
  enum Word : std::uint8_t { any, sequential, tree, lanes, blocks, depth, likely };
  Word word = any;
  std::int64_t count = 0;  // N of lanes, blocks and depth

  constexpr Order() = default;
  constexpr Order(Word w, std::int64_t n = 0) : word(w), count(n) {}  // NOLINT: Order::tree is an order
  constexpr bool operator==(Word w) const { return word == w; }

  // The most additions that one of n terms goes through: the height of the tallest admissible tree of n leaves.
  //   any, sequential  n - 1
  //   tree             ceil(log2 n)
  //   lanes:N          ceil(n / N) - 1 + ceil(log2 min(N, n))
  //   blocks:N         min(N, n) - 1 + ceil(n / N) - 1
  //   depth:N          min(N, n - 1)
  //   likely           min(kLikely sqrt(n - 1), n - 1): Higham and Mary 2019 replace n u by lambda sqrt(n) u, which then holds
  //                    with probability 1 - 2 n exp(-lambda^2 / 2) if the errors are independent and of mean 0
  // Throws nothing; 0 for n <= 1.
  double height(double n) const;
  // Every order but `any` and `sequential` bounds the height below n - 1.
  constexpr bool is_shallow() const { return word != any && word != sequential; }
};

inline constexpr std::string_view kOrderWords = "any|sequential|tree|lanes:N|blocks:N|depth:N";

// False for a word that no contract can declare, and for an N that is not 1..kMostDeclared written without a leading zero.
bool find_order(std::string_view word, Order& found);
Order order_of(std::string_view word);  // `likely` too; throws InputError bad_value, saying what is allowed
std::string to_string(Order order);

}  // namespace assay
