// The grammar of schedules by groups of rows: what is printed is read back, half of a pair of words is
// refused, and each row has the bits of the schedule that is its own.
#include "reference/replay/grouped_schedule.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "reference/error.hpp"

namespace assay {
namespace {

constexpr std::array kTexts = {
    "acc=f32 lanes=16",
    "rows=4 acc=f32 lanes=16 left.lanes=64 left.fold=16.32.8.4.2.1 left.tail=vector:16",
    "rows=2 acc=f32 lanes=8 fma=yes fold=adjacent tail=after scales=a_b left.fma=no left.lanes=1 "
    "left.fold=halving "
    "left.tail=lanes",
    "rows=65536 acc=hopper_fp8 chunk=128 left.chunk=0",
    "acc=f32 fma=yes chunk=256 below2.chunk=0 below2.lanes=16 below2.head=1 below2.tail=refold "
    "below16.chunk=0 "
    "below16.lanes=16",
    "rows=4 acc=f32 lanes=16 left.lanes=64 below3.lanes=8 below4.acc=f32",
    "columns=4 acc=f32 fma=yes lanes=16 head=1 tail=refold left.lanes=32 left.head_at=apart "
    "left.tail=folded:16 second.lanes=16 second.tail=lanes",
    "columns=3 acc=f32 left.lanes=2",
    "rows=8 acc=f64 split=3 left.split=1 left.acc=f32 left.scales=product",
};

TEST(GroupedSchedule, what_is_printed_is_read_back) {
  for (const char* text : kTexts) {
    const GroupedSchedule s = parse_grouped_schedule(text);
    const std::string printed = print_schedule(s);
    EXPECT_EQ(parse_grouped_schedule(printed), s) << text << "\n" << printed;
    EXPECT_EQ(print_schedule(parse_grouped_schedule(printed)), printed);
    EXPECT_EQ(parse_grouped_schedule(as_contract_value(printed)), s) << printed;
    EXPECT_EQ(parse_grouped_schedule("down.rows=3 down.left.lanes=2 " + print_schedule(s, "up."), "up."), s);
  }
}

TEST(GroupedSchedule, half_of_a_pair_and_a_left_that_says_nothing_new_are_refused) {
  for (const char* text : {"rows=4 acc=f32",
                           "acc=f32 left.lanes=4",
                           "rows=4 acc=f32 lanes=4 left.lanes=4",
                           "rows=4 acc=f32 left.acc=f32 left.scales=none",
                           "rows=1 acc=f32 left.lanes=4",
                           "rows=0 acc=f32 left.lanes=4",
                           "rows=65537 acc=f32 left.lanes=4",
                           "rows=4x acc=f32 left.lanes=4",
                           "rows acc=f32 left.lanes=4",
                           "rows=4 rows=8 left.lanes=4",
                           "rows=4 left.rows=2",
                           "rows=4 left.nonsense=2",
                           "rows=4 left.lanes=2 left.lanes=4",
                           "rows=4 left.left.lanes=2",
                           "rows=4 lanes=2 left.lanes=4 left.fold=2",
                           "below2.acc=f32",
                           "below1.lanes=4",
                           "below.lanes=4",
                           "below02.lanes=4",
                           "below2x.lanes=4",
                           "below2.rows=4",
                           "columns=4 acc=f32",
                           "columns=1 left.lanes=4",
                           "rows=4 columns=4 left.lanes=4",
                           "columns=4 columns=4 left.lanes=4",
                           "rows=4 left.lanes=4 second.lanes=2",
                           "columns=4 second.lanes=2",
                           "columns=4 left.lanes=4 second.lanes=4",
                           "columns=4 lanes=4 left.lanes=4",
                           "below2.columns=4",
                           "below2.lanes=4 below2.lanes=8"})
    EXPECT_THROW(static_cast<void>(parse_grouped_schedule(text)), InputError) << text;
}

ReplayOperand drawn(std::int64_t rows, std::int64_t k, std::mt19937_64& draw) {
  std::normal_distribution<float> normal;
  ReplayOperand o{rows, k, "f32", {}, {}};
  for (std::int64_t at = 0; at < rows * k; ++at) o.values.push_back(normal(draw));
  return o;
}

TEST(GroupedSchedule, each_row_is_summed_by_the_schedule_that_is_its_own) {
  constexpr std::int64_t kK = 200, kN = 3;
  std::mt19937_64 draw(20);
  const auto operand = [&](std::int64_t rows) { return drawn(rows, kK, draw); };
  const GroupedSchedule s = parse_grouped_schedule(kTexts[1]);
  const ReplayOperand b = operand(kN);
  for (const std::int64_t m : {1, 3, 4, 5, 8, 11}) {
    const ReplayOperand a = operand(m);
    const std::vector<double> sums = replay_sums(s, a, b), grouped = GemmReplay(a, b).sums(s.grouped),
                              left = GemmReplay(a, b).sums(s.left);
    ASSERT_EQ(sums.size(), grouped.size());
    EXPECT_NE(grouped, left) << m;
    for (std::int64_t at = 0; at < m * kN; ++at) {
      const auto i = static_cast<std::size_t>(at);
      EXPECT_EQ(sums[i], (at / kN < m - m % 4 ? grouped : left)[i]) << "m=" << m << " row " << at / kN;
    }
  }
}

TEST(GroupedSchedule, each_column_is_summed_by_the_schedule_that_is_its_own) {
  constexpr std::int64_t kK = 100;
  std::mt19937_64 draw(20);
  const auto operand = [&](std::int64_t rows) { return drawn(rows, kK, draw); };
  const auto s =
      parse_grouped_schedule("columns=4 acc=f32 fma=yes left.lanes=8 second.lanes=2 below2.lanes=16");
  for (const std::int64_t n : {2, 4, 7, 41, 43}) {
    const ReplayOperand a = operand(3), b = operand(n);
    const std::vector<double> sums = replay_sums(s, a, b);
    for (std::int64_t at = 0; at < 3 * n; ++at) {
      const std::int64_t left = at % n - n / 4 * 4;
      const char* lanes = left < 0 ? "1" : left % 2 == 0 ? "8" : "2";
      const auto own = parse_schedule(fmt::format("acc=f32 fma=yes lanes={}", lanes));
      EXPECT_EQ(sums[static_cast<std::size_t>(at)],
                GemmReplay(rows_of(a, {at / n}), rows_of(b, {at % n})).sums(own).front())
          << n << " " << at;
    }
    const ReplayOperand one = rows_of(a, {0});
    EXPECT_EQ(replay_sums(s, one, b), GemmReplay(one, b).sums(parse_schedule("acc=f32 fma=yes lanes=16")));
  }
}

TEST(GroupedSchedule, few_rows_have_the_schedule_of_the_least_count_that_is_above_theirs) {
  const GroupedSchedule s = parse_grouped_schedule("acc=f32 below2.lanes=2 below5.lanes=4");
  for (const auto& [count, lanes] : {std::pair{1, 2}, {2, 4}, {4, 4}, {5, 1}, {9, 1}})
    for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(s.of(i, count).lanes, lanes) << count;
  const ReplayOperand b{1, 6, "f32", {1, 1, 1, 1, 1, 1}, {}};
  const ReplayOperand row{1, 6, "f32", {0x1p24F, 1, 1, 1, -0x1p24F, 1}, {}};
  ReplayOperand rows = rows_of(row, {0, 0, 0, 0, 0});
  EXPECT_EQ(replay_sums(s, rows, b), GemmReplay(rows, b).sums(parse_schedule("acc=f32")));
  EXPECT_EQ(replay_sums(s, row, b), GemmReplay(row, b).sums(parse_schedule("acc=f32 lanes=2")));
  EXPECT_NE(replay_sums(s, row, b).front(), replay_sums(s, rows, b).front());
}

}  // namespace
}  // namespace assay
