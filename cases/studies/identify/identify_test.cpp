// Kernels written as plain loops, which know nothing of schedules, plans or replays: each is told from all others by its bits,
// and a kernel that is off by one step is never taken for the one that is not.
#include "cases/studies/identify/identify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "cases/studies/identify/declared.hpp"
#include "cases/studies/identify/replay_level.hpp"
#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"
#include "reference/ops/op.hpp"

namespace assay {
namespace {

using Dot = std::function<float(const float* a, const float* b, std::int64_t n)>;

float chain(const float* a, const float* b, std::int64_t n, bool fma) {
  float s = 0;
  for (std::int64_t k = 0; k < n; ++k) s = fma ? std::fma(a[k], b[k], s) : s + a[k] * b[k];
  return s;
}
Dot strided(int lanes, bool fma, bool neighbours) {
  return [=](const float* a, const float* b, std::int64_t n) {
    std::vector<float> s(static_cast<std::size_t>(lanes), 0.0F);
    for (std::int64_t k = 0; k < n; ++k) {
      float& lane = s[static_cast<std::size_t>(k % lanes)];
      lane = fma ? std::fma(a[k], b[k], lane) : lane + a[k] * b[k];
    }
    for (int left = lanes; left > 1; left /= 2)
      for (int j = 0; j < left / 2; ++j)
        s[static_cast<std::size_t>(j)] =
            neighbours ? s[static_cast<std::size_t>(2 * j)] + s[static_cast<std::size_t>(2 * j + 1)]
                       : s[static_cast<std::size_t>(j)] + s[static_cast<std::size_t>(j + left / 2)];
    return s[0];
  };
}
Dot blocked(std::int64_t block, bool fma) {
  return [=](const float* a, const float* b, std::int64_t n) {
    float s = 0;
    for (std::int64_t k = 0; k < n; k += block) {
      const float part = chain(a + k, b + k, std::min(block, n - k), fma);
      s = k == 0 ? part : s + part;
    }
    return s;
  };
}
// Units by the scalar model that defines them, not by the lanes that replay.
Dot unit(const char* name, int promote) {
  return [=](const float* a, const float* b, std::int64_t n) {
    const auto size = static_cast<std::size_t>(n);
    return static_cast<float>(promoted_dot(matrix_unit(name), {std::span(a, size), "bf16"},
                                           {std::span(b, size), "bf16"}, 0, promote));
  };
}
Dot sliced(const char* name, std::int64_t slice) {
  return [=](const float* a, const float* b, std::int64_t n) {
    float s = 0;
    for (std::int64_t k = 0; k < n; k += slice) s += unit(name, 0)(a + k, b + k, std::min(slice, n - k));
    return s;
  };
}
float backwards(const float* a, const float* b, std::int64_t n) {
  float s = 0;
  for (std::int64_t k = n; k-- > 0;) s += a[k] * b[k];
  return s;
}
float swapped(const float* a, const float* b, std::int64_t n) {
  float s = 0;
  for (std::int64_t k = 0; k < n; ++k) s = std::fma(a[k ^ 1], b[k ^ 1], s);
  return s;
}
float in_double(const float* a, const float* b, std::int64_t n) {
  double s = 0;
  for (std::int64_t k = 0; k < n; ++k) s += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return static_cast<float>(s);
}
float in_bf16(const float* a, const float* b, std::int64_t n) {
  double s = 0;
  for (std::int64_t k = 0; k < n; ++k)
    s = round_to_width(s + round_to_width(static_cast<double>(a[k]) * static_cast<double>(b[k]), Width::bf16),
                       Width::bf16);
  return static_cast<float>(s);
}

struct Known {
  const char* schedule;
  Dot dot;
};
const std::vector<Known>& known() {
  static const std::vector<Known> list = {
      {"acc=f32", [](auto a, auto b, auto n) { return chain(a, b, n, false); }},
      {"acc=f32 fma=yes", [](auto a, auto b, auto n) { return chain(a, b, n, true); }},
      {"acc=f32 order=descending", backwards},
      {"acc=f32 fma=yes order=swapped", swapped},
      {"acc=f64", in_double},
      {"acc=bf16", in_bf16},
      {"acc=f32 lanes=4", strided(4, false, false)},
      {"acc=f32 lanes=4 fold=adjacent", strided(4, false, true)},
      {"acc=f32 lanes=8", strided(8, false, false)},
      {"acc=f32 lanes=8 fma=yes", strided(8, true, false)},
      {"acc=f32 lanes=16 fma=yes fold=adjacent", strided(16, true, true)},
      {"acc=f32 chunk=32", blocked(32, false)},
      {"acc=f32 chunk=32 fma=yes", blocked(32, true)},
      {"acc=f32 chunk=64 fma=yes", blocked(64, true)},
      {"acc=hopper_bf16", unit("hopper_bf16", 0)},
      {"acc=hopper_bf16 chunk=32", unit("hopper_bf16", 2)},
      {"acc=hopper_bf16 split=2 quantum=16", sliced("hopper_bf16", 80)},
      {"acc=a100_bf16", unit("a100_bf16", 0)},
      {"acc=cdna2_bf16", unit("cdna2_bf16", 0)},
      {"acc=cdna3_bf16", unit("cdna3_bf16", 0)},
  };
  return list;
}

// Loops as a subject. bits: bf16 operands, or f32 ones with all 24 bits.
class Loops : public GemmSubject {
 public:
  Loops(Dot dot, std::string element, std::string stored = "f32")
      : dot_(std::move(dot)), element_(std::move(element)), stored_(std::move(stored)) {}
  std::string a_element() const override { return element_; }
  std::string b_element() const override { return element_; }
  std::string stored_as() const override { return stored_; }
  std::optional<Answer> drawn(const GemmShape& shape, std::uint64_t seed) override {
    std::uint64_t state = seed * 977;
    const auto numbers = [&](std::int64_t count) {
      std::vector<float> list;
      for (std::int64_t i = 0; i < count; ++i) {
        const double u = static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-53 - 0.5;
        list.push_back(element_ == "bf16" ? static_cast<float>(round_to_width(u, Width::bf16))
                                          : static_cast<float>(u));
      }
      return list;
    };
    std::vector<float> a = numbers(shape.m * shape.k);
    return crafted(shape, std::move(a), numbers(shape.n * shape.k), "seed " + std::to_string(seed));
  }
  std::optional<Answer> crafted(const GemmShape& shape, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override {
    ++calls;
    Answer answer{what,
                  {shape.m, shape.k, element_, std::move(a), {}},
                  {shape.n, shape.k, element_, std::move(b), {}},
                  {},
                  {},
                  {}};
    for (std::int64_t i = 0; i < shape.m; ++i)
      for (std::int64_t j = 0; j < shape.n; ++j)
        answer.got.push_back(
            round_to_width(static_cast<double>(dot_(answer.a.values.data() + i * shape.k,
                                                    answer.b.values.data() + j * shape.k, shape.k)),
                           width_of(stored_)));
    return answer;
  }

 private:
  Dot dot_;
  std::string element_, stored_;
};

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

// ASSAY_TRIALS of them at night.
TEST(Identify, no_arithmetic_is_ever_taken_for_another) {
  const char* wanted = std::getenv("ASSAY_TRIALS");
  const std::int64_t trials = wanted != nullptr ? std::atoll(wanted) : 10'000;
  std::vector<Schedule> schedules;
  for (const Known& k : known()) schedules.push_back(parse_schedule(k.schedule));
  std::int64_t errors = 0;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const std::uint64_t draw = mix(static_cast<std::uint64_t>(trial) + 1);
    const std::size_t which = draw % known().size();
    Loops loops(known()[which].dot, "bf16");
    const std::optional<Answer> answer = loops.drawn({1, 32, 160}, draw >> 8);
    std::vector<RowPiece> pieces = search(*answer, "f32", schedules);
    // The nearest two, a chain and the chain with its pairs swapped, give 86 % equal bits: 32 outputs do not tell them apart.
    confirm(pieces, *loops.drawn({1, 160, 160}, draw >> 7), "f32");
    // With operands of 8 bits a product is exact, and fma is the same as not: those are one arithmetic, not an error.
    const bool right = pieces.size() == 1 && pieces[0].schedule &&
                       (*pieces[0].schedule == schedules[which] ||
                        std::ranges::find(pieces[0].also, schedules[which]) != pieces[0].also.end());
    std::vector<Schedule> found;
    if (pieces[0].schedule) found.push_back(*pieces[0].schedule);
    found.insert(found.end(), pieces[0].also.begin(), pieces[0].also.end());
    bool same = right;
    for (Schedule s : found) {
      Schedule truth = schedules[which];
      s.fma = truth.fma = false;
      same &= signature(plan_sum(s, 160)) == signature(plan_sum(truth, 160));
    }
    errors += same ? 0 : 1;
    if (!same && errors < 4)
      ADD_FAILURE() << known()[which].schedule << " in trial " << trial << " was taken for "
                    << (found.empty() ? "none" : print_schedule(found.back()));
  }
  EXPECT_EQ(errors, 0) << "of " << trials;
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

TEST(Replay, one_bit_of_one_output_is_caught_and_its_step_named) {
  const Schedule schedule = parse_schedule("acc=f32 lanes=8");
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
}

}  // namespace
}  // namespace assay
