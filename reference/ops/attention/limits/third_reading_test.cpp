// What a third reading of the manual broke of the limits of attention, each beside a wrong kernel that stays
// caught.
#include <cmath>
#include <cstring>

#include "reference/ops/attention/limits/strangers_testing.hpp"

namespace assay::testing {
namespace {

constexpr double kUnit = 0x1p-24;  // Derivation: half an ulp of f32 at 1
constexpr float kStep = -0x1p-4F;  // Derivation: one key to the next

// One key: its weight and their sum are 1, and the quotient errs as declared.
TEST(AttentionOfStrangers, factors_whose_reciprocals_a_kernel_cannot_hold_are_refused) {
  for (const char* key : {"softcap", "scale"}) {
    EXPECT_EQ(kind_of([&] { equal({{key, "1e-40"}}, {1, 2}).truth(""); }), InputErrorKind::bad_value) << key;
    expect_pass(equal({{key, "1e-12"}}, {1, 2}).truth(""), Values{1.5F});
  }
}

TEST(AttentionOfStrangers, level_emu_counts_the_quotient) {
  const OpCase c = filled({{"d", "2"}, {"len", "1"}, {"kv", "f16"}}, {1, 2}, {1, 2}, {1, 2});
  for (const double ulps : {1.0, 2.0, 100.0}) {
    const Truth t =
        c.truth("order=sequential level=emu scaling=scores tiles=aligned sink=last merge=once div_ulp=" +
                std::to_string(ulps));
    const auto off = [](double by) {
      return Values{static_cast<float>(1 + by * 0x1p-23), static_cast<float>(2 + by * 0x1p-22)};
    };
    expect_pass(t, off(ulps));
    expect_caught(t, off(ulps + 2));
  }
}

// One key whose V is infinite: claimed, but not where what multiplies it may be no number.
TEST(AttentionOfStrangers, an_infinity_of_v_meets_a_weight_that_overflows) {
  const auto one_key = [](float q, Given more, const Values& sinks = {}) {
    more.insert({{"d", "1"}, {"len", "1"}});
    OpCase c = filled(more, {q}, {0}, {INFINITY});
    if (!sinks.empty()) c.put("sinks", sinks);
    return c;
  };
  const OpCase scaled = one_key(0x1p122F, {{"scale", "100"}}), small = one_key(0x1p22F, {{"scale", "100"}});
  for (const char* words : {"scaling=q", "scaling=any"}) {
    expect_pass(scaled.truth(words), Values{NAN});
    expect_caught(small.truth(words), Values{NAN});
  }
  const OpCase lags = one_key(1, {{"scale", "1"}, {"sinks", "yes"}}, {-1.5F});
  expect_pass(lags.truth("p=e4m3fn p_shift=8 lag=2 sink=first"), Values{NAN});
  expect_caught(lags.truth("p=e4m3fn p_shift=8 lag=0 sink=first"), Values{NAN});
}

// Each row of q is converted, whatever stands in another.
TEST(AttentionOfStrangers, a_row_of_q_that_is_not_finite_leaves_the_others_converted) {
  const Given two_rows{{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"q", "2"}};
  const float q = 1 + 0x1p-9F;  // 1 in bf16
  const OpCase c = filled(two_rows, {INFINITY, q}, {0, 8}, {0, 1}),
               finite = filled(two_rows, {1, q}, {0, 8}, {0, 1});
  const Truth t = c.truth("q=bf16"), without = finite.truth("q=bf16");
  EXPECT_EQ(t.value[1], without.value[1]);
  EXPECT_EQ(t.limit[1], without.limit[1]);
  EXPECT_TRUE(std::isnan(t.value[0]) || std::isinf(t.limit[0]));
}

// K's scale, or the second of two, may come after what the first makes infinite.
TEST(AttentionOfStrangers, codes_may_overflow_before_their_scale) {
  const auto keys = [](const char* kv, float q, double scale, double second = 0) {
    OpCase c = attention({{"d", "32"}, {"dv", "32"}, {"len", "1"}, {"kv", kv}, {"scale", "1"}});
    c.put("q", Values(32, q)), c.put("k", Values(32, 1)), c.put("v", Values(32, 1));
    for (const char* tensor : {"k", "v"})
      for (Plane& plane : c.set.at(tensor).planes) {
        const double to = plane.spec.suffix == ".scale"     ? scale
                          : plane.spec.suffix == ".scale_2" ? second
                                                            : 0;
        const auto number = static_cast<float>(to);
        for (std::size_t at = 0; to != 0 && at < plane.bytes.size(); at += sizeof number)
          std::memcpy(plane.bytes.data() + at, &number, sizeof number);
      }
    return c;
  };
  const Values nan(32, NAN);
  expect_pass(keys("int8_row", 0x1p125F, 0x1p-135).truth(""), nan);
  expect_caught(keys("int8_row", 0x1p100F, 0x1p-110).truth(""), nan);
  expect_pass(keys("int4_ch_tensor", 1, 0x1p126, 0x1p-100).truth(""), nan);
  expect_caught(keys("int4_ch_tensor", 1, 0x1p20, 0x1p-20).truth(""), nan);
}

// 32 codes of 127 under 2500 / 127: 80000 is no number of f16, and Inf times a minimum of 0 is NaN.
TEST(AttentionOfStrangers, a_block_sum_of_q_beyond_f16_meets_a_minimum_of_0) {
  for (const char* k : {"q4_1", "q5_1", "q4_0"}) {
    OpCase c = attention({{"d", "32"}, {"dv", "1"}, {"len", "1"}, {"k", k}, {"v", "f32"}});
    const auto of = [&](float q) {
      c.put("q", Values(32, q)), c.put("k", Values(32, 0)), c.put("v", {1});
      return c.truth("q=q8_1");
    };
    expect_pass(of(2500), Values{NAN});
    expect_caught(of(25), Values{NAN});
  }
}

// An infinite scale of a block of K, where q is 0 in that block.
TEST(AttentionOfStrangers, nothing_is_known_beside_an_infinite_scale_of_a_block) {
  OpCase c = attention({{"d", "32"}, {"dv", "1"}, {"len", "2"}, {"k", "q8_0"}, {"v", "f32"}});
  c.put("q", Values(32, 0)), c.put("k", Values(64, 1)), c.put("v", {1, 2});
  expect_pass(c.truth("q=q8_0"), Values{1.5F});
  expect_caught(c.truth("q=q8_0"), Values{NAN});
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(c.set.at("k").planes[0].bytes.data(), &infinity, sizeof infinity);
  expect_pass(c.truth("q=q8_0"), Values{NAN});
}

// The row sum of a first pass over tiles, rescaled on its way, and the shares of a second: an exp that is low
// for steps of 1/16 and high for all others does not cancel.
TEST(AttentionOfStrangers, shares_of_a_second_pass_are_not_those_of_the_first) {
  constexpr int kKeys = 16;
  Values k, v(kKeys, 1);
  for (int j = 0; j < kKeys; ++j) k.push_back(static_cast<float>(j) / 16);
  const auto out = [&](double ulps) {
    const auto exp = [&](float x) {
      const double off = x >= kStep ? -ulps : ulps;
      return x == 0 ? 1.0F : static_cast<float>(std::exp(x) * (1 + off * kUnit));
    };
    float l = 1, o = 0;
    for (std::size_t j = 1; j < k.size(); ++j) l = l * exp(k[j - 1] - k[j]) + 1;
    for (const float each : k) o += exp(each - k.back()) / l;
    return Values{o};
  };
  const OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "16"}, {"scale", "1"}}, {1}, k, v);
  const std::string words = "weights=shares argument=rounded div_ulp=0.5 exp_ulp=100 level=detap ";
  expect_pass(c.truth(words + "tile=1 order=tiles"), out(100));
  expect_caught(c.truth(words + "tile=1 order=tiles"), out(4000));
  expect_caught(c.truth(words + "tile=16 order=tiles"), out(100));  // one tile: one pass, or the same weights
}

// Parts of one key each, merged by log-sum-exps one after the other: exp(lse_i - lse) add up to 1 but for the
// rounding of lse.
TEST(AttentionOfStrangers, weights_of_merged_log_sum_exps_need_not_add_up_to_1) {
  const auto merged = [](const Values& lse) {
    float all = lse[0], out = 1;
    for (std::size_t i = 1; i < lse.size(); ++i) {
      const float top = std::max(all, lse[i]), sum = std::exp(all - top) + std::exp(lse[i] - top);
      const float joined = top + std::log(sum);
      out = out * std::exp(all - joined) + std::exp(lse[i] - joined);
      all = joined;
    }
    return Values{out};
  };
  for (const float size : {40.0F, 100.0F, 400.0F, 800.0F})
    for (const int parts : {2, 4, 8})
      for (int seed = 0; seed < 50; ++seed) {
        Values k;
        for (int j = 0; j < parts; ++j) k.push_back(size + static_cast<float>((j * 7 + seed * 13) % 17) / 16);
        const OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", std::to_string(parts)}, {"scale", "1"}},
                                {1}, k, Values(k.size(), 1));
        const std::string words = "exp_ulp=1 tile=1 tiles=aligned split=" + std::to_string(parts);
        expect_pass(c.truth(words), merged(k));
        const Values far{1.01F};
        expect_caught(c.truth(words), far);
      }
}

// l stays at 2048 in f16: one running sum over all keys is an order too.
TEST(AttentionOfStrangers, a_row_sum_in_any_order_may_run_over_all_keys) {
  const OpCase c = equal({{"kv", "f16"}, {"scale", "1"}}, Values(3000, 1));
  expect_pass(c.truth("rowsum=f16"), Values{3000.0F / 2048});
  expect_caught(c.truth("rowsum=f16 rowsum_order=depth:63"), Values{3000.0F / 2048});
  expect_caught(c.truth(""), Values{1 + 3000 * 0x1p-21F});
}

TEST(AttentionOfStrangers, level_emu_takes_no_order_but_its_own) {
  const std::string emu = "level=emu order=sequential scaling=scores tiles=aligned tile=8 ";
  const OpCase c = equal({}, Values{1, 2, 3, 4});
  for (const char* key : {"rowsum_order", "pv_order", "qk_order"}) {
    EXPECT_EQ(kind_of([&] { c.truth(emu + key + "=tree"); }), InputErrorKind::bad_contract) << key;
    expect_pass(c.truth(emu + key + "=sequential"), Values{2.5F});
  }
}

// 4 times 1e38 is Inf in f32 before it is added, and added to -3e38 it would fit.
TEST(AttentionOfStrangers, a_product_may_overflow_before_it_is_added) {
  for (const char* words : {"level=detord order=sequential scaling=scores tiles=aligned p_shift=2",
                            "order=tiles pv_order=sequential scaling=scores tiles=aligned p_shift=2",
                            "level=emu order=sequential scaling=scores tiles=aligned p_shift=2"}) {
    expect_pass(equal({{"softcap", "50"}}, {-7.5e37F, 1e38F}).truth(words), Values{INFINITY});
    expect_caught(equal({{"softcap", "50"}}, {-7.5e36F, 1e37F}).truth(words), Values{INFINITY});
  }
}

// log l of l = 2^64, or of e^59, 64 ulps up for one part and down for the other.
TEST(AttentionOfStrangers, the_log_of_a_part_is_of_shifted_weights_and_of_those_above_the_maximum) {
  const OpCase shifted = equal({{"scale", "1"}}, {1, -1});
  const std::string parts = "split=2 tile=1 exp_ulp=64 ";
  expect_pass(shifted.truth(parts + "denominator=cast p_shift=64"), Values{2.44141e-4F});
  expect_caught(shifted.truth(parts + "denominator=exact p_shift=64"), Values{2.44141e-4F});
  const OpCase lags =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "4"}, {"scale", "1"}}, {1}, {0, 59, 0, 59}, {1, 1, -1, -1});
  expect_pass(lags.truth(parts + "div_ulp=0.5 lag=60"), Values{2.49836e-4F});
  expect_caught(lags.truth("div_ulp=0.5 lag=60"), Values{2.49836e-4F});
}

// exp(-103.5) is one step of 2^-149, not 0.8 of it.
TEST(AttentionOfStrangers, a_rescale_may_underflow_where_its_steps_are_declared) {
  OpCase c = attention({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}, {"sinks", "yes"}});
  c.put("q", {0}), c.put("k", {0}), c.put("v", {1e18F}), c.put("sinks", {103.5F});
  for (const char* words :
       {"sink=last order=tiles tiles=aligned scaling=scores exp_ulp=0.5",
        "sink=last order=sequential tiles=aligned scaling=scores level=detord exp_ulp=0.5"}) {
    expect_pass(c.truth(words), Values{1.4013e-27F});
    expect_caught(c.truth(words), Values{1.4013e-26F});
  }
}

// The block's sum 65920 is Inf in f16, and times a minimum NaN.
TEST(AttentionOfStrangers, sums_of_blocks_meet_the_minima_of_every_format) {
  for (const char* format : {"q4_K", "q5_K", "q4_1"}) {
    OpCase c("attention", {{"heads", "1"},
                           {"d", "256"},
                           {"dv", "1"},
                           {"len", "2"},
                           {"k", format},
                           {"v", "f32"},
                           {"dtype", "f32"}});
    Values k(512);
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = 1e-6F * static_cast<float>(i % 7) - 3e-6F;
    c.put("k", k), c.put("v", {1, -1});
    c.put("q", Values(256, 2060));
    expect_pass(c.truth("q=q8_1"), Values{NAN});
    c.put("q", Values(256, 1000));
    expect_caught(c.truth("q=q8_1"), Values{NAN});
  }
}

// 17 and 16 equal keys: log 17 and log 16 are 2 ulps up and down, and so is the exp of their difference.
TEST(AttentionOfStrangers, parts_of_equal_logits_are_merged_by_log_and_exp_too) {
  Values v(33, 1), k(33, 1);
  for (std::size_t i = 17; i < v.size(); ++i) v[i] = -1;
  const OpCase c = filled(
      {{"d", "1"}, {"dv", "1"}, {"len", "33"}, {"k", "f16"}, {"v", "f16"}, {"scale", "2"}, {"softcap", "50"}},
      {0}, k, v);
  const std::string words =
      "level=emu order=sequential scaling=scores tiles=aligned sink=last argument=rounded div_ulp=0.5 tile=1 "
      "exp_ulp=2 ";
  expect_pass(c.truth(words + "split=2"), Values{0.030303536F});
  expect_caught(c.truth(words + "split=1"), Values{0.030303536F});
}

// 1/3, 2 ulps up, and -1/3, up: times their sums and added 3.97e-8 are left where the outputs cancel.
TEST(AttentionOfStrangers, quotients_of_parts_err_relative_to_the_parts) {
  const std::string words =
      "order=tiles scaling=scores tiles=aligned sink=last argument=rounded merge=once tile=3 ";
  for (const char* level : {"level=ca ", "level=detord "}) {
    expect_pass(equal({}, {1, 0, 0, -1, 0, 0}).truth(words + level + "split=2"), Values{3.97e-8F});
    expect_caught(equal({}, {1, 0, 0, -1, 0, 0}).truth(words + level + "split=1"), Values{3.97e-8F});
  }
}

}  // namespace
}  // namespace assay::testing
