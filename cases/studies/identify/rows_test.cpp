// Kernels on rows whose schedule is known, written as plain loops: identify must find it, never take a
// tampered one for it, and find the count of rows at which a kernel changes its order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "cases/studies/identify/row_loops_testing.hpp"
#include "cases/studies/identify/row_regions.hpp"
#include "reference/error.hpp"
#include "reference/mix.hpp"
#include "reference/replay/exponentials.hpp"
#include "reference/replay/moments_schedule.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

struct Known {
  const char *op, *schedule;
  Row row;
  std::int64_t cols = 36;
};
constexpr std::array kKnown = {
    Known{"rmsnorm", "squares.fma=yes squares.lanes=8", rmsnorm<8>},
    Known{"rmsnorm", "root=quotient squares.acc=f32 squares.chunk=1 squares.chunk_acc=f64",
          rmsnorm_of_doubles},
    Known{"layernorm", "mean=reciprocal product=inv_gamma_x shift=fma squares.fma=yes squares.lanes=8",
          layernorm, 37},  // rcp.approx(37) is not the nearest to 1 / 37
    Known{"rmsnorm", "mean=approx root=rsqrt squares.fma=yes squares.lanes=4", rmsnorm_of_the_unit<true>, 66},
    Known{"rmsnorm", "mean=approx root=approx squares.fma=yes squares.lanes=4", rmsnorm_of_the_unit<false>,
          66},
    Known{"rmsnorm", "mean=approx_fma root=rsqrt squares.fma=yes squares.lanes=32 squares.order=second",
          rmsnorm_of_a_warp, 183},
    Known{"softmax", "exp=ex2 quotient=approx", softmax_of_the_unit},
    Known{"rmsnorm", "squares.lanes=8 squares.fold=4.1*4 squares.tail=before:4 squares.cascade=16",
          rmsnorm_in_levels, 303},
    Known{"layernorm",
          "variance=welford moments.lanes=4 moments.chunk=4 moments.merge=carry moments.share=reciprocal "
          "moments.fma=yes "
          "moments.join=shared",
          layernorm_merged, 70},
    Known{"softmax", "exp=arm quotient=division sum.order=descending", softmax_by_arm},
    Known{"softmax",
          "exp=arm temperature=reciprocal cap=nearest hidden=zero sink=own quotient=division sum.lanes=2",
          softmax_of_steps},
    Known{"logsumexp", "sum.lanes=2", logsumexp},
    Known{"wht", "stages=descending", wht, 96},
};

bool same_sums(const RowSchedule& a, const RowSchedule& b, std::int64_t cols) {
  return signature(plan_sum(a.sum, cols)) == signature(plan_sum(b.sum, cols)) &&
         signature(plan_sum(a.squares, cols)) == signature(plan_sum(b.squares, cols)) &&
         a.moments == b.moments;
}

TEST(Rows, every_known_schedule_is_found) {
  for (const Known& k : kKnown) {
    const std::int64_t cols = k.cols;
    Loops loops(k.op, k.row);
    const RowCard card = identify_rows(loops, k.op == std::string_view("logsumexp") ? 255 : 96, cols, {});
    const RowSchedule truth = parse_row_schedule(k.op, k.schedule);
    ASSERT_TRUE(card.schedule) << k.op << " nearest " << print_schedule(card.nearest);
    EXPECT_TRUE(same_sums(*card.schedule, truth, cols)) << print_schedule(*card.schedule);
    EXPECT_LE(card.calls, 64);
    EXPECT_EQ(card.unequal, 0);
    for (const RowScheduleKey* key : row_keys(k.op)) {
      // Of a step that the call has not, and of running moments, there is no other word to hold it against.
      if (truth.word(key->name) == "none" || (truth.has_moments() && key->name == "variance")) continue;
      if (key->name == "centre" && !truth.with("centre", "product").is_possible()) continue;
      const auto field = std::ranges::find(card.fields, key->name, &CardField::field);
      ASSERT_NE(field, card.fields.end()) << key->name;
      if (field->concluded) {
        EXPECT_EQ(card.schedule->word(key->name), truth.word(key->name)) << k.op << ' ' << key->name;
      }
    }
  }
}

TEST(Rows, a_tampered_schedule_is_not_the_kernels) {
  for (const Known& k : kKnown) {
    const std::int64_t cols = k.cols;
    Loops loops(k.op, k.row);
    const RowSchedule truth = parse_row_schedule(k.op, k.schedule);
    EXPECT_TRUE(judge_rows(loops, 128, cols, truth, 8).ok()) << k.op;
    int caught = 0;
    for (const TamperedRows& t : tampered(truth, cols)) {
      if (same_sums(t.schedule, truth, cols) &&
          (t.field.starts_with("sum.") || t.field.starts_with("squares.")))
        continue;
      // Two good libraries' logarithms, or exponentials, are equal for nearly all arguments.
      if (t.field == "log" || (t.field == "exp" && k.op == std::string_view("logsumexp"))) continue;
      EXPECT_FALSE(judge_rows(loops, 128, cols, t.schedule, 8).ok())
          << k.op << ' ' << print_schedule(t.schedule);
      ++caught;
    }
    EXPECT_GE(caught, 2) << k.op;
  }
}

// Of two neighbouring passes the second's terms stand behind the first's: the same moments as of the terms in
// that order.
TEST(Moments, pairs_of_passes_are_passes_of_terms_in_another_order) {
  constexpr std::size_t kLanes = 4, kPasses = 16, kChunk = 4;
  std::uint64_t state = 5;
  std::vector<float> x(kLanes * kPasses), ordered;
  for (float& v : x) v = static_cast<float>(mix(next_mixed(state)) >> 40) * 0x1p-22F;
  for (std::size_t block = 0; block < kPasses; block += 2 * kChunk)
    for (std::size_t second = 0; second < 2; ++second)
      for (std::size_t p = block + second; p < block + 2 * kChunk; p += 2)
        ordered.insert(ordered.end(), x.begin() + static_cast<std::ptrdiff_t>(p * kLanes),
                       x.begin() + static_cast<std::ptrdiff_t>((p + 1) * kLanes));
  const std::string one = "moments.lanes=4 moments.chunk=4 moments.join=shared";
  const RunningMoments pairs = moments_of(parse_moments(one + " moments.passes=pairs"), x),
                       plain = moments_of(parse_moments(one), ordered),
                       other = moments_of(parse_moments(one), x);
  EXPECT_EQ(pairs.mean, plain.mean);
  EXPECT_EQ(pairs.squares, plain.squares);
  EXPECT_NE(pairs.squares, other.squares);
}

// A kernel that is a schedule, and stores bf16.
class Narrow : public RowSubject {
 public:
  explicit Narrow(RowSchedule schedule) : schedule_(std::move(schedule)) {}
  std::string op() const override { return schedule_.op; }
  std::optional<RowAnswer> drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) override {
    std::uint64_t state = seed;
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (float& v : x) v = number(state);
    return crafted(rows, cols, std::move(x), "seed " + std::to_string(seed), {});
  }
  std::optional<RowAnswer> crafted(std::int64_t rows, std::int64_t cols, std::vector<float> x,
                                   const std::string& what, const std::vector<float>& gamma) override {
    ++calls;
    RowAnswer answer{what, {rows, cols, std::move(x), {}, {}, 1e-5F, 32, {}, false, "bf16"}, {}};
    std::uint64_t state = 99;
    for (std::int64_t i = 0; i < cols; ++i)
      answer.in.gamma.push_back(number(state)), answer.in.beta.push_back(number(state));
    if (!gamma.empty()) answer.in.gamma = gamma;
    answer.got = RowReplay(answer.in).outputs(schedule_);
    return answer;
  }

 private:
  static float number(std::uint64_t& state) {
    const double u = static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-51 - 2;
    return static_cast<float>(round_to_width(u, width_of("bf16")));
  }
  RowSchedule schedule_;
};

// The store hides most of a sum: with what its library does in f32 a kernel is found that differs from it in
// two steps.
TEST(Rows, a_narrow_store_is_searched_beside_what_is_known) {
  const std::string shared =
      "variance=welford shift=fma moments.lanes=8 moments.chunk=4 moments.share=reciprocal moments.fma=yes "
      "moments.join=shared ";
  const RowSchedule known = parse_row_schedule("layernorm", shared),
                    truth =
                        parse_row_schedule("layernorm", shared + "centre=product_fma moments.passes=pairs");
  Narrow kernel(truth);
  const RowCard card = identify_rows(kernel, 256, 128, {known}, {});
  ASSERT_TRUE(card.schedule) << print_schedule(card.nearest);
  EXPECT_GE(card.compared, 500'000);
  // Nothing is concluded that the kernel has otherwise; a word that stands for nothing is not printed.
  const std::string words = " " + print_schedule(truth) + " ";
  for (const CardField& field : card.fields)
    if (field.concluded && words.find(" " + field.field + "=") != std::string::npos) {
      EXPECT_NE(words.find(" " + field.field + "=" + field.value + " "), std::string::npos) << field.field;
    }
  EXPECT_FALSE(judge_rows(kernel, 256, 128, known, 24).ok());
  EXPECT_TRUE(judge_rows(kernel, 256, 128, truth, 24).ok());
}

// By itself, from gamma that takes outputs to midpoints of the store; what differs in one step is not taken
// for it.
TEST(Rows, a_narrow_store_alone_shows_its_sums_at_midpoints) {
  constexpr std::int64_t kCols = 96;
  for (const auto& [op, text] :
       {std::pair{"layernorm",
                  "variance=welford shift=fma centre=product_fma moments.lanes=8 moments.chunk=4 "
                  "moments.share=reciprocal moments.fma=yes moments.join=shared moments.passes=pairs"},
        std::pair{"rmsnorm", "squares.lanes=32 squares.fold=8*4.1*8"},
        std::pair{"layernorm", "squares.lanes=8 squares.fma=yes sum.lanes=8"}}) {
    const RowSchedule truth = parse_row_schedule(op, text);
    Narrow kernel(truth);
    const RowCard card = identify_rows(kernel, 64, kCols, {});
    ASSERT_TRUE(card.schedule) << text << ": nearest " << print_schedule(card.nearest);
    EXPECT_TRUE(judge_rows(kernel, 64, kCols, *card.schedule, 24).ok()) << print_schedule(*card.schedule);
    const std::string words = " " + print_schedule(truth) + " ";
    for (const CardField& field : card.fields)
      if (field.concluded && words.find(" " + field.field + "=") != std::string::npos) {
        EXPECT_NE(words.find(" " + field.field + "=" + field.value + " "), std::string::npos) << field.field;
      }
    const std::vector<TamperedRows> twins = tampered(truth, kCols);
    const auto twin = std::ranges::find_if(
        twins, [](const auto& t) { return t.field == "moments.passes" || t.field == "squares.lanes"; });
    ASSERT_NE(twin, twins.end());
    Narrow tampered_kernel(twin->schedule);
    const RowCard of_twin = identify_rows(tampered_kernel, 64, kCols, {});
    EXPECT_TRUE(!of_twin.schedule || !same_sums(*of_twin.schedule, truth, kCols))
        << print_schedule(twin->schedule);
    EXPECT_FALSE(judge_rows(tampered_kernel, 64, kCols, truth, 64).ok()) << print_schedule(twin->schedule);
  }
}

// Bits over every 9,973rd float from -0 down to -Inf, FNV-1a over 32-bit words: the digest is that of
// Sleef_expf8_u10avx2 of SLEEF 3.5.1, which the replay equals for all 2,139,095,041 of them.
TEST(Exponentials, sleef_is_the_librarys_bit_for_bit) {
  const RowExp exp = row_exp("sleef");
  std::uint64_t digest = 14695981039346656037ULL;
  for (std::uint32_t bits = 0x80000000U; bits <= 0xff800000U; bits += 9973)
    digest = (digest ^ std::bit_cast<std::uint32_t>(exp(std::bit_cast<float>(bits)))) * 1099511628211ULL;
  EXPECT_EQ(digest, 0xfe9913670081f300ULL);
  EXPECT_TRUE(std::isnan(exp(std::nanf(""))));
}

TEST(Rows, an_exponential_that_is_not_known_stays_unknown) {
  Loops loops("softmax", softmax_by_another);
  const RowCard card = identify_rows(loops, 32, 60, {});
  EXPECT_FALSE(card.schedule);
  ASSERT_EQ(card.fields.size(), 1U);
  EXPECT_EQ(card.fields[0].field, "exp");
  EXPECT_FALSE(card.fields[0].concluded);
  EXPECT_NE(card_text(card).find("unknown"), std::string::npos);
}

TEST(Rows, the_step_that_parts_is_named) {
  Loops loops("rmsnorm", [](const RowInputs& in, const float* x, float* y) {
    float s = 0;  // the sum behind term 41 is an ulp too large
    for (std::int64_t i = 0; i < in.cols; ++i) {
      s = std::fma(x[i], x[i], s);
      if (i == 41 && x[i] != 0) s = std::nextafter(s, 1e9F);
    }
    const float f = 1.0F / std::sqrt(s / static_cast<float>(in.cols) + in.eps);
    for (std::int64_t i = 0; i < in.cols; ++i) y[i] = x[i] * f * in.gamma[static_cast<std::size_t>(i)];
  });
  const RowSchedule declared = parse_row_schedule("rmsnorm", "squares.fma=yes");
  const RowVerdict v = judge_rows(loops, 128, 60, declared, 2);
  EXPECT_FALSE(v.ok());
  EXPECT_EQ(v.first_term, 41) << describe(v, declared);
}

// In the manner of a kernel that takes another block at a larger batch, and of one that does not.
TEST(Rows, an_order_that_changes_at_256_rows_is_found_in_64_calls) {
  const auto ask = [](Loops& loops) {
    std::vector<RowRegion> regions;
    std::vector<RowSchedule> known;
    for (const std::int64_t rows : {1, 64, 600}) {
      regions.push_back({rows, identify_rows(loops, rows, 44, known, {.outputs = 1000})});
      if (regions.back().card.schedule) known.push_back(*regions.back().card.schedule);
    }
    return row_invariance(loops, 44, regions);
  };
  Loops varies("rmsnorm", rmsnorm<8>, rmsnorm<16>), constant("rmsnorm", rmsnorm<8>);
  const RowInvariance refuted = ask(varies), proven = ask(constant);
  EXPECT_EQ(refuted.verdict, "refuted");
  ASSERT_EQ(refuted.borders.size(), 1U) << invariance_text(refuted);
  EXPECT_EQ(refuted.borders[0].last, 255);
  EXPECT_EQ(refuted.borders[0].next, 256);
  EXPECT_LE(varies.calls, 64);
  EXPECT_EQ(proven.verdict, "proven") << invariance_text(proven);
  EXPECT_TRUE(proven.borders.empty());
  EXPECT_LE(constant.calls, 64);
}

TEST(RowSchedule, what_is_printed_is_read_back_and_nonsense_is_refused) {
  for (const Known& k : kKnown) {
    const RowSchedule s = parse_row_schedule(k.op, k.schedule);
    EXPECT_EQ(parse_row_schedule(k.op, print_schedule(s)), s);
    EXPECT_EQ(parse_row_schedule(k.op, as_contract_value(print_schedule(s))), s);
  }
  for (const char* text : {"exp=best", "root=inverse", "squares.lanes=2", "sum.lanes=0", "quotient",
                           "moments.lanes=4", "exp=libm exp=libm", "sum.acc=hopper_bf16"})
    EXPECT_THROW(static_cast<void>(parse_row_schedule("softmax", text)), InputError) << text;
  for (const char* text :
       {"moments.lanes=4", "variance=welford moments.lanes=0", "variance=welford moments.merge=tree",
        "variance=welford moments.lanes=4 moments.fold=2", "variance=welford moments.depth=2",
        "variance=welford moments.chunk=4 moments.chunk=4", "variance=welford sum.lanes=4"})
    EXPECT_THROW(static_cast<void>(parse_row_schedule("layernorm", text)), InputError) << text;
}

}  // namespace
}  // namespace assay
