// Each kernel of loops_testing.hpp is told from all others by its bits, and a kernel that is off by one step
// is never taken for the one that is not.
#include "cases/studies/identify/identify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "cases/studies/identify/loops_testing.hpp"
#include "cases/studies/identify/replay_level.hpp"
#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"
#include "reference/ops/op.hpp"
#include "reference/replay/declared.hpp"

namespace assay {
namespace {

TEST(Identify, every_known_arithmetic_is_found_whole_in_at_most_64_calls) {
  // All of them at night, every fifth in each run of the tests.
  const std::size_t step = std::getenv("ASSAY_TRIALS") != nullptr ? 1 : 5;
  for (std::size_t i = 0; i < known().size(); i += step) {
    const Known& k = known()[i];
    Loops loops(k.dot, parse_schedule(k.schedule).unit() != nullptr ? "bf16" : "f32");
    const GemmShape shape{8, 48, 160};
    const ShapeCard card = identify_shape(loops, shape, {}, {.most_mask_calls = 20, .least_outputs = 10'000});
    ASSERT_TRUE(card.identified()) << k.schedule;
    EXPECT_LE(loops.calls, 64) << k.schedule;
    EXPECT_GE(card.compared(), 10'000);
    EXPECT_EQ(signature(plan_sum(*card.pieces.front().schedule, shape.k)),
              signature(plan_sum(parse_schedule(k.schedule), shape.k)))
        << k.schedule << " was taken for " << print_schedule(*card.pieces.front().schedule);
  }
}

// ASSAY_TRIALS of them at night. A trial asks until the schedules that are left make the same additions; who
// asks knows no truth.
TEST(Identify, no_arithmetic_is_ever_taken_for_another) {
  const char* wanted = std::getenv("ASSAY_TRIALS");
  const std::int64_t trials = wanted != nullptr ? std::atoll(wanted) : 10'000;
  constexpr GemmShape kShape{1, 8, 160};
  constexpr int kMostCalls = 64;
  std::vector<Schedule> schedules;
  // With operands of 8 bits a product is exact, and fma is the same as not: those are one arithmetic, not an
  // error.
  std::vector<std::uint64_t> additions;
  for (const Known& k : known()) {
    schedules.push_back(parse_schedule(k.schedule));
    Schedule rounded = schedules.back();
    rounded.fma = false;
    additions.push_back(signature(plan_sum(rounded, kShape.k)));
  }
  std::int64_t errors = 0;
  int most_calls = 0;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    std::uint64_t draw = mix(static_cast<std::uint64_t>(trial) + 1);
    const std::size_t which = draw % known().size();
    Loops loops(known()[which].dot, "bf16");
    std::vector<RowPiece> pieces = search(*loops.drawn(kShape, next_mixed(draw)), "f32", schedules);
    std::vector<std::size_t> left;
    const auto undecided = [&] {
      left.clear();
      const RowPiece& piece = pieces.front();
      for (std::size_t i = 0; i < schedules.size(); ++i)
        if (piece.schedule && (*piece.schedule == schedules[i] ||
                               std::ranges::find(piece.also, schedules[i]) != piece.also.end()))
          left.push_back(i);
      return std::ranges::any_of(left, [&](std::size_t i) { return additions[i] != additions[left[0]]; });
    };
    while (undecided() && loops.calls < kMostCalls)
      confirm(pieces, *loops.drawn(kShape, next_mixed(draw)), "f32");
    most_calls = std::max(most_calls, loops.calls);
    if (!undecided() && std::ranges::find(left, which) != left.end()) continue;
    if (++errors < 4)
      ADD_FAILURE() << known()[which].schedule << " in trial " << trial << " was taken for "
                    << (left.empty() ? "none" : known()[left.back()].schedule);
  }
  EXPECT_EQ(errors, 0) << "of " << trials;
  std::cout << trials << " trials, " << errors << " errors, " << most_calls << " calls at most\n";
}

TEST(Identify, a_tampered_schedule_is_never_identified_as_the_untampered_one) {
  for (const Known& k : known()) {
    const Schedule truth = parse_schedule(k.schedule);
    Loops loops(k.dot, truth.unit() != nullptr ? "bf16" : "f32");
    const std::optional<Answer> answer = loops.drawn({4, 64, 160}, 3);
    const std::vector<Answer> crafted = crafted_calls(loops, {4, 64, 160});
    for (const Tampered& t : tampered(truth, 160)) {
      if (signature(plan_sum(t.schedule, 160)) == signature(plan_sum(truth, 160))) continue;
      // The order of sums in f64, and its exact products, leave no trace in an f32.
      if (truth.acc == "f64" && t.schedule.acc == "f64") continue;
      std::vector<RowPiece> pieces = search(*answer, "f32", {t.schedule});
      for (const Answer& more : crafted) confirm(pieces, more, "f32");
      EXPECT_FALSE(pieces.size() == 1 && pieces[0].schedule)
          << print_schedule(t.schedule) << " for " << k.schedule;
    }
  }
}

TEST(Identify, what_is_no_hypothesis_stays_unknown) {
  Loops loops(
      [](const float* a, const float* b, std::int64_t n) {  // every third term first
        float s = 0;
        for (std::int64_t first = 0; first < 3; ++first)
          for (std::int64_t k = first; k < n; k += 3) s += a[k] * b[k];
        return s;
      },
      "f32");
  const ShapeCard card = identify_shape(loops, {4, 32, 100}, {}, {.search_seconds = 2});
  EXPECT_FALSE(card.identified());
  EXPECT_LT(card.pieces.front().nearest_share, 1);
}

TEST(Identify, a_store_of_8_bits_hides_no_step) {
  for (const char* text : {"acc=f32 lanes=8", "acc=f32 fma=yes order=swapped"})
    for (const Known& k : known()) {
      if (std::string_view(k.schedule) != text) continue;
      Loops loops(k.dot, "f32", "bf16");
      const ShapeCard card = identify_shape(loops, {8, 48, 160}, {}, {.most_mask_calls = 20});
      ASSERT_TRUE(card.identified()) << text;
      EXPECT_EQ(signature(plan_sum(*card.pieces.front().schedule, 160)),
                signature(plan_sum(parse_schedule(text), 160)));
    }
}

// 8 bits in and out and few terms: on drawn numbers every matrix unit gives the bits of VDPBF16PS too.
TEST(Identify, what_fits_by_chance_gives_way_to_what_a_crafted_answer_shows_and_accuses_nobody) {
  const char* truth = "acc=f32 fma=yes order=swapped";
  const auto dot = std::ranges::find(known(), std::string_view(truth), &Known::schedule)->dot;
  for (const std::int64_t k : {32, 64}) {
    Loops loops(dot, "bf16", "bf16");
    const ShapeCard card = identify_shape(loops, {64, 64, k}, {}, {});
    ASSERT_TRUE(card.identified()) << k;
    EXPECT_EQ(print_schedule(*card.pieces.front().schedule), truth);
    EXPECT_TRUE(card.concludes("acc"));
    Loops drawn_only(dot, "bf16", "bf16");
    EXPECT_FALSE(identify_shape(drawn_only, {64, 64, k}, {}, {.most_mask_calls = 0}).concludes("acc"));
  }
}

// cuBLAS of FP8 with K in slices: sums of 128 products are so short that f32 adds them exactly, in nearly any
// order.
TEST(Identify, promotion_within_slices_is_found_though_drawn_numbers_hardly_show_it) {
  static constexpr std::int64_t kSlice = 384, kK = 2048;
  Loops loops(
      [](const float* a, const float* b, std::int64_t n) {
        float s = 0;
        for (std::int64_t k = 0; k < n; k += kSlice) {
          const auto size = static_cast<std::size_t>(std::min(kSlice, n - k));
          s += static_cast<float>(promoted_dot(matrix_unit("hopper_fp8"), {std::span(a + k, size), "e4m3fn"},
                                               {std::span(b + k, size), "e4m3fn"}, 0, 4));
        }
        return s;
      },
      "e4m3fn");
  const Schedule truth = parse_schedule("acc=hopper_fp8 chunk=128 split=6 quantum=128");
  const ShapeCard card = identify_shape(loops, {4, 32, kK}, {}, {.most_mask_calls = 4, .search_seconds = 60});
  ASSERT_TRUE(card.identified());
  ASSERT_EQ(card.pieces.size(), 1U);
  EXPECT_EQ(signature(plan_sum(*card.pieces[0].schedule, kK)), signature(plan_sum(truth, kK)))
      << print_schedule(*card.pieces[0].schedule);
}

TEST(Identify, rows_of_two_schedules_are_told_apart) {
  class TwoKernels : public Loops {
   public:
    TwoKernels() : Loops(strided(8, false, false), "f32") {}
    std::optional<Answer> crafted(const GemmShape& s, std::vector<float> a, std::vector<float> b,
                                  const std::string& what) override {
      std::optional<Answer> answer = Loops::crafted(s, std::move(a), std::move(b), what);
      for (std::int64_t j = 0; j < s.n; ++j)
        answer->got[static_cast<std::size_t>((s.m - 1) * s.n + j)] = static_cast<double>(
            chain(answer->a.values.data() + (s.m - 1) * s.k, answer->b.values.data() + j * s.k, s.k, true));
      return answer;
    }
  } kernels;
  const ShapeCard card = identify_shape(kernels, {5, 64, 96}, {}, {});
  ASSERT_TRUE(card.identified());
  ASSERT_EQ(card.pieces.size(), 2U);
  EXPECT_EQ(card.pieces[0].rows, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(print_schedule(*card.pieces[1].schedule), "acc=f32 fma=yes");
}

// A kernel of one schedule below a size and of another from there on.
class Regions : public Loops {
 public:
  Regions(Dot low, Dot high, char axis, std::int64_t from)
      : Loops(std::move(low), "f32"), high_(std::move(high), "f32"), axis_(axis), from_(from) {}
  std::optional<Answer> crafted(const GemmShape& s, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override {
    if ((axis_ == 'm' ? s.m : axis_ == 'n' ? s.n : s.k) < from_)
      return Loops::crafted(s, std::move(a), std::move(b), what);
    return high_.crafted(s, std::move(a), std::move(b), what);
  }

 private:
  Loops high_;
  char axis_;
  std::int64_t from_;
};
ShapeCard card_of(const GemmShape& shape, const char* schedule) {
  ShapeCard card;
  card.shape = shape;
  card.pieces.resize(1);
  if (schedule != nullptr) card.pieces[0].schedule = parse_schedule(schedule);
  return card;
}

TEST(FindBorder, the_last_size_of_the_first_schedule_is_found_along_each_axis) {
  for (const char axis : {'m', 'n', 'k'}) {
    const GemmShape few{4, 8, 40};
    GemmShape many = few;
    (axis == 'm' ? many.m : axis == 'n' ? many.n : many.k) = 150;
    for (const std::int64_t from : {41, 77, 150}) {  // one above the lower end, between, and the upper end
      Regions kernel(strided(4, false, false), strided(8, false, false), axis, from);
      const auto border =
          find_border(kernel, card_of(few, "acc=f32 lanes=4"), card_of(many, "acc=f32 lanes=8"), axis);
      ASSERT_TRUE(border) << axis << from;
      EXPECT_EQ(border->axis, axis);
      EXPECT_EQ(border->last, from - 1) << axis;
      EXPECT_EQ(border->next, from) << axis;
    }
  }
}

TEST(FindBorder, of_a_kernel_that_takes_multiples_of_16_alone_is_found_in_steps_of_16) {
  class Aligned : public Regions {
   public:
    using Regions::Regions;
    std::optional<Answer> crafted(const GemmShape& s, std::vector<float> a, std::vector<float> b,
                                  const std::string& what) override {
      if (s.k % 16 != 0) throw std::runtime_error("k is no multiple of 16");
      return Regions::crafted(s, std::move(a), std::move(b), what);
    }
  } kernel(strided(8, false, false), strided(4, false, false), 'k', 208);
  const auto border = find_border(kernel, card_of({2, 32, 128}, "acc=f32 lanes=8"),
                                  card_of({2, 32, 512}, "acc=f32 lanes=4"), 'k');
  ASSERT_TRUE(border);
  EXPECT_EQ(border->last, 192);
  EXPECT_EQ(border->next, 208);
}

TEST(FindBorder, a_third_schedule_in_between_or_an_end_without_one_gives_no_border) {
  const GemmShape few{4, 8, 40}, many{4, 8, 150};
  Regions third(strided(4, false, false), strided(2, false, false), 'k', 41);
  const ShapeCard low = card_of(few, "acc=f32 lanes=4"), high = card_of(many, "acc=f32 lanes=8");
  EXPECT_FALSE(find_border(third, low, high, 'k'));
  Regions two(strided(4, false, false), strided(8, false, false), 'k', 77);
  EXPECT_FALSE(find_border(two, low, card_of(many, nullptr), 'k'));
  EXPECT_EQ(two.calls, 0) << "nothing is asked where an end is unknown";
}

TEST(Replay, one_bit_of_one_output_is_caught_and_its_step_named) {
  const GroupedSchedule schedule = parse_grouped_schedule("acc=f32 lanes=8");
  Loops right(strided(8, false, false), "f32");
  EXPECT_TRUE(judge_by_replay(right, {4, 16, 128}, schedule, 2).ok());
  // The same kernel, which fuses product and sum of term 77 alone: far inside every limit.
  Loops wrong(
      [](const float* a, const float* b, std::int64_t n) {
        float s[8] = {};
        for (std::int64_t k = 0; k < n; ++k)
          s[k % 8] = k == 77 ? std::fma(a[k], b[k], s[k % 8]) : s[k % 8] + a[k] * b[k];
        return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
      },
      "f32");
  const ReplayVerdict v = judge_by_replay(wrong, {4, 16, 128}, schedule, 4);
  EXPECT_FALSE(v.ok());
  EXPECT_GT(v.unequal, 0);
  EXPECT_LT(v.unequal, v.compared / 2);
  EXPECT_EQ(v.first_term, 77) << describe(v, schedule);
}

TEST(Declared, what_the_bits_contradict_is_named_and_what_they_allow_is_not) {
  const auto says = [](const char* contract, const char* schedule) {
    return contradiction(Contract::parse(contract, op("matmul").contract), parse_schedule(schedule), 512);
  };
  EXPECT_EQ(says("acc=hopper_fp8 promote=4 order=sequential", "acc=hopper_fp8 chunk=128"), "");
  EXPECT_EQ(says("acc=f32 order=lanes:16", "acc=f32 lanes=16"), "");
  EXPECT_EQ(says("acc=f32 order=lanes:16", "acc=f32 lanes=64 fold=16.32.8.4.2.1"), "")
      << "as shallow, and so as good";
  EXPECT_EQ(says("acc=f32", "acc=f32 order=descending"), "");
  EXPECT_NE(says("acc=f32 order=sequential", "acc=f32 order=descending"), "");
  EXPECT_NE(says("acc=hopper_fp8 promote=4", "acc=hopper_fp8"), "");
  EXPECT_NE(says("acc=hopper_fp8 order=sequential", "acc=hopper_fp8 split=2 quantum=32"), "");
  EXPECT_NE(says("acc=f32", "acc=bf16"), "");
  // Chunks that are added one after another are slices: which of both a kernel does leaves no trace.
  EXPECT_EQ(says("acc=hopper_tf32", "acc=hopper_tf32 chunk=32"), "");
  EXPECT_NE(says("acc=hopper_tf32 order=sequential", "acc=hopper_tf32 chunk=32"), "");
  EXPECT_EQ(says("acc=hopper_fp8 promote=4", "acc=hopper_fp8 split=4 quantum=128"), "");
  EXPECT_NE(says("acc=hopper_fp8 promote=4", "acc=hopper_fp8 split=2 quantum=128"), "");
  EXPECT_NE(says("acc=hopper_fp8 promote=4", "acc=hopper_fp8 split=4 quantum=128 merge=halving"), "");
}

}  // namespace
}  // namespace assay
