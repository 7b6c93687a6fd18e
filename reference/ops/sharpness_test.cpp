#include "reference/ops/sharpness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/ops/judged.hpp"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Sharpness of(std::vector<double> value, std::vector<double> limit, const char* format = "f32") {
  const Truth truth{"y", std::move(value), std::move(limit), ""};
  const TensorSpec output{"y", TensorRole::output, format, {static_cast<std::int64_t>(truth.value.size())}};
  return sharpness(std::span(&truth, 1), std::span(&output, 1));
}

TEST(Sharpness, is_the_least_the_median_and_the_greatest_of_limit_over_value) {
  const Sharpness s = of({1, -2, 4, 8}, {0.5, 0.5, 0.5, 0.5});
  EXPECT_EQ(s.elements, 4U);
  EXPECT_EQ(s.some, 0.0625);
  EXPECT_EQ(s.half, 0.125);  // a relative error just above it shows in two of four
  EXPECT_EQ(s.loosest, 0.5);
}

// The figures are what judge() does: a uniform relative error just above `half` is seen in half of the
// elements, and one just below it is not.
TEST(Sharpness, half_is_where_half_of_the_elements_turn_red) {
  const std::vector<double> value = {1, 3, -7, 0.25, 1000}, limit = {0.1, 0.2, 0.3, 0.1, 5};
  const double half = of(value, limit).half;
  const auto seen = [&](double error) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < value.size(); ++i)
      if (!judge(value[i] * (1 + error), value[i], limit[i]).ok) ++count;
    return 2 * count;
  };
  EXPECT_GE(seen(half * 1.001), value.size());
  EXPECT_LT(seen(half * 0.999), value.size());
}

TEST(Sharpness, an_element_of_which_nothing_is_claimed_shows_nothing) {
  EXPECT_TRUE(is_blind(of({1, std::nan("")}, {kInf, kInf})));
  const Sharpness s = of({1, 2, 3}, {0.5, kInf, kInf});
  EXPECT_EQ(s.some, 0.5);
  EXPECT_EQ(s.half, kInf);
  EXPECT_EQ(s.loosest, 0.5);
  EXPECT_TRUE(is_blind(s));
}

TEST(Sharpness, zeros_and_specials_are_claims_of_their_own_kind) {
  const Sharpness s = of({0, std::nan(""), kInf}, {0, 0, 0});
  EXPECT_EQ(s.elements, 0U);
  EXPECT_FALSE(is_blind(s));
  EXPECT_EQ(of({0, 1}, {0.5, 0.01}).half, 0.01);
  EXPECT_TRUE(is_blind(of({}, {})));
}

TEST(Sharpness, below_the_normal_numbers_of_the_output_nothing_is_relative) {
  EXPECT_EQ(of({0x1p-14, 0x1p-15, 0x1p-20}, {0x1p-20, 1, 1}, "f16").half, 0x1p-6);
  EXPECT_EQ(of({0x1p-14, 0x1p-15, 0x1p-20}, {0x1p-20, 1, 1}, "f32").half, 0x1p15);
  EXPECT_EQ(of({0x1p-200}, {1}, "q8_0").half, 0x1p200);
}

TEST(Sharpness, of_two_outputs_the_less_sharp_counts) {
  const std::vector<Truth> two = {{"a", {1}, {0.01}, ""}, {"b", {1}, {0.2}, ""}};
  EXPECT_EQ(sharpness(two, {}).half, 0.2);
  EXPECT_TRUE(is_blind(sharpness(two, {})));
}

TEST(Sharpness, ten_percent_is_the_bound_itself) {
  EXPECT_FALSE(is_blind(of({1}, {0.1})));
  EXPECT_TRUE(is_blind(of({1}, {std::nextafter(0.1, 1)})));
}

}  // namespace
}  // namespace assay
