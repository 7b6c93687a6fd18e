// Columns that are left behind whole fours are told from the others, and each kind of columns has the
// schedule that its bits show.
#include "cases/studies/identify/columns.hpp"

#include <gtest/gtest.h>

#include "cases/studies/identify/loops_testing.hpp"
#include "cases/studies/identify/replay_level.hpp"

namespace assay {
namespace {

// Columns in fours by one loop, and those that are left by another.
class Fours : public Loops {
 public:
  explicit Fours(Dot left) : Loops(headed, "f32"), left_(std::move(left)) {}
  std::optional<Answer> crafted(const GemmShape& s, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override {
    std::optional<Answer> answer = Loops::crafted(s, std::move(a), std::move(b), what);
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = s.n / 4 * 4; j < s.n; ++j)
        answer->got[static_cast<std::size_t>(i * s.n + j)] = static_cast<double>(
            left_(answer->a.values.data() + i * s.k, answer->b.values.data() + j * s.k, s.k));
    return answer;
  }

 private:
  Dot left_;
};

constexpr const char* kLeft = "acc=f32 fma=yes lanes=16 head=1 head_at=apart tail=folded:8";

TEST(IdentifyColumns, columns_that_are_left_behind_fours_have_a_schedule_of_their_own) {
  for (const GemmShape& shape : {GemmShape{1, 203, 100}, GemmShape{2, 22, 90}, GemmShape{1, 9, 200}}) {
    Fours kernel(headed_apart);
    const ShapeCard card = identify_columns(kernel, shape, {});
    ASSERT_TRUE(card.identified()) << shape.n;
    ASSERT_EQ(card.pieces.size(), 2U) << shape.n;
    EXPECT_EQ(std::ssize(card.pieces[0].columns), shape.n / 4 * 4);
    EXPECT_EQ(print_schedule(*card.pieces[0].schedule), "acc=f32 fma=yes lanes=8 head=1 tail=refold");
    EXPECT_EQ(card.pieces[1].columns.front(), shape.n / 4 * 4);
    EXPECT_EQ(card.pieces[1].columns.back(), shape.n - 1);
    EXPECT_EQ(std::ssize(card.pieces[1].rows), shape.m);
    EXPECT_EQ(print_schedule(*card.pieces[1].schedule), kLeft) << shape.n;
    EXPECT_EQ(card.calls, kernel.calls);
    const std::optional<GroupedSchedule> by_groups = schedule_of_rows(card);
    ASSERT_TRUE(by_groups) << shape.n;
    EXPECT_EQ(print_schedule(*by_groups),
              "columns=4 acc=f32 fma=yes lanes=8 head=1 tail=refold left.lanes=16 left.head_at=apart "
              "left.tail=folded:8");
    EXPECT_TRUE(judge_by_replay(kernel, shape, *by_groups, 2).ok());
    EXPECT_FALSE(judge_by_replay(kernel, shape, {by_groups->grouped, by_groups->grouped}, 8).ok());
    Fours alike(headed);
    const ShapeCard one = identify_columns(alike, shape, {});
    EXPECT_EQ(one.pieces.size(), 1U) << shape.n;
    EXPECT_TRUE(one.pieces.front().columns.empty());
  }
}

TEST(IdentifyColumns, a_kernel_that_is_off_by_one_step_is_not_taken_for_the_one_that_is_not) {
  const auto without_first = [](const float* a, const float* b, std::int64_t n, const Dot& dot) {
    std::vector<float> rest(a, a + n);
    rest[0] = 0;
    return dot(rest.data(), b, n);
  };
  const Dot fused = [=](auto a, auto b, auto n) {
    return std::fma(a[0], b[0], without_first(a, b, n, headed_apart));
  };
  const Dot tail_ahead = [](auto a, auto b, auto n) {
    const float first = a[0] * b[0];
    return strided(16, true, false)(a + 1, b + 1, n - 1) + first;
  };
  const Dot no_head = strided(16, true, false);
  for (const Dot& wrong : {fused, tail_ahead, no_head}) {
    Fours kernel(wrong);
    const ShapeCard card = identify_columns(kernel, {1, 21, 100}, {}, {.search_seconds = 2});
    ASSERT_EQ(card.pieces.size(), 2U);
    EXPECT_FALSE(card.pieces[1].schedule && print_schedule(*card.pieces[1].schedule) == kLeft);
    EXPECT_EQ(std::ranges::find(card.pieces[1].also, parse_schedule(kLeft)), card.pieces[1].also.end());
  }
}

}  // namespace
}  // namespace assay
