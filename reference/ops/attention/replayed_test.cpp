// Attention judged by schedules that kernels declare whole.
#include "reference/ops/attention/replayed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "reference/error.hpp"
#include "reference/ops/attention/test_problem.hpp"
#include "reference/ops/op.hpp"

namespace assay {
namespace {

Truth judged_by(const AttentionCase& c, const std::string& contract) {
  return op("attention").truth(c.attributes, c.inputs, Contract::parse(contract, attention_contract())).at(0);
}

// A kernel on 8-bit codes says its steps whole: rows of q scaled to e4m3, weights shifted, sums promoted.
// What contradicts the rest of the contract is refused.
TEST(ReplayedAttention, a_schedule_of_eight_bit_codes_is_judged_by_its_bits) {
  const AttentionCase c = attention_case(
      {{"heads", "2"}, {"d", "64"}, {"q", "3"}, {"len", "200"}, {"kv", "e4m3fn"}, {"dtype", "f32"}},
      Design::gaussian, 3);
  const std::string rest =
      " qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn tile=128 exp_ulp=2 promote=128 level=replay schedule=";
  const std::string schedule =
      "qk:hopper_fp8/pv:hopper_fp8/p:e4m3fn/out:f32/tile:128/argument:scaled/constant:float/exp:ex2/"
      "sum_fma:no/"
      "fold:adjacent/quotient:division/q:e4m3fn/p_shift:8/promote:";
  const auto judged = [&](const std::string& contract) { return judged_by(c, contract); };
  const Truth promoted = judged("q=e4m3fn p_shift=8" + rest + schedule + "128");
  EXPECT_TRUE(std::ranges::all_of(promoted.limit, [](double limit) { return limit == 0; }));
  EXPECT_NE(promoted.value, judged("q=e4m3fn p_shift=8" + rest + schedule + "32").value);
  const Truth plain =
      judged("q=e4m3fn p_shift=8 qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn tile=128 exp_ulp=2 promote=128");
  for (std::size_t i = 0; i < plain.value.size(); ++i)
    EXPECT_LE(std::fabs(promoted.value[i] - plain.value[i]), plain.limit[i]) << i;
  for (const char* contradicts : {"p_shift=8", "q=e4m3fn", "q=e4m3fn p_shift=8 scores=f16"})
    EXPECT_THROW(judged(contradicts + rest + schedule + "128"), InputError) << contradicts;
}

// The scales of a head's K and V beside the codes that the unit multiplies: within the limit of the numbers,
// and no other schedule takes such codes.
TEST(ReplayedAttention, scales_of_a_head_stand_beside_its_codes) {
  const auto of = [](const char* kv) {
    return attention_case({{"heads", "4"},
                           {"kv_heads", "2"},
                           {"d", "64"},
                           {"q", "3"},
                           {"len", "200"},
                           {"page", "16"},
                           {"k", kv},
                           {"v", "e4m3fn_head"},
                           {"dtype", "f32"}},
                          Design::gaussian, 3);
  };
  const AttentionCase c = of("e4m3fn_head");
  const std::string
      limits = "q=e4m3fn p_shift=8 qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn tile=128 exp_ulp=2 promote=128",
      bits = limits +
             " level=replay schedule=qk:hopper_fp8/pv:hopper_fp8/p:e4m3fn/out:f32/tile:128/"
             "argument:scaled/constant:float/exp:ex2/sum_fma:no/fold:adjacent/"
             "quotient:division/q:e4m3fn/p_shift:8/promote:128";
  const Truth by_bits = judged_by(c, bits + "/kv_scale:head"), plain = judged_by(c, limits);
  EXPECT_TRUE(std::ranges::all_of(by_bits.limit, [](double limit) { return limit == 0; }));
  for (std::size_t i = 0; i < plain.value.size(); ++i)
    EXPECT_LE(std::fabs(by_bits.value[i] - plain.value[i]), plain.limit[i]) << i;
  EXPECT_THROW(judged_by(c, bits), InputError);
  EXPECT_THROW(judged_by(of("e4m3fn_tok"), bits + "/kv_scale:head"), InputError) << "a scale of each token";
  EXPECT_NO_THROW(judged_by(of("e4m3fn"), bits + "/kv_scale:head")) << "V alone";
}

// Heads of a group as the rows of one run, each with its slope and its sink: where no head's maximum waits
// for another's, the bits are those of each head by itself. One tile has all keys, so that every maximum
// moves once.
TEST(ReplayedAttention, heads_that_move_together_are_the_rows_of_their_own) {
  const AttentionCase c = attention_case({{"heads", "12"},
                                          {"kv_heads", "2"},
                                          {"batch", "2"},
                                          {"d", "64"},
                                          {"len", "100"},
                                          {"kv", "e5m2"},
                                          {"dtype", "f16"},
                                          {"sinks", "yes"},
                                          {"alibi", "yes"}},
                                         Design::gaussian, 3);
  const std::string contract =
      "qk=hopper_f16 pv=hopper_f16 p=f16 tile=128 exp_ulp=2 promote=128 level=replay "
      "schedule=qk:hopper_f16/pv:hopper_f16/p:f16/out:f16/tile:128/argument:scaled/constant:float/exp:ex2/"
      "sum_fma:no/bias:subtract/sink:exp2f/merge:lanes/dot_run:16";
  const Truth alone = judged_by(c, contract), together = judged_by(c, contract + "/slack:8/slack_rows:8");
  EXPECT_TRUE(std::ranges::all_of(alone.limit, [](double limit) { return limit == 0; }));
  EXPECT_EQ(together.limit, alone.limit);
  EXPECT_EQ(together.value, alone.value);
  // In tiles of 16 a maximum that waits leaves other bits.
  std::string tiles = contract;
  tiles.replace(tiles.find("tile:128"), 8, "tile:16");
  EXPECT_NE(judged_by(c, tiles + "/slack:8/slack_rows:8").value, judged_by(c, tiles).value);
  const AttentionCase rows = attention_case(
      {{"heads", "2"}, {"d", "64"}, {"q", "3"}, {"len", "100"}, {"kv", "f16"}, {"dtype", "f16"}},
      Design::gaussian, 3);
  EXPECT_THROW(judged_by(rows, contract + "/slack:8"), InputError);
  const AttentionCase narrow = attention_case(
      {{"heads", "2"}, {"d", "32"}, {"len", "100"}, {"kv", "f16"}, {"dtype", "f16"}}, Design::gaussian, 3);
  EXPECT_THROW(judged_by(narrow, contract), InputError);
}

}  // namespace
}  // namespace assay
