// A call that takes twice the time is `slower`, and its twin is not, however busy the machine is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cases/lists.hpp"
#include "harness/speed.hpp"
#include "harness/testing/command.hpp"

namespace {

using ::assay::Outcome;

Outcome assay(const std::string& arguments) { return ::assay::run_command(ASSAY_PROGRAM " " + arguments); }
const std::string kFaulty = "-b " FAULTY_SOFTMAX;

constexpr const char* kCase = "softmax rows=100 cols=500 backend=" FAULTY_SOFTMAX " variant=correct";

int repetitions(int of_a_night, int of_a_day) {
  return std::getenv("ASSAY_NIGHTLY") != nullptr ? of_a_night : of_a_day;
}

// How many of so many comparisons of a case with its partner, each with orders of its own, find the case
// slower.
int found(const std::string& line, const std::string& than, int times, const std::string& over = "") {
  const auto known = ::assay::known_backends();
  ::assay::Workers workers(known);
  const ::assay::Case c = ::assay::expand(::assay::parse_case(line))[0];
  ::assay::SpeedPair pair{c, ::assay::partner(c, than)};
  if (!over.empty()) pair.attribute = "rows", pair.low = "50", pair.high = over;
  int slower = 0;
  for (int i = 0; i < times; ++i) {
    ::assay::SpeedOptions options;
    options.seed = static_cast<std::uint64_t>(i) + 1;
    const auto result = ::assay::compare_speed(pair, workers, ::assay::input_lists(), options);
    EXPECT_EQ(result.why, "");
    slower += result.slower();
  }
  return slower;
}

// The order statistics of a median: P(Bin(21, 1/2) <= 3) = 1562 / 2^21 = 0.00074, and with 4 it is 0.0036.
TEST(Speed, the_ends_of_the_interval_are_order_statistics) {
  std::vector<std::pair<double, double>> rounds;
  for (int i = 1; i <= 21; ++i) rounds.emplace_back(i, 1);
  const auto all = ::assay::ratio_interval(rounds, 0.999);
  EXPECT_EQ(all.low, 4);
  EXPECT_EQ(all.median, 11);
  EXPECT_EQ(all.high, 18);
  // Rounds in which the partner's slope has no sign speak for neither side.
  for (int i = 0; i < 4; ++i) rounds[static_cast<std::size_t>(i) * 5].second = -1;
  EXPECT_LT(::assay::ratio_interval(rounds, 0.999).low, 0);
  EXPECT_GT(::assay::ratio_interval(rounds, 0.999).high, 21);
  EXPECT_THROW(::assay::ratio_interval({{1, 1}, {2, 1}}, 0.999), ::assay::InputError);
}

TEST(Speed, twice_the_time_is_found) {
  const int times = repetitions(20, 2);
  const std::string twice = std::string(kCase).replace(std::string(kCase).rfind("correct"), 7, "twice");
  EXPECT_GE(found(twice, "variant=correct", times), times - 1);
  EXPECT_GE(found(twice, "variant=correct", times, "150"), times - 1);
}

TEST(Speed, nothing_is_found_where_there_is_nothing) {
  EXPECT_EQ(found(kCase, "seed=2", repetitions(200, 2)), 0);
  EXPECT_EQ(found(kCase, "seed=2", repetitions(200, 1), "150"), 0);
  EXPECT_EQ(found("attention heads=4 kv_heads=2 d=64 len=512 kv=q8_0 backend=cpu", "variant=convert_f16",
                  repetitions(200, 1)),
            0);
}

TEST(Speed, the_program_says_who_is_slower_and_what_was_moved) {
  const Outcome slower =
      assay("speed 'softmax rows=100 cols=500 variant=twice' --than variant=correct " + kFaulty);
  EXPECT_EQ(slower.code, 1) << slower.text;
  EXPECT_EQ(slower.text.find("slower softmax"), 0u) << slower.text;
  EXPECT_NE(slower.text.find("moved  1 x the bytes: 400000 and 400000"), std::string::npos) << slower.text;
  EXPECT_NE(slower.text.find("repro  assay speed"), std::string::npos) << slower.text;
  // 1.0625 of 2 bytes per element of K and V; q, out and the scales are little beside them.
  const Outcome q8 =
      assay("speed 'attention heads=1 d=64 len=2048 kv=q8_0' --than kv=f16 --allowed 9 -b cpu --rounds 11");
  EXPECT_EQ(q8.code, 0) << q8.text;
  EXPECT_NE(q8.text.find("moved  0.531"), std::string::npos) << q8.text;
}

TEST(Speed, what_cannot_be_compared_is_refused) {
  EXPECT_EQ(assay("speed 'softmax rows=4 cols=5' --than variant=correct,wrong " + kFaulty).code, 2);
  EXPECT_EQ(assay("speed 'softmax rows=4 cols=5' --than variant=correct --rounds 3 " + kFaulty).code, 2);
  // The attribute of a slope need not stand in the case.
  const auto slopes =
      assay("speed 'softmax cols=5' --than variant=correct --over rows=4,8 --rounds 11 " + kFaulty);
  EXPECT_NE(slopes.text.find("rows=4"), std::string::npos) << slopes.text;
  EXPECT_NE(slopes.text.find("1 pairs: "), std::string::npos) << slopes.text;
  EXPECT_EQ(assay("speed 'softmax rows=4 cols=5' --than variant=correct --over rows " + kFaulty).code, 2);
  const Outcome refused = assay("speed 'softmax rows=4 cols=5' --than variant=refuses " + kFaulty);
  EXPECT_EQ(refused.code, 3) << refused.text;
  EXPECT_NE(refused.text.find("out of luck"), std::string::npos) << refused.text;
}

}  // namespace
