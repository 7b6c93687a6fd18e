#include "harness/verdict.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "reference/parallel.hpp"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Comparison one(double value, double limit, double got) {
  return compare(Truth{"y", {value}, {limit}, ""}, std::vector<double>{got});
}

TEST(Compare, the_limit_itself_passes_and_the_next_double_fails) {
  EXPECT_TRUE(one(1, 0.25, 1.25).ok);
  EXPECT_FALSE(one(1, 0.25, std::nextafter(1.25, 2)).ok);
  EXPECT_TRUE(one(1, 0, 1).ok);
  EXPECT_FALSE(one(1, 0, std::nextafter(1.0, 2)).ok);
}

TEST(Compare, what_is_exact_has_used_nothing_of_its_limit) {
  EXPECT_EQ(one(kNaN, 0, kNaN).worst_ratio, 0);
  EXPECT_EQ(one(kInfinity, 0, kInfinity).worst_ratio, 0);
  EXPECT_EQ(one(1, 0, 1).worst_ratio, 0);
  EXPECT_EQ(one(1, 0.5, 1.25).worst_ratio, 0.5);
}

TEST(Compare, what_no_limit_would_allow_is_infinitely_far) {
  EXPECT_EQ(one(kNaN, 1, 0).worst_ratio, kInfinity);
  EXPECT_EQ(one(kInfinity, 1, 0).worst_ratio, kInfinity);
  EXPECT_EQ(one(1, 1, kNaN).worst_ratio, kInfinity);
}

TEST(Compare, the_first_of_equally_bad_elements_is_the_worst) {
  const Truth truth{"y", {1, 1, 1}, {0.5, 0.5, 0.5}, ""};
  EXPECT_EQ(compare(truth, std::vector<double>{1.25, 1.5, 1.5}).worst, 1U);
  EXPECT_EQ(compare(truth, std::vector<double>{1, 1, 1}).worst, 0U);
}

TEST(Compare, one_claimed_element_is_a_claim) {
  EXPECT_TRUE(compare(Truth{"y", {1, 2}, {kInfinity, kInfinity}, ""}, std::vector<double>{1, 2}).unclaimed);
  EXPECT_FALSE(compare(Truth{"y", {1, 2}, {kInfinity, 1}, ""}, std::vector<double>{1, 2}).unclaimed);
  EXPECT_FALSE(compare(Truth{"y", {1, 2}, {1, kInfinity}, ""}, std::vector<double>{1, 2}).unclaimed);
}

TEST(Compare, a_nan_output_fails_under_every_limit_that_claims_anything) {
  for (const double limit : {0.0, 1.0, kAnyNumber, kNaN}) EXPECT_FALSE(one(1, limit, kNaN).ok) << limit;
  for (const double number : {-3e38, 0.0, 3e38}) EXPECT_TRUE(one(1, kAnyNumber, number).ok) << number;
  EXPECT_FALSE(one(1, kAnyNumber, kInfinity).ok);
}

TEST(Compare, a_nan_limit_passes_nothing) { EXPECT_FALSE(one(1, kNaN, 1).ok); }

TEST(Compare, a_negative_limit_passes_nothing) { EXPECT_FALSE(one(1, -1, 1).ok); }

TEST(Compare, a_true_nan_or_infinity_is_demanded) {
  EXPECT_TRUE(one(kNaN, 0, kNaN).ok);
  EXPECT_FALSE(one(kNaN, 1e300, 0).ok);
  EXPECT_TRUE(one(kInfinity, 0, kInfinity).ok);
  EXPECT_FALSE(one(kInfinity, kAnyNumber, -kInfinity).ok);
  EXPECT_FALSE(one(kInfinity, kAnyNumber, 65504).ok);
}

// Where an intermediate result may overflow, Inf - Inf is right.
TEST(Compare, nothing_is_claimed_where_the_limit_is_infinite) {
  for (const double value : {kNaN, 1.0, kInfinity})
    for (const double got : {0.0, 1.0, kInfinity, kNaN}) {
      EXPECT_TRUE(one(value, kInfinity, got).ok) << got;
      EXPECT_TRUE(one(value, kInfinity, got).unclaimed) << got;
      EXPECT_EQ(one(value, kInfinity, got).worst_ratio, 0) << got;
    }
}

TEST(Compare, an_element_without_a_claim_is_never_the_worst) {
  const Truth truth{"y", {1, 1, 1}, {kInfinity, 0.5, 0.5}, ""};
  const Comparison c = compare(truth, std::vector<double>{kNaN, 1.25, 1.125});
  EXPECT_TRUE(c.ok);
  EXPECT_EQ(c.worst, 1U);
  EXPECT_EQ(c.worst_ratio, 0.5);
}

TEST(Compare, an_infinite_output_fails_a_finite_limit) { EXPECT_FALSE(one(1, 1e300, kInfinity).ok); }

// The parts of a large output are put together as one loop would have it: the first of two worst elements
// counts.
TEST(Compare, many_elements_are_judged_as_a_few_are) {
  constexpr std::size_t kCount = 2 * kParallelGrain + 3;
  Truth truth{"y", std::vector<double>(kCount, 1), std::vector<double>(kCount, kInfinity), ""};
  std::vector<double> got(kCount, 1.25);
  EXPECT_TRUE(compare(truth, got).unclaimed);
  for (double& limit : truth.limit) limit = 1;
  truth.limit[kParallelGrain + 5] = truth.limit[2 * kParallelGrain + 1] = 0.125;
  for (const int threads : {1, 4}) {
    set_reference_threads(threads);
    const Comparison c = compare(truth, got);
    EXPECT_EQ(c.elements, kCount);
    EXPECT_EQ(c.bad, 2U);
    EXPECT_EQ(c.worst, kParallelGrain + 5);
    EXPECT_EQ(c.worst_ratio, 2);
    EXPECT_FALSE(c.ok || c.unclaimed || c.zeros_would_pass);
    EXPECT_EQ(c.errors[octave_of(true, 0.25)], kCount - 2);
  }
  got.back() = kNaN;  // of the last octave, in the last part
  const Comparison c = compare(truth, got);
  EXPECT_EQ(c.errors.back(), 1U);
  EXPECT_EQ(std::accumulate(c.errors.begin(), c.errors.end(), std::size_t{0}), kCount);
  set_reference_threads(1);
}

TEST(Compare, nothing_judged_is_not_ok) { EXPECT_FALSE(compare(Truth{"y", {}, {}, ""}, {}).ok); }

TEST(Compare, sizes_that_differ_are_refused) {
  EXPECT_THROW(compare(Truth{"y", {1, 2}, {0, 0}, ""}, std::vector<double>{1}), InputError);
  EXPECT_THROW(compare(Truth{"y", {1}, {}, ""}, std::vector<double>{1}), InputError);
}

TEST(Compare, the_worst_element_is_found_and_the_bad_are_counted) {
  const Truth truth{"y", {1, 1, 1, 1}, {0.1, 0.1, 0.1, 0.1}, ""};
  const auto c = compare(truth, std::vector<double>{1, 1.2, 1.5, 1.05});
  EXPECT_EQ(c.bad, 2U);
  EXPECT_EQ(c.worst, 2U);
  EXPECT_EQ(c.worst_ratio, 0.5 / 0.1);
}

TEST(Compare, a_nan_is_the_worst_of_all) {
  const Truth truth{"y", {1, 1}, {0.1, 0.1}, ""};
  EXPECT_EQ(compare(truth, std::vector<double>{100, kNaN}).worst, 1U);
}

TEST(Compare, inputs_that_zeros_would_pass_are_noticed) {
  EXPECT_TRUE(one(0.01, 0.02, 0.01).zeros_would_pass);
  EXPECT_FALSE(one(0.01, 0.005, 0.01).zeros_would_pass);
  EXPECT_FALSE(one(kNaN, 0, kNaN).zeros_would_pass);
  EXPECT_TRUE(one(1, kInfinity, 1).unclaimed);
}

TEST(Compare, octaves_end_at_the_limit_itself) {
  EXPECT_EQ(octave_of(true, 0), 0U);
  EXPECT_EQ(octave_of(true, 0x1p-30), 1U);
  EXPECT_EQ(octave_of(true, 0x1p-12), 1U);
  EXPECT_EQ(octave_of(true, 0.51), 13U);
  EXPECT_EQ(octave_of(true, 1), 13U);
  EXPECT_EQ(octave_of(false, 1), kFirstBadOctave);  // beyond, by less than its quotient shows
  EXPECT_EQ(octave_of(false, 2), 14U);
  EXPECT_EQ(octave_of(false, kInfinity), kOctaves - 1);
  EXPECT_EQ(octave_of(false, 1e300), kOctaves - 1);
  EXPECT_EQ(one(kNaN, 1, 1).errors[kOctaves - 1], 1U);
}

// 100 columns are 48 tiles at most, three columns wide: the last tile has one column.
TEST(Describe, maps_what_is_bad_by_tiles) {
  Truth truth{"y", std::vector<double>(200, 1.0), std::vector<double>(200, 0.1), ""};
  std::vector<double> got(200, 1.0);
  const TensorSpec y{"y", TensorRole::output, "f32", {2, 100}};
  EXPECT_EQ(bad_elements(truth, got, y).map, std::string(68, '0'));
  got[1] = kNaN, got[199] = 2;
  const BadElements b = bad_elements(truth, got, y);
  EXPECT_EQ(b.tile_columns, 3U);
  EXPECT_EQ(b.map, "3" + std::string(66, '0') + "9");
  ASSERT_EQ(b.first.size(), 2U);
  EXPECT_EQ(b.first[0].at, "y[0,1]");
  EXPECT_EQ(b.first[1].at, "y[1,99]");
}

TEST(Describe, says_where_what_and_how_far) {
  const Truth truth{"y", {1, 0.5}, {0.1, 0.001}, "the derivation"};
  const std::vector<double> got{1, 0.75};
  const auto text = describe(truth, compare(truth, got), got, {"y", TensorRole::output, "f16", {1, 2}});
  for (const char* part : {"y[0,1]", "1 of 2 bad", "0x3a00", "0x3800", "the derivation"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

}  // namespace
}  // namespace assay
