// The order in which a kernel adds the n terms of one sum, in the one grammar that every op's contract uses:
//   any          every association and permutation, fused or not
//   sequential   in memory order, one accumulator
//   tree         pairwise, of height ceil(log2 n)
//   lanes:N      N partial sums, each over an N-th of the terms (strided or contiguous), then added as a
//                tree: a block of N threads and its butterfly
//   blocks:N     sums of N terms in any order, and then those sums in any order: what a tile of N terms does
//   depth:N      any association in which no term goes through more than N additions: whatever the others do
//                not say
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

  // The most additions that one of n terms goes through: the height of the tallest admissible tree of n
  // leaves.
  //   any, sequential  n - 1
  //   tree             ceil(log2 n)
  //   lanes:N          ceil(n / N) - 1 + ceil(log2 min(N, n))
  //   blocks:N         min(N, n) - 1 + ceil(n / N) - 1
  //   depth:N          min(max(N, ceil(log2 n)), n - 1): no tree is lower
  //   likely           min(kLikely sqrt(n - 1), n - 1): below
  // n counts places, not what is in them: a kernel that is given 0 for a masked term adds it. Throws nothing;
  // 0 for n <= 1.
  //
  // likely. A sum of n terms, in whatever tree, errs by sum_v d_v s_v over its n - 1 additions, |d_v| <= u,
  // where each computed
  // |s_v| <= A (1 + (n - 1) u), A = sum |t_i|. IF the errors d_v, taken from the leaves to the root, have
  // mean 0 given those before them, the partial sums of that series are a martingale, and (Azuma 1967; Higham
  // and Mary 2020 use it so)
  //   P(|error| > lambda sqrt(n - 1) u A (1 + (n - 1) u)) <= 2 exp(-lambda^2 / 2):     6.7e-4 at lambda = 4
  // for ONE sum, and for every n. It says nothing of a whole tensor: of 4,096 independent outputs up to 2.7
  // might lie outside. That none of a right kernel does is calibrated, not proven
  // (reports/results/second_opinion.md), and so is the premise.
  double height(double n) const;
  // The same of n places and one term more that starts the sum or is added at its end, outside of the order
  // (a sink).
  //   likely, depth    of n + 1 terms: every association is theirs
  //   others           height(n) + 1, which is never below height(n + 1)
  double height_with_start(double n) const;
  // Every order but `any` and `sequential` bounds the height below n - 1.
  constexpr bool is_shallow() const { return word != any && word != sequential; }
};

inline constexpr std::string_view kOrderWords = "any|sequential|tree|lanes:N|blocks:N|depth:N";

// What each word says, for the reader of a manual.
struct OrderMeaning {
  std::string_view word, meaning;
};
inline constexpr OrderMeaning kOrderMeanings[] = {
    {"any", "every association and permutation of the terms, fused or not"},
    {"sequential", "in memory order, one accumulator"},
    {"tree", "pairwise, of height ceil(log2 n)"},
    {"lanes:N",
     "N sums, each over an N-th of the terms (ceil(n / N) at most), strided or contiguous, then those "
     "pairwise"},
    {"blocks:N", "sums of N terms in any order, and then those sums in any order"},
    {"depth:N", "any association in which no term goes through more than N additions"},
};

// False for a word that no contract can declare, and for an N that is not 1..kMostDeclared written without a
// leading zero.
bool find_order(std::string_view word, Order& found);
Order order_of(std::string_view word);  // `likely` too; throws InputError bad_value, saying what is allowed
std::string to_string(Order order);

}  // namespace assay
