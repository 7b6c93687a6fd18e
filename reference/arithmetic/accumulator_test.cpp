#include "reference/arithmetic/accumulator.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "reference/arithmetic/ordered_testing.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

TEST(Accumulator, orders_differ_where_they_should_and_agree_where_the_sum_is_exact) {
  const std::vector<double> x{1, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24};
  EXPECT_EQ(ordered_sum({kPrecisionF32, SumOrder::sequential, 1, false}, x), 1);
  EXPECT_EQ(ordered_sum({kPrecisionF32, SumOrder::tree, 1, false}, x), 1 + 3 * 0x1p-23);
  EXPECT_EQ(ordered_sum({kPrecisionF32, SumOrder::lanes, 2, false}, x), 1 + 0x1p-22);
  EXPECT_EQ(ordered_sum({kPrecisionF64, SumOrder::sequential, 1, false}, x), 1 + 7 * 0x1p-24);
  EXPECT_EQ(ordered_sum({kPrecisionF32}, {}, 3), 3);
  // Fused: a product of 24-bit factors is not rounded on its own.
  const std::vector<float> a{1 + 0x1p-12f}, b{1 + 0x1p-12f};
  EXPECT_EQ(ordered_dot({kPrecisionF32, SumOrder::sequential, 1, true}, a, b, -1), 0x1p-11 + 0x1p-24);
  EXPECT_EQ(ordered_dot({kPrecisionF32, SumOrder::sequential, 1, false}, a, b, -1), 0x1p-11);
  EXPECT_THROW(accumulator("f8"), InputError);
}

}  // namespace
}  // namespace assay
