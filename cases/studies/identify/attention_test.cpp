// identify finds the schedule of a kernel that is itself a replay, or the reference's emulated kernel, and no
// other passes for it.
#include <gtest/gtest.h>

#include <cmath>

#include "cases/studies/identify/attention_kernels_testing.hpp"
#include "cases/studies/identify/attention_regions.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"

namespace assay {
namespace {

// The reference's own emulated kernel.
AttentionAsk emulated(const std::string& unit, const std::string& format) {
  return [=](std::uint64_t seed, AttentionDesign) -> std::optional<AttentionAnswer> {
    AttentionHead head = drawn(format, seed);
    AttentionArithmetic how;
    how.qk = how.pv = unit, how.p = how.out = format, how.exp_ulp = 1;
    const AttentionEmulator emulator(how, {head.keys, head.d, head.dv, head.k, head.v, format, format});
    head.got.resize(static_cast<std::size_t>(head.outputs()));
    for (std::int64_t i = 0; i < head.rows; ++i) {
      QueryRow row;
      row.q = std::span<const float>(head.q).subspan(static_cast<std::size_t>(i * kD), kD);
      row.q_format = format, row.scale = head.scale;
      emulator.run(row, std::span<float>(head.got).subspan(static_cast<std::size_t>(i * kD), kD));
    }
    return answer(std::move(head), seed, unit);
  };
}

TEST(IdentifyAttention, finds_a_hidden_schedule_and_every_bit_of_it) {
  for (const char* hidden :
       {"qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=128 order=descending argument=mul_sub",
        "qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=32 argument=fma_max constant=float sums=tile",
        "qk=a100_f16 pv=a100_f16 p=f16 out=f16 tile=64 argument=scaled fold=adjacent quotient=division"}) {
    const AttentionCard card = identify_attention(kernel_of(hidden), {}, {.outputs = 20'000, .seconds = 1e4});
    ASSERT_TRUE(card.schedule) << hidden << "\n" << card_text(card);
    EXPECT_GE(card.compared, 20'000);
    EXPECT_GE(card.last_seed, 2U);
    const AttentionSchedule truth = parse_attention_schedule(hidden);
    EXPECT_EQ(card.schedule->tile, truth.tile) << hidden;
    EXPECT_EQ(card.schedule->descending, truth.descending) << hidden;
    // No field is concluded that the hidden schedule has otherwise.
    const std::string words = " " + spell_out(truth) + " ";
    for (const CardField& f : card.fields) {
      const bool same = words.find(" " + f.field + "=" + f.value + " ") != std::string::npos;
      EXPECT_TRUE(same || !f.concluded) << f.field << "\n" << card_text(card);
    }
  }
}

// A kernel that masks the diagonal's tiles alone forms their argument otherwise; one that does not is not
// taken for it.
TEST(IdentifyAttention, tiles_that_a_causal_mask_cuts_may_have_an_argument_of_their_own) {
  const std::string plain =
      "qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=32 argument=fma_max constant=float sums=tile "
      "quotient=approx";
  const std::string own = plain + " own=scaled_twice own_rows=64";
  constexpr std::int64_t kPositions = 128;
  const AttentionCard card = identify_attention(kernel_of(own, kPositions, kPositions, true), {},
                                                {.outputs = 10'000, .seconds = 1e4});
  ASSERT_TRUE(card.schedule) << card_text(card);
  EXPECT_NE(card.schedule->own, OwnTiles::same) << card_text(card);
  for (const CardField& f : card.fields) {
    if (f.concluded && f.field == "own_rows") {
      EXPECT_EQ(f.value, "64") << card_text(card);
    }
  }
  const AttentionAsk other = kernel_of(plain, kPositions, kPositions, true);
  EXPECT_TRUE(judge_attention(other, parse_attention_schedule(plain), 10'000).ok());
  EXPECT_FALSE(judge_attention(other, parse_attention_schedule(own), 10'000).ok());
}

TEST(IdentifyAttention, finds_the_parts_of_a_split_decode) {
  const AttentionCard card =
      identify_attention(kernel_of("qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=64 order=descending "
                                   "argument=mul_sub split=3 merge_lanes=16",
                                   4, 400),
                         {}, {.outputs = 2'000, .seconds = 1e4});
  ASSERT_TRUE(card.schedule) << card_text(card);
  EXPECT_EQ(card.schedule->split * 10 + card.schedule->tile / 64, 31) << card_text(card);
}

TEST(IdentifyAttention, sums_in_f32_are_found_step_by_step) {
  for (const char* hidden :
       {"qk=f32 pv=f32 p=f32 out=f32 tile=32 argument=scaled exp=taylor7 rescale_exp=libm sums=tile "
        "sum_fma=no "
        "lanes=16 pack=1 values=tile values_fma=no dot_lanes=16",
        "qk=f32 pv=f16 p=f32 out=f32 tile=1 argument=scaled exp=libm lanes=1 pack=1 sum_fma=no dot_lanes=64 "
        "q=f16",
        "qk=f32 pv=f32 p=f16 out=f32 tile=512 argument=scaled exp=degree5 sums=tile lanes=16 pack=1 "
        "sum_fma=no "
        "quotient=division",
        "qk=f32 pv=f32 p=f32 out=f16 tile=4 argument=scaled constant=float exp=exp2f lanes=1 pack=1 "
        "quotient=approx "
        "values=carried deal=8 deal_merge=online dot_lanes=4 dot_pack=16",
        "qk=f32 pv=f32 p=f32 out=f16 tile=128 argument=scaled constant=float exp=exp2f sums=tile lanes=32 "
        "pack=1 "
        "sum_fma=no quotient=division",
        "qk=f32 pv=f32 p=f32 out=f32 tile=64 argument=scaled exp=taylor7 rescale_exp=libm sums=tile "
        "sum_fma=no lanes=16 pack=1 values=tile values_fma=no dot_lanes=16 split=2 part=80 merge=weights"}) {
    const AttentionCard card =
        identify_attention(kernel_of(hidden, 3), {}, {.outputs = 1'000, .seconds = 1e4});
    ASSERT_TRUE(card.schedule) << hidden << "\n" << card_text(card);
    const AttentionSchedule truth = parse_attention_schedule(hidden);
    EXPECT_EQ(card.schedule->exp, truth.exp) << hidden;
    EXPECT_EQ(card.schedule->pv, truth.pv) << hidden;
    const std::string words = " " + spell_out(truth) + " ";
    for (const CardField& f : card.fields) {
      const bool same = words.find(" " + f.field + "=" + f.value + " ") != std::string::npos;
      EXPECT_TRUE(same || !f.concluded) << hidden << " " << f.field << "\n" << card_text(card);
    }
  }
}

// The manner of PyTorch's flash kernel on a CPU: few rows by products of a matrix and a vector, pairs of
// products in bf16, and keys behind the last whole vector, whose exponentials are another's.
TEST(IdentifyAttention, steps_of_vectors_and_what_is_left_behind_them_are_found) {
  constexpr std::int64_t kLeft = 171;
  const std::string shared =
      "qk=f32 pv=f32 tile=512 argument=scaled rescale_exp=libm sums=tile pack=1 tail=nearest ";
  for (const std::string& hidden :
       {shared +
            "p=f32 out=f32 exp=degree5 lanes=16 dot_lanes=16 dot_head=1 dot_tail=refold value_step=eight",
        shared + "p=f32 out=f32 exp=degree5 lanes=16 dot_lanes=16 dot_head=1 dot_tail=refold dot_rows=4 "
                 "left_lanes=32 left_second=16 left_folded=16 left_head=1 value_step=eight",
        shared + "p=bf16 out=bf16 exp=degree3 lanes=32 tail_width=16 dot_step=pair value_step=pair",
        shared + "p=bf16 out=bf16 exp=degree3 lanes=32 tail_width=16 dot_step=pair dot_lanes=16 dot_pack=2 "
                 "dot_fold=8.1.2.4 value_step=pair promote=8"}) {
    const AttentionCard card =
        identify_attention(kernel_of(hidden, 3, kLeft), {}, {.outputs = 1'000, .seconds = 1e4});
    ASSERT_TRUE(card.schedule) << hidden << "\n" << card_text(card);
    const AttentionSchedule truth = parse_attention_schedule(hidden);
    EXPECT_EQ(card.schedule->exp, truth.exp) << hidden;
    EXPECT_EQ(card.schedule->dot_lanes, truth.dot_lanes) << hidden;
    EXPECT_EQ(card.schedule->dot_pairs, truth.dot_pairs) << hidden;
    EXPECT_EQ(card.schedule->dot_rows, truth.dot_rows) << hidden;
    const std::string words = " " + spell_out(truth) + " ";
    for (const CardField& f : card.fields) {
      const bool same = words.find(" " + f.field + "=" + f.value + " ") != std::string::npos;
      EXPECT_TRUE(same || !f.concluded) << hidden << " " << f.field << "\n" << card_text(card);
    }
    // What differs in a step that shows in few bits of few outputs is no such kernel.
    // Products of numbers in f16 are exact, and a lane of 32 takes one of 63 ahead of the tail: that it is no
    // lane of 16 does not show.
    const AttentionAnswer asked = *kernel_of(hidden, 3, kLeft)(1, AttentionDesign::drawn);
    for (const char* field :
         {"exp", "value_step", "tail", "dot_step", "dot_rows", "left_folded", "left_head"})
      for (const auto& [name, other] : tampered(truth, asked.heads[0]))
        if (name == field && truth.out == "f32") {
          EXPECT_GT(ReplayedHead(asked.heads[0]).unequal(other), 0) << hidden << "\n"
                                                                    << print_schedule(other);
        }
  }
}

// An exponential that is none of the known ones: one unit in the last place above libm's, now and then.
TEST(IdentifyAttention, the_step_that_is_not_understood_is_named) {
  const AttentionAsk kernel = kernel_of(
      "qk=f32 pv=f32 p=f32 out=f32 tile=64 argument=scaled exp=libm sum_fma=no sums=tile lanes=16 pack=1", 3);
  for (const AttentionDesign wrong :
       {AttentionDesign::pairs, AttentionDesign::single_values, AttentionDesign::single_products,
        AttentionDesign::cancelling, AttentionDesign::drawn}) {
    const AttentionAsk off = [&](std::uint64_t seed, AttentionDesign design) {
      std::optional<AttentionAnswer> a = kernel(seed, design);
      float& x = a->heads[0].got[7];
      if (design == wrong) x = std::nextafter(x, 9.0f);
      return a;
    };
    const AttentionCard card = identify_attention(off, {}, {.outputs = 500, .seconds = 20});
    EXPECT_FALSE(card.schedule) << card_text(card);
    EXPECT_NE(card.not_understood.find(wrong == AttentionDesign::pairs             ? "two weights"
                                       : wrong == AttentionDesign::single_values   ? "one value"
                                       : wrong == AttentionDesign::single_products ? "how weighted values"
                                       : wrong == AttentionDesign::cancelling      ? "cancel"
                                                                                   : "drawn"),
              std::string::npos)
        << card.not_understood;
  }
}

// Where keys are hidden or a file has no such answers, no hypothesis passes for want of evidence.
TEST(IdentifyAttention, a_design_that_cannot_be_asked_leaves_the_kernel_unknown) {
  const AttentionAsk kernel = kernel_of(
      "qk=f32 pv=f32 p=f32 out=f32 tile=64 argument=scaled exp=libm sum_fma=no sums=tile lanes=16 pack=1", 3);
  for (const AttentionDesign withheld : {AttentionDesign::pairs, AttentionDesign::single_values,
                                         AttentionDesign::single_products, AttentionDesign::cancelling}) {
    const AttentionAsk without = [&](std::uint64_t seed, AttentionDesign design) {
      return design == withheld ? std::nullopt : kernel(seed, design);
    };
    const AttentionCard card = identify_attention(without, {}, {.outputs = 500, .seconds = 20});
    EXPECT_FALSE(card.schedule) << card_text(card);
    EXPECT_NE(card.not_understood.find("cannot be asked"), std::string::npos) << card.not_understood;
  }
}

TEST(IdentifyAttention, the_emulated_kernel_is_replayed_with_no_bit_different) {
  for (const auto& [unit, format] : {std::pair{"hopper_f16", "f16"}, std::pair{"cdna3_bf16", "bf16"}}) {
    const AttentionSchedule s = parse_attention_schedule(
        std::string("exp=nearest argument=scaled lanes=1 pack=1 sum_fma=no tile=64 qk=") + unit +
        " pv=" + unit + " p=" + format + " out=" + format);
    const AttentionAnswer asked = *emulated(unit, format)(1, AttentionDesign::drawn);
    const AttentionHead& h = asked.heads[0];
    const AttentionReplay replay({h.keys, h.d, h.dv, h.k, h.v, h.format});
    EXPECT_EQ(replay.run(s, {h.rows, h.q, h.scale, {}}).out, h.got) << unit;
    if (std::string_view(format) == "bf16") continue;  // tells too little apart in a few thousand outputs
    const AttentionCard card =
        identify_attention(emulated(unit, format), {}, {.outputs = 6'000, .seconds = 1e4});
    ASSERT_TRUE(card.schedule) << card_text(card);
  }
}

constexpr const char* kDescending =
    "qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=64 order=descending argument=mul_sub";
constexpr const char* kAscending = "qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=64 argument=mul_sub";
constexpr const char* kParts =
    "qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=64 order=descending argument=mul_sub split=2 "
    "merge_lanes=16";

TEST(JudgeAttention, every_bit_must_be_the_schedule_s_and_the_step_that_is_not_is_named) {
  const AttentionAsk kernel = kernel_of(kDescending, 8);
  const AttentionVerdict right = judge_attention(kernel, parse_attention_schedule(kDescending), 1'000);
  EXPECT_TRUE(right.ok());
  EXPECT_EQ(right.compared, 2 * 8 * kD) << "two seeds at least";
  const AttentionVerdict wrong = judge_attention(kernel, parse_attention_schedule(kAscending), 1'000);
  EXPECT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.instead, "order=descending") << describe(wrong, parse_attention_schedule(kAscending));
  EXPECT_NE(wrong.got, wrong.want);
  const AttentionAsk nan = [&](std::uint64_t seed, AttentionDesign design) {
    std::optional<AttentionAnswer> a = kernel(seed, design);
    a->heads[0].got[5] = std::nanf("");
    return a;
  };
  const AttentionVerdict v = judge_attention(nan, parse_attention_schedule(kDescending), 1);
  EXPECT_EQ(v.unequal, 2);
  EXPECT_EQ(v.column, 5);
  EXPECT_EQ(v.instead, "");
}

AttentionRegion region(const char* schedule, std::int64_t rows, std::int64_t keys) {
  AttentionRegion r{keys, kernel_of(schedule, rows, keys), {}};
  r.card.subject = "rows=" + std::to_string(rows) + " keys=" + std::to_string(keys);
  r.card.schedule = parse_attention_schedule(schedule);
  return r;
}

TEST(AttentionInvariance, is_proven_by_one_schedule_and_refuted_by_an_output) {
  const auto verdict = [](const std::vector<AttentionRegion>& regions) {
    return attention_invariance(regions, 1'000);
  };
  EXPECT_EQ(verdict({region(kDescending, 8, 160), region(kDescending, 2, 160)}).verdict, "proven");
  EXPECT_EQ(verdict({region(kDescending, 8, 160), region(kDescending, 8, 96)}).verdict, "proven");
  const AttentionInvariance apart = verdict({region(kDescending, 8, 160), region(kParts, 2, 160)});
  EXPECT_EQ(apart.verdict, "refuted");
  EXPECT_NE(apart.detail.find("by that schedule"), std::string::npos) << apart.detail;
  EXPECT_EQ(verdict({region(kParts, 8, 160), region(kParts, 2, 160)}).verdict, "proven");
  EXPECT_EQ(verdict({region(kParts, 8, 160), region(kParts, 8, 96)}).verdict, "unknown")
      << "parts are cut by the count of keys";
  AttentionRegion one = region(kDescending, 8, 32), none = one;
  // One tile has no order: the other schedule holds here as well.
  one.card.schedule = parse_attention_schedule(kAscending);
  EXPECT_EQ(verdict({one, region(kDescending, 8, 160)}).verdict, "proven");
  none.card.schedule.reset();
  EXPECT_EQ(verdict({none, region(kDescending, 8, 160)}).verdict, "unknown");
}

TEST(AttentionInvariance, a_key_that_is_masked_adds_nothing_whatever_the_order_and_the_argument) {
  const AttentionHead all = drawn("f16", 7, 4);
  AttentionHead some = all;
  some.keys = 96, some.k.resize(96 * kD), some.v.resize(96 * kD);
  const AttentionReplay masked({all.keys, kD, kD, all.k, all.v, "f16"}),
      without({some.keys, kD, kD, some.k, some.v, "f16"});
  for (const auto& [field, how] : tampered(parse_attention_schedule(kDescending), all)) {
    if (how.split > 1) continue;
    EXPECT_EQ(masked.run(how, {4, all.q, all.scale, [](std::int64_t, std::int64_t j) { return j < 96; }}).out,
              without.run(how, {4, all.q, all.scale, {}}).out)
        << print_schedule(how);
  }
}

TEST(IdentifyAttention, a_kernel_that_no_hypothesis_describes_stays_unknown) {
  const AttentionAsk good = kernel_of("qk=hopper_f16 pv=hopper_f16 p=f16 out=f16 tile=64 argument=fma");
  const AttentionAsk off = [&](std::uint64_t seed, AttentionDesign design) {
    std::optional<AttentionAnswer> a = good(seed, design);
    float& x = a->heads[0].got[77];  // one output, one unit in its last place
    x = static_cast<float>(round_to(scalar_format("f16"), static_cast<double>(x) * (1 + 0x1p-10)));
    return a;
  };
  const AttentionCard card = identify_attention(off, {}, {.outputs = 6'000, .seconds = 2});
  EXPECT_FALSE(card.schedule) << card_text(card);
  EXPECT_GT(card.unequal, 0);
  EXPECT_NE(card_text(card).find("unknown"), std::string::npos);
}

}  // namespace
}  // namespace assay
