// Kernels of ops on rows with which people who knew the manual alone broke limits, each beside a wrong one
// that stays caught.
#include <cmath>

#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

using Given = std::map<std::string, std::string>;

OpCase row(const char* op, const Values& x, Given given = {}, float gamma = 1) {
  given.insert({{"rows", "1"}, {"cols", std::to_string(x.size())}});
  OpCase c(op, given);
  c.put("x", x);
  if (std::string_view(op) != "layernorm") return c;
  c.put("gamma", Values(x.size(), gamma));
  c.put("beta", Values(x.size(), 0));
  return c;
}

TEST(RowsOfStrangers, logits_that_overflow_when_they_are_divided_are_nobodys) {
  for (const char* acc : {"f32", "bf16"}) {
    const std::string words = std::string("div_ulp=0.5 acc=") + acc;
    const OpCase c = row("softmax", {0x1.8p127F, 0x1p127F}, {{"temperature", "0.5"}});
    expect_pass(c.truth(words), Values{NAN, NAN});
    expect_caught(row("softmax", {0x1.8p125F, 0x1p125F}, {{"temperature", "0.5"}}).truth(words),
                  Values{NAN, NAN});
  }
  const OpCase narrow = row("softmax", {0x1p17F, 0x1.8p17F}, {{"temperature", "2"}});
  expect_pass(narrow.truth("div_ulp=0.5 acc=f16"), Values{NAN, NAN});
  expect_caught(narrow.truth("div_ulp=0.5"), Values{NAN, NAN});
}

// 10^-5 is subnormal in f16: 0 / 0 where it is flushed, and its reciprocal is Inf.
TEST(RowsOfStrangers, a_temperature_that_is_flushed_or_has_no_reciprocal_leaves_nothing_to_claim) {
  const OpCase c = row("softmax", {0, 0}, {{"temperature", "1e-5"}});
  for (const char* words : {"acc=f16 ftz=yes div_ulp=0.5", "acc=f16 div_ulp=2"})
    expect_pass(c.truth(words), Values{NAN, NAN});
  expect_caught(c.truth("acc=f32 ftz=yes"), Values{NAN, NAN});
}

// Of a quotient of one subnormal step, 1000 ulps are 1000 steps.
TEST(RowsOfStrangers, ulps_of_a_subnormal_quotient_are_steps_however_many) {
  const OpCase f16 = row("softmax", {0, -19.75F}), bf16 = row("softmax", {0, -89.75F});
  const struct {
    const OpCase& c;
    const char* words;
    float step, ulps;
  } all[] = {{f16, "acc=f16 exp_ulp=1 div_ulp=1000", 0x1p-24F, 1000},
             {f16, "acc=f16 exp_ulp=1 div_ulp=100", 0x1p-24F, 100},
             {bf16, "acc=bf16 exp_ulp=1 div_ulp=100", 0x1p-133F, 100}};
  for (const auto& [c, words, step, ulps] : all) {
    EXPECT_EQ(judge(c.truth(words), Values{1, step * (ulps + 1)}).bad, 0U) << words;
    EXPECT_GT(judge(c.truth(words), Values{1, step * 4 * ulps}).bad, 0U) << words;
  }
}

// The maximum 1028.1 is 1032 in bf16, against which exp(1014.6 - 1032) is less than half a step of f16.
TEST(RowsOfStrangers, a_kept_weight_is_relative_to_a_maximum_that_was_rounded_up) {
  const OpCase c = row("softmax", {1028.1F, 1014.6F});
  const std::string words = "acc=bf16 exp_ulp=0.5 div_ulp=0.5 order=sequential weights=";
  EXPECT_EQ(judge(c.truth(words + "f16"), Values{1, 0}).bad, 0U);
  EXPECT_GT(judge(c.truth(words + "acc"), Values{1, 0}).bad, 0U);
  const OpCase near = row("softmax", {515, 506.25F});
  EXPECT_EQ(judge(near.truth(words + "f16 ftz=yes"), Values{1, 0}).bad, 0U);
  EXPECT_GT(judge(near.truth(words + "f16 ftz=no"), Values{1, 0}).bad, 0U);
}

// The running maximum 10496 is a rounded 10499.8, against which a weight of e^3.8 = 46 is kept; the factor is
// one step of 2^-24.
TEST(RowsOfStrangers, a_factor_that_underflows_meets_a_weight_above_1) {
  const OpCase c = row("softmax", {10499.83F, 10940.02F});
  const double kept = 46 * 0x1p-24, sum = 0.0187;
  const Values got{static_cast<float>(kept / sum), 1};
  EXPECT_EQ(judge(c.truth("acc=f16 rescales=1 exp_ulp=1 div_ulp=0.5 weights=f32"), got).bad, 0U);
  EXPECT_GT(judge(c.truth("acc=f32 rescales=1 exp_ulp=1 div_ulp=0.5"), got).bad, 0U);
}

// M = -2^64 of keys alone: M log2 e is off by 2^40, and exp2 of that is Inf, though the row's largest logit
// is the sink's 0.
TEST(RowsOfStrangers, what_is_subtracted_may_be_the_maximum_of_the_keys_below_a_sink) {
  OpCase far = row("softmax", {-0x1p64F, -0x1.8p64F}, {{"sinks", "yes"}}),
         near = row("softmax", {-1, -2}, {{"sinks", "yes"}});
  far.put("sinks", {0}), near.put("sinks", {0});
  expect_pass(far.truth("exp=base2"), Values{NAN, NAN});
  expect_caught(near.truth("exp=base2"), Values{NAN, NAN});
  expect_caught(far.truth("exp=e"), Values{NAN, NAN});
}

TEST(RowsOfStrangers, a_logsumexp_of_an_infinity_is_that_and_not_nan) {
  const OpCase up = row("logsumexp", {1, INFINITY}), down = row("logsumexp", {-INFINITY, -INFINITY});
  expect_pass(up.truth(""), Values{INFINITY});
  expect_pass(down.truth(""), Values{-INFINITY});
  for (const OpCase* c : {&up, &down}) expect_caught(c->truth(""), Values{NAN});
  EXPECT_NE(up.op_row->special.find("the kernel treats them apart"), std::string_view::npos);
}

// (1, x, 0) with x in acc, whose difference from x is no longer 0.
TEST(RowsOfStrangers, a_mean_of_one_number_is_held_in_the_accumulator) {
  const struct {
    const char* acc;
    float x;
  } narrow[] = {{"bf16", 0x1.004p+0F}, {"f16", 0x1.0008p+0F}};
  for (const auto& [acc, x] : narrow) {
    const OpCase c = row("layernorm", {x}, {{"eps", "1"}});
    for (const char* how : {"variance=welford order=tree", "variance=welford order=blocks:4",
                            "variance=welford order=sequential", "variance=two_pass order=tree",
                            "variance=one_pass order=sequential"}) {
      const Truth t = c.truth(std::string(how) + " div_ulp=0.5 acc=" + acc);
      expect_pass(t, Values{x - 1});
      expect_caught(t, Values{64 * (x - 1)});
    }
    expect_caught(c.truth("variance=welford order=tree div_ulp=0.5"), Values{x - 1});
  }
}

TEST(RowsOfStrangers, a_mean_of_one_number_of_each_lane_is_held_in_the_accumulator) {
  const Values x = {-0x1.9d29eep+5F, -0x1.8eb116p+5F};
  OpCase c = row("layernorm", x, {{"eps", "1e-6"}});
  c.put("gamma", {0x1.a0145ap-5F, -0x1.048d2ap-4F});
  c.put("beta", {-0x1.0e658ep-1F, -0x1.0e658ep-1F});
  const std::string words = "variance=welford order=lanes:2 div_ulp=0.5 gamma=bf16 mid=f16 rsqrt_ulp=5";
  const float own = static_cast<float>(c.truth(words).value[0]);
  expect_pass(c.truth(words + " acc=f16"), Values{own, -0x1.3f4p-1F});
  expect_caught(c.truth(words), Values{own, -0x1.3f4p-1F});
  expect_caught(c.truth(words + " acc=f16"), Values{own, NAN});
}

// n_A n_B = 250000 is Inf in f16, 0 times Inf and Inf / Inf are NaN.
TEST(RowsOfStrangers, counts_whose_product_overflows_are_nobodys) {
  const OpCase c = row("layernorm", Values(1000, 0));
  const Values nan(1000, NAN);
  expect_pass(c.truth("acc=f16 variance=welford order=depth:16"), nan);
  for (const char* words : {"acc=f16 variance=two_pass", "acc=f16 variance=welford order=sequential",
                            "acc=f32 variance=welford order=depth:16"})
    expect_caught(c.truth(words), nan);
}

// (M / n) n_A + (M / n) n_B, where M / n is subnormal: up by 2 of its steps at each merge.
TEST(RowsOfStrangers, a_quotient_by_the_count_may_be_multiplied_when_it_has_underflowed) {
  const float x = 0x1.2cp-120F;
  const std::size_t n = 4096;
  const OpCase c = row("layernorm", Values(n, x), {{"eps", "1e-6"}}, 0x1p+100F);
  const Truth t = c.truth("variance=welford order=tree div_ulp=2 rsqrt_ulp=0.5 product=x_inv_gamma");
  for (const int wrong : {1, 4}) {
    float mean = x;
    for (float k = 2; k <= static_cast<float>(n); k *= 2)
      mean = std::floor(mean / k / 0x1p-149F + static_cast<float>(2 * wrong)) * 0x1p-149F * k;
    const Values y(n, (x - mean) * static_cast<float>(1 / std::sqrt(1e-6)) * 0x1p+100F);
    if (wrong == 1)
      expect_pass(t, y);
    else
      expect_caught(t, y);
  }
}

// M = Inf: x - Inf is -Inf, and a variance that is NaN is 0 to a clamp by fmax.
TEST(RowsOfStrangers, a_clamp_by_fmax_makes_a_number_of_a_nan) {
  const OpCase c = row("layernorm", {1, INFINITY});
  for (const char* variance : {"variance=one_pass", "variance=welford"}) {
    expect_pass(c.truth(variance), Values{-INFINITY, NAN});
    expect_caught(c.truth(variance), Values{0, 0});
  }
  expect_caught(c.truth("variance=two_pass"), Values{-INFINITY, NAN});
}

// A maximum of 1 + 2^-11 is held as 1 in f16, and its own weight is exp(2^-11).
TEST(RowsOfStrangers, a_maximum_is_held_in_the_accumulator) {
  const float x = 1 + 0x1p-11F;
  const double own = round_f16(std::exp(0x1p-11)), other = round_f16(std::exp(-1.0));
  const OpCase c = row("softmax", {x, 0}, {{"dtype", "f32"}});
  const std::string words = "acc=f16 exp_ulp=0.5 div_ulp=0.5";
  const auto share = [&](double w) { return static_cast<float>(round_f16(w / round_f16(own + other))); };
  expect_pass(c.truth(words), Values{share(own), share(other)});
  expect_caught(c.truth(words), Values{share(own * 1.01), share(other)});
  // Of 65519, held as 65504, the weight is exp(15): Inf in f16.
  const OpCase high = row("softmax", {65519, 0}, {{"dtype", "f32"}});
  expect_pass(high.truth("acc=f16"), Values{NAN, 0});
  expect_caught(high.truth("acc=f32"), Values{NAN, 0});
}

// A transform of one point is that point, as it is loaded; of two, each is rounded before they are added.
TEST(RowsOfStrangers, a_point_of_a_transform_is_held_in_the_accumulator) {
  const float x = -0x1.7cfa2ap+82F, held = -0x1.7cp+82F;
  const OpCase one = row("wht", {x}, {{"points", "1"}});
  expect_pass(one.truth("acc=bf16"), Values{held});
  expect_caught(one.truth("acc=bf16"), Values{1.02F * x});
  expect_caught(one.truth("acc=f32"), Values{held});
  const float fine = 0x1.00fp+0F;  // 1.0 in bf16, once above and once below
  const OpCase two = row("wht", {fine, fine}, {{"points", "2"}});
  const float sum = 2 * 0x1.02p+0F * 0x1.6ap-1F;
  expect_pass(two.truth("acc=bf16"), Values{sum, 0});
  expect_caught(two.truth("acc=bf16"), Values{1.05F * sum, 0});
}

TEST(RowsOfStrangers, a_maximum_beyond_the_accumulator_leaves_nothing_to_claim) {
  for (const Values& x : {Values{-115200}, Values{0x1.aap114F}, Values{0x1.02p51F, -0x1.22p51F}}) {
    const Values nan(x.size(), NAN);
    expect_pass(row("softmax", x).truth("acc=f16"), nan);
    expect_caught(row("softmax", x).truth("acc=bf16"), nan);
  }
  expect_caught(row("softmax", {-60000}).truth("acc=f16"), Values{NAN});
}

TEST(RowsOfStrangers, a_weight_that_is_kept_in_a_narrower_format_than_its_sum_is_rounded) {
  const Values x{0.3F, -0.7F, 1.1F, 0.01F, -2.3F, 0.9F};
  const OpCase c = row("softmax", x);
  double sum = 0;
  Values kept;
  for (const float each : x) sum += std::exp(static_cast<double>(each) - static_cast<double>(x[2]));
  for (const float each : x)
    kept.push_back(static_cast<float>(static_cast<double>(static_cast<float>(
                                          std::exp(static_cast<double>(each) - static_cast<double>(x[2])))) /
                                      sum));
  const std::string words = "acc=f64 exp_ulp=1 div_ulp=0.5 ";
  expect_pass(c.truth(words + "weights=f32"), kept);
  const Truth wide = c.truth(words);
  expect_pass(wide, wide.value);
  Values off = kept;
  off[2] = std::nextafterf(std::nextafterf(off[2], 2), 2);
  expect_caught(c.truth(words + "weights=f32"), off);
}

// A norm in f64 whose eps was handed over in f32.
TEST(RowsOfStrangers, eps_may_be_the_number_of_f32_in_a_wider_accumulator) {
  const OpCase c = row("layernorm", {1, 1 + 0x1p-20F});
  const double d = 0x1p-21, v = d * d;
  const auto of = [&](double eps) {
    const auto y = static_cast<float>(d / std::sqrt(v + eps));
    return Values{-y, y};
  };
  const std::string words = "acc=f64 variance=two_pass rsqrt_ulp=0.5 div_ulp=0.5";
  for (const double eps : {1e-5, static_cast<double>(1e-5F)}) expect_pass(c.truth(words), of(eps));
  expect_caught(c.truth(words), of(1.00001e-5));
}

// "Rounded to f32 as they are read" is a rounding of an f32 as well, which may flush it.
TEST(RowsOfStrangers, a_weight_that_is_read_as_f32_beside_f64_may_be_flushed) {
  OpCase c = row("rmsnorm", {1, 0});
  c.put("gamma", {0x0.fp-126F, 1});
  const auto read = static_cast<float>(static_cast<double>(0x0.fp-126F) / std::sqrt(0.5 + 1e-5));
  expect_pass(c.truth("acc=f64 ftz=yes"), Values{0, 0});
  expect_pass(c.truth("acc=f64 ftz=yes"), Values{read, 0});
  expect_caught(c.truth("acc=f64"), Values{0, 0});
  expect_caught(c.truth("acc=f64 ftz=yes"), Values{2 * read, 0});
}

}  // namespace
}  // namespace assay::testing
