#include "reference/arithmetic/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace assay {
namespace {

// Each entry is the number of additions that the deepest term of a partial sum has gone through.
using Depths = std::vector<int>;

int in_a_row(const Depths& terms) {
  int depth = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) depth = std::max(depth, terms[i]) + 1;
  return depth;
}

int pairwise(Depths terms) {
  while (terms.size() > 1) {
    Depths sums;
    for (std::size_t i = 0; i + 1 < terms.size(); i += 2)
      sums.push_back(std::max(terms[i], terms[i + 1]) + 1);
    if (terms.size() % 2 != 0) sums.push_back(terms.back());
    terms = sums;
  }
  return terms.front();
}

// The kernels that the words describe, each in the deepest form that it may take.
int depth_of(Order order, int n) {
  const Depths terms(static_cast<std::size_t>(n), 0);
  const auto count = static_cast<std::size_t>(order.count);
  Depths sums;
  switch (order.word) {
    case Order::any:
    case Order::sequential:
      return in_a_row(terms);
    case Order::tree:
      return pairwise(terms);
    case Order::lanes:
      for (std::size_t lane = 0; lane < std::min(count, terms.size()); ++lane)
        sums.push_back(in_a_row(Depths((terms.size() - lane + count - 1) / count, 0)));
      return pairwise(sums);
    case Order::blocks:
      for (std::size_t first = 0; first < terms.size(); first += count)
        sums.push_back(in_a_row(Depths(std::min(count, terms.size() - first), 0)));
      return in_a_row(sums);
    case Order::likely:
      return 0;  // a model of errors, not a shape
    case Order::depth:
      return std::min(n - 1, std::max(pairwise(terms), static_cast<int>(order.count)));
  }
  return 0;
}

TEST(Order, height_is_the_deepest_of_its_kernels_and_at_most_one_more) {
  for (int n = 1; n <= 300; ++n)
    for (const Order order :
         {Order(Order::any), Order(Order::sequential), Order(Order::tree), Order(Order::lanes, 1),
          Order(Order::lanes, 7), Order(Order::lanes, 32), Order(Order::lanes, 1000), Order(Order::blocks, 1),
          Order(Order::blocks, 7), Order(Order::blocks, 128), Order(Order::blocks, 1000),
          Order(Order::depth, 1), Order(Order::depth, 500)}) {
      const int deepest = depth_of(order, n);
      EXPECT_GE(order.height(n), deepest) << to_string(order) << ", n = " << n;
      EXPECT_LE(order.height(n), deepest + 1) << to_string(order) << ", n = " << n;
    }
}

TEST(Order, likely_grows_with_the_root_and_is_no_word_of_a_contract) {
  EXPECT_EQ(Order(Order::likely).height(10001), 100 * kLikely);
  EXPECT_EQ(Order(Order::likely).height(3), 2);  // never above any's
  Order found;
  EXPECT_FALSE(find_order("likely", found));
}

// A term that starts the sum, or ends it, outside of the order is at least a term more of the order.
TEST(Order, a_start_is_an_addition_more) {
  for (const Order order : {Order(Order::any), Order(Order::sequential), Order(Order::tree),
                            Order(Order::lanes, 8), Order(Order::blocks, 8), Order(Order::depth, 5)})
    for (int n = 1; n < 300; ++n) {
      EXPECT_GE(order.height_with_start(n), order.height(n + 1)) << to_string(order) << ", n = " << n;
      EXPECT_LE(order.height_with_start(n), order.height(n) + 1) << to_string(order) << ", n = " << n;
    }
}

TEST(Order, text_is_read_as_what_it_prints) {
  for (const char* text : {"any", "sequential", "tree", "lanes:32", "blocks:128", "depth:2147483647"})
    EXPECT_EQ(to_string(order_of(text)), text);
  EXPECT_TRUE(order_of("lanes:2").is_shallow());
  EXPECT_FALSE(order_of("sequential").is_shallow());
}

}  // namespace
}  // namespace assay
