// Correct kernels with which people who knew the manual alone broke limits of attention, each beside a wrong
// one that stays caught.
#include <cmath>
#include <cstring>

#include "reference/ops/attention/limits/strangers_testing.hpp"

namespace assay::testing {
namespace {

const std::string kShaped = "tiles=aligned scaling=scores argument=rounded ";

TEST(AttentionOfStrangers, a_scaled_q_is_rounded_again_as_a_unit_takes_it) {
  // Two keys: out = 1 / (1 + exp(difference of logits)), q times 1/sqrt(2) in bf16 once or twice.
  const float q = 0x1.c00002p-2F, k = 48;
  OpCase c = filled({{"d", "2"}, {"dv", "1"}, {"len", "2"}}, {0, q}, {0, k, 0, 0}, {0, 1});
  const float scale = 0x1.6a09e6p-1F;
  const auto out = [&](double scaled) { return Values{static_cast<float>(1 / (1 + std::exp(scaled * k)))}; };
  const auto bf16 = [](double x) { return round_bf16(x); };
  for (const char* words :
       {"qk=hopper_bf16 q=bf16 scaling=q exp_ulp=1", "qk=hopper_bf16 q=bf16 scaling=q_rounded exp_ulp=1"}) {
    const Truth t = c.truth(std::string("convert=bf16 ") + words);
    expect_pass(t, out(bf16(static_cast<float>(bf16(q) * scale))));
    expect_pass(t, out(bf16(q * scale)));
    expect_caught(t, out(q * scale * (1 + 0x1p-5)));
  }
  const Truth kept = c.truth("convert=bf16 qk=hopper_bf16 q=bf16 scaling=scores exp_ulp=1");
  expect_caught(kept, out(bf16(static_cast<float>(bf16(q) * scale)) * (1 + 0x1p-9)));
}

TEST(AttentionOfStrangers, blocks_of_a_unit_may_be_short_under_a_told_order) {
  OpCase c =
      attention({{"d", "4"}, {"dv", "2"}, {"len", "2"}, {"kv", "f16"}, {"mask", "window"}, {"window", "4"}});
  c.put("q", {-0x1.c653a6p-6F, 0x1.ff87eep-3F, 0x1.dd5acp-4F, 0x1.5e6e26p-2F});
  c.put("k", {-0x1.418p-2F, -0x1.f6p-2F, -0x1.494p+0F, 0x1.b38p-2F, -0x1.894p-1F, -0x1.614p+1F, 0x1.19p+0F,
              -0x1.c4cp-1F});
  c.put("v", {-0x1.42cp-1F, 0, -0x1.a94p-2F, 0x1.7d4p-2F});
  const std::string words =
      "qk=hopper_f16_f16out q=f16 convert=f16 tiles=aligned tile=4 scaling=scores p=f16 pv=v100_f16 "
      "denominator=cast exp_ulp=4 ";
  const float got = 0x1.38fd4ap-3F;
  const Truth t = c.truth(words + "order=sequential"),
              full = c.truth(words + "order=sequential qk_block=16 pv_block=16");
  expect_pass(t, Values{static_cast<float>(t.value[0]), got});
  expect_caught(full, Values{static_cast<float>(full.value[0]), got});
  expect_caught(t, Values{static_cast<float>(t.value[0]), got * (1 + 0x1p-6F)});
  expect_pass(c.truth(words + "order=tiles qk_order=sequential"),
              Values{static_cast<float>(t.value[0]), got});
}

TEST(AttentionOfStrangers, keys_of_a_block_of_p_v_may_be_few_under_a_told_order) {
  OpCase c =
      attention({{"d", "1"}, {"dv", "2"}, {"len", "4"}, {"kv", "f16"}, {"mask", "causal"}, {"q", "1"}});
  c.put("q", {0x1.8p+0F}), c.put("k", {-0x1p+0F, 0x1.aa8p-1F, -0x1.ffcp-1F, -0x1p+0F});
  c.put("v", {-0x1.8p-1F, -0x1.03p-1F, -0x1.8p-1F, -0x1p-1F, -0x1p-1F, -0x1p-2F, -0x1p-1F, 0});
  const std::string words =
      "qk=cdna3_f16 q=f16 convert=f16 p=f16 p_shift=3 pv=hopper_f16_f16out order=sequential tile=16 "
      "tiles=aligned scaling=scores sink=last merge=once div_ulp=1 exp_ulp=4";
  const float got = -0x1.7268d8p-1F;
  const Truth t = c.truth(words), full = c.truth(words + " qk_block=16 pv_block=16");
  const auto other = static_cast<float>(t.value[1]);
  expect_pass(t, Values{got, other});
  expect_caught(full, Values{got, static_cast<float>(full.value[1])});
  expect_caught(t, Values{got * (1 + 0x1p-5F), other});
}

TEST(AttentionOfStrangers, parts_that_differ_in_size_are_counted_from_either_end_of_a_descending_row) {
  OpCase c = filled({{"d", "2"}, {"dv", "1"}, {"len", "6"}}, {-0x1.4ed8p-2F, 0x1.4p+4F},
                    {1, 1, 1, -1, 1, 1, -1, -1, -1, 1, 1, 1}, {-1, -1, 1, 1, 0x1p-1F, -1});
  const std::string words = "split=2 tile=2 merge=once p=e5m2 q=f16 exp_ulp=1 order=descending " + kShaped;
  expect_pass(c.truth(words), Values{-0x1.6263b6p-5F});
  expect_pass(c.truth(words), Values{-0x1.7011feab3aa9ep-5F});
  expect_caught(c.truth(words), Values{-0x1p-1F});
}

TEST(AttentionOfStrangers, parts_may_be_shorter_than_runs_of_a_split) {
  OpCase c = attention({{"d", "1"}, {"dv", "2"}, {"len", "3"}, {"kv", "f16"}});
  c.put("q", {-0x1p-3F}), c.put("k", {1, -1, 1});
  c.put("v", {1, 0x1p-1F, -0x1.cp-3F, 0x1.8p-1F, -0x1.cp+0F, 0x1.4p-1F});
  const std::string words =
      "p=bf16 denominator=cast part=2 tile=2 promote=2 order=tiles exp_ulp=100 div_ulp=2 "
      "qk_order=sequential " +
      kShaped;
  const Truth one = c.truth(words + "merge=states"), two = c.truth(words + "merge=states split=2"),
              once = c.truth(words + "merge=once split=1");
  const Values got = {-0x1.423474p-2F, static_cast<float>(two.value[1])};
  expect_caught(one, got);  // one part has all keys, whatever is said of parts
  expect_pass(two, got);
  expect_caught(once, got);
  expect_caught(two, Values{-0x1.5p-2F, got[1]});
}

TEST(AttentionOfStrangers, parts_may_be_divided_by_their_sums_before_they_are_merged_at_once) {
  OpCase c = equal({{"kv", "f16"}}, {0x1.848p-2F, -0x1.96p+0F, 0x1.e24p-2F, 0x1.048p+1F, 0x1.b78p-1F,
                                     0x1.588p-2F, -0x1.1dp+0F, -0x1.d9cp-1F, -0x1.108p+0F});
  c.put("q", {-0x1p-149F}), c.put("k", Values(9, 0));
  const std::string words =
      "split=3 tile=1 merge=once order=sequential qk=rdna35_f16 q=f16 convert=f16 p_shift=4 div_ulp=2 "
      "exp_ulp=2 " +
      kShaped;
  expect_pass(c.truth(words), Values{-0x1.15002ap-4F});
  expect_caught(c.truth(words), Values{-0x1.152p-4F});
}

TEST(AttentionOfStrangers, equal_logits_may_meet_two_tanhs) {
  OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "0.5"}, {"softcap", "0.1"}},
                    {0x1.7e2882p+0F}, {-1, -1}, {0x1.4p-11F, 0x1p-10F});
  const std::string words = "div_ulp=1 exp_ulp=100 tanh_ulp=4 order=sequential p=e4m3fn tile=4 " + kShaped;
  expect_pass(c.truth(words), Values{0x1.9fffb2p-11F});
  expect_caught(c.truth(words), Values{0x1.98p-11F});
}

TEST(AttentionOfStrangers, the_manual_says_what_functions_give_and_what_is_rescaled) {
  const auto said = [](std::string_view key, std::string_view what) {
    for (const KeySpec& row : op("attention").contract)
      if (row.name == key) return row.meaning.find(what) != std::string_view::npos;
    return false;
  };
  EXPECT_TRUE(said("exp_ulp", "exp(0) is 1"));
  EXPECT_TRUE(said("tanh_ulp", "tanh(0) is 0"));
  EXPECT_TRUE(said("argument", "a maximum that stays rescales by 1"));
  EXPECT_TRUE(said("tiles", "ceil(tiles / split)"));
  EXPECT_TRUE(said("part", "where split is above 1"));
  EXPECT_TRUE(said("convert", "as decoded, code times scale"));
  EXPECT_TRUE(said("scaling", "q under a unit: rounded into its format again"));
}

// The number 0x1.0020006p+0 is above a tie of f16, and rounded to f32 it is that tie.
TEST(AttentionOfStrangers, a_scaled_value_is_rounded_once_or_twice_on_its_way_to_f16) {
  OpCase c = attention({{"d", "1"}, {"len", "1"}, {"kv", "e4m3fn_tok"}});
  c.put("q", {1}), c.put("k", {1}), c.put("v", {1});
  Encoded& v = c.set.at("v");
  const float scale = 0x1.c75556p-1F;
  v.planes[0].bytes[0] = std::byte{0x39};  // 1.125
  std::memcpy(v.planes[1].bytes.data(), &scale, sizeof scale);
  ASSERT_EQ(decode_tensor(v)[0], 0x1.0020006p+0);
  for (const char* words :
       {"convert=f16 exp_ulp=1 div_ulp=0.5",
        "convert=f16 order=sequential tiles=aligned scaling=scores exp_ulp=1 div_ulp=0.5"}) {
    expect_pass(c.truth(words), Values{0x1.004p+0F});
    expect_pass(c.truth(words), Values{1});
    expect_caught(c.truth(words), Values{0x1.008p+0F});
    expect_caught(c.truth(words), Values{0x1.ffp-1F});
  }
  // The same of K: logits of 0 and of it, over 64 times.
  OpCase keys = attention({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"k", "e4m3fn_tok"}, {"scale", "1"}});
  keys.put("q", {64}), keys.put("k", {1, 0}), keys.put("v", {0, 1});
  Encoded& k = keys.set.at("k");
  k.planes[0].bytes[0] = std::byte{0x39};
  std::memcpy(k.planes[1].bytes.data(), &scale, sizeof scale);
  const Truth t = keys.truth("convert=f16 exp_ulp=1 div_ulp=0.5");
  for (const double key : {1.0, 0x1.004p+0})
    expect_pass(t, Values{static_cast<float>(1 / (1 + std::exp(64 * key)))});
  expect_caught(t, Values{static_cast<float>(1 / (1 + std::exp(64 * 0x1.01p+0)))});
}

OpCase rotated(const char* format, const char* bytes) {
  OpCase c = attention({{"d", "32"}, {"len", "1"}, {"kv", format}});
  c.put("q", Values(32, 1)), c.put("k", Values(32, 1)), c.put("v", Values(32, 1));
  auto& out = c.set.at("v").planes[0].bytes;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>(std::stoi(std::string(bytes + 2 * i, 2), nullptr, 16));
  return c;
}

TEST(AttentionOfStrangers, a_decoder_of_tq3_is_off_by_what_its_block_sums) {
  const auto with = [](const Truth& t, std::size_t at, float got) {
    Values all(t.value.begin(), t.value.end());
    all[at] = got;
    return all;
  };
  const OpCase c = rotated("tq3_0_c2s1", "9ddac137484b5fda5722670d0a3b");
  const Truth t = c.truth("exp_ulp=1 div_ulp=0.5");
  expect_pass(t, with(t, 8, -0x1.3f9cbep-13F));
  expect_caught(t, with(t, 8, -0x1.3f9cbep-12F));
  const OpCase zero = rotated("tq3_0_c2", "626e474c3452ad5568b10bf91c3c");
  for (const char* words :
       {"convert=f16 exp_ulp=1 div_ulp=0.5",
        "convert=f16 order=sequential tiles=aligned scaling=scores exp_ulp=1 div_ulp=0.5"}) {
    const Truth f16 = zero.truth(words);
    expect_pass(f16, with(f16, 7, 0x1.8p-23F));
    expect_caught(f16, with(f16, 7, 0x1p-10F));
  }
}

TEST(AttentionOfStrangers, finite_values_that_overflow_meet_an_infinity_as_another) {
  const OpCase c = equal({}, {0x1.cp127F, 0x1.cp127F, -INFINITY});
  for (const std::string& words :
       {std::string("tile=1 order=tiles"), "order=sequential " + kShaped, std::string()})
    expect_pass(c.truth(words), Values{NAN});
  const OpCase fits = equal({}, {0x1.cp100F, 0x1.cp100F, -INFINITY});
  expect_pass(fits.truth(""), Values{-INFINITY});
  expect_caught(fits.truth(""), Values{NAN});
  const OpCase f16 = equal({}, {40000, 40000, -INFINITY});
  expect_pass(f16.truth("pv=f16"), Values{NAN});
  expect_caught(f16.truth("pv=f32"), Values{NAN});
}

TEST(AttentionOfStrangers, a_bias_that_overflows_downwards_is_one) {
  OpCase c = attention({{"d", "2"}, {"len", "2"}, {"kv", "f16"}, {"alibi", "yes"}});
  c.put("q", {1, 1}), c.put("k", {1, 1, 1, 1}), c.put("v", {INFINITY, 0, -0x1.514p-11F, 0});
  c.put("slopes", {-0x1.ff933cp+127F});
  const std::string words = "scores=f16 scaling=q_rounded order=descending tile=16 tiles=aligned";
  expect_pass(c.truth(words), Values{NAN, NAN});
  c.put("slopes", {-1});
  expect_caught(c.truth(words), Values{NAN, 0});
}

TEST(AttentionOfStrangers, cast_weights_are_summed_as_they_are_shifted) {
  const OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "3"}}, {1}, {0, 7.9F, 1}, {1, 2, 1});
  expect_pass(c.truth("rowsum=f16 denominator=cast p_shift=16 tile=1"), Values{0});
  expect_pass(c.truth("rowsum=f16 denominator=cast p_shift=8 lag=8 tile=1"), Values{0});
  for (const char* words :
       {"rowsum=f16 denominator=exact p_shift=16 tile=1", "rowsum=f16 denominator=cast tile=1",
        "rowsum=f16 denominator=cast p_shift=8 tile=1"})
    expect_caught(c.truth(words), Values{0});
}

TEST(AttentionOfStrangers, a_scaled_q_that_vanishes_meets_an_infinity_of_k) {
  OpCase c = attention({{"d", "1"}, {"dv", "2"}, {"len", "3"}, {"kv", "f16"}, {"scale", "0.3"}});
  c.put("q", {0x1p-149F}), c.put("k", {0x1.e98p-3F, 0x1.3p-3F, -INFINITY}), c.put("v", {1, 1, 1, 1, 1, 1});
  for (const char* words : {"scaling=q", "tile=64"}) expect_pass(c.truth(words), Values{NAN, NAN});
  expect_caught(c.truth("scaling=scores"), Values{NAN, NAN});
  c.put("q", {1});
  expect_caught(c.truth("scaling=q"), Values{NAN, NAN});
}

}  // namespace
}  // namespace assay::testing
