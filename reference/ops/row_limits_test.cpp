// The limits of softmax, logsumexp, wht and argmax under attack: what a contract leaves open passes, and the
// fault beside it does not.
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

constexpr float kInf = INFINITY;

Values softmax_of(const Values& x, std::string_view kept, std::string_view out = "f32") {
  const float top = *std::max_element(x.begin(), x.end());
  Values w;
  float sum = 0;
  for (const float each : x) w.push_back(static_cast<float>(std::exp(double(each - top)))), sum += w.back();
  for (float& each : w) each = Arithmetic{out}(Arithmetic{kept}(each) * (1.0F / sum));
  return w;
}

TEST(Softmax, weights_that_are_parked_in_16_bits_pass_and_weights_that_are_not_are_wrong) {
  for (const char* kept : {"bf16", "f16"})
    for (const char* dtype : {"f32", "bf16"}) {
      int rows = 0, wrong = 0;
      for (std::uint64_t seed = 1; seed < 200; ++seed) {
        OpCase c("softmax", {{"rows", "1"}, {"cols", "64"}, {"dtype", dtype}});
        const Values x = c.put("x", draw(Shape1::gaussian, 64, seed, 3));
        const Truth t = c.truth(std::string("exp_ulp=1 div_ulp=1 order=sequential weights=") + kept);
        expect_pass(t, softmax_of(x, kept, dtype));
        expect_pass(c.truth("exp_ulp=1 div_ulp=1"), softmax_of(x, "f32", dtype));
        ++rows;
        wrong += judge(t, softmax_of(x, "f32", dtype)).bad > 0;
      }
      EXPECT_GT(2 * wrong, rows) << kept << " in " << dtype;
    }
}

TEST(Softmax, a_sink_of_infinity_claims_nothing_and_a_nan_beside_it_is_still_one) {
  OpCase c("softmax", {{"rows", "3"}, {"cols", "2"}, {"sinks", "yes"}});
  c.put("x", {1, 2, NAN, 2, 1, 2});
  c.put("sinks", {kInf, kInf, -kInf});
  const Truth t = c.truth("");
  const float y = 1 / (1 + std::exp(-1.0F));
  expect_pass(t, Values{NAN, NAN, NAN, NAN, 1 - y, y});  // the maximum over keys and sink
  expect_pass(t, Values{0, 0, NAN, NAN, 1 - y, y});      // over the keys
  expect_caught(t, Values{0, 0, 0, 0, 1 - y, y});
  expect_caught(t, Values{0, 0, NAN, NAN, NAN, NAN});
}

TEST(Softmax, a_sink_whose_exp_overflows_may_make_zeros) {
  OpCase c("softmax", {{"rows", "1"}, {"cols", "2"}, {"sinks", "yes"}, {"dtype", "f32"}});
  c.put("x", {0, 1});
  c.put("sinks", {88.8F});
  const Values right = {static_cast<float>(std::exp(-88.8)), static_cast<float>(std::exp(-87.8))};
  expect_pass(c.truth("exp_ulp=2"), right);
  expect_pass(c.truth("exp_ulp=2"), Values{0, 0});
  expect_caught(c.truth("exp_ulp=2"), Values{0, 3 * right[1]});
  c.put("sinks", {80.0F});
  expect_caught(c.truth("exp_ulp=2"), Values{0, 0});
}

TEST(Softmax, a_logit_that_overflows_takes_its_whole_row_and_no_other) {
  OpCase c("softmax", {{"rows", "2"}, {"cols", "3"}, {"temperature", "0.001"}});
  c.put("x", {3e38F, 1, -kInf, 0.001F, 0.001F, -kInf});
  const Truth t = c.truth("");
  expect_pass(t, Values{NAN, NAN, NAN, 0.5F, 0.5F, 0});
  expect_pass(t, Values{1, 0, 0, 0.5F, 0.5F, 0});
  expect_caught(t, Values{1, 0, 0, 0.5F, 0.5F, NAN});
  OpCase base2("softmax", {{"rows", "1"}, {"cols", "2"}});
  base2.put("x", {3e38F, 1});
  expect_pass(base2.truth("exp=base2"), Values{NAN, NAN});  // M log2 e
  expect_caught(base2.truth("exp=e"), Values{NAN, NAN});
}

TEST(Softmax, a_logit_that_stands_for_a_mask_leaves_the_others_their_limits) {
  OpCase c("softmax", {{"rows", "1"}, {"cols", "3"}});
  const Values x = c.put("x", {1, 2, -3.4e38F});
  expect_pass(c.truth(""), softmax_of(x, "f32"));
  for (const float fault : {1.001F, 0.0F}) {
    Values y = softmax_of(x, "f32");
    y[1] *= fault;
    expect_caught(c.truth(""), y);
    expect_caught(c.truth("rescales=3"), y);
    expect_caught(c.truth("exp=base2"), y);
  }
  // An online kernel that forms M log2 e alone may have had it for its maximum: Inf, and NaN from it.
  expect_pass(c.truth("rescales=3 exp=base2"), Values(3, NAN));
}

TEST(Softmax, where_only_the_analysis_ends_a_nan_is_wrong) {
  OpCase c("softmax", {{"rows", "1"}, {"cols", "1000"}, {"dtype", "bf16"}});
  c.put("x", Values(1000, 1));
  for (const char* order : {"any", "sequential", "tree"}) {
    const Truth t = c.truth(std::string("acc=bf16 order=") + order);
    expect_caught(t, Values(1000, NAN));
    expect_pass(t, Values(1000, 0.001F));
  }
  OpCase l("logsumexp", {{"rows", "1"}, {"cols", "1000"}, {"dtype", "bf16"}});
  l.put("x", Values(1000, 1));
  expect_caught(l.truth("acc=bf16"), Values{NAN});
  expect_pass(l.truth("acc=bf16"), Values{1 + std::log(256.0F)});  // one accumulator in bf16 stops at 256
}

TEST(Wht, partial_sums_that_may_overflow_claim_nothing_and_no_others) {
  OpCase c("wht", {{"rows", "1"}, {"cols", "4"}, {"points", "4"}});
  c.put("x", {3e38F, 3e38F, -3e38F, -3e38F});
  expect_pass(c.truth("order=tree"), Values{NAN, 0, kInf, NAN});
  // Inf, and -Inf before it from the finite ones.
  c.put("x", {-3e38F, -3e38F, kInf, 0});
  expect_pass(c.truth(""), Values{NAN, kInf, -kInf, -kInf});
  c.put("x", {-1, -1, kInf, 0});
  expect_caught(c.truth(""), Values{NAN, kInf, -kInf, -kInf});
  c.put("x", {1, 1, NAN, 0});
  expect_caught(c.truth(""), Values{NAN, NAN, 1, NAN});
}

TEST(Wht, says_its_order_in_the_common_grammar) {
  OpCase c("wht", {{"rows", "1"}, {"cols", "256"}, {"points", "256"}});
  c.put("x", draw(Shape1::gaussian, 256, 1));
  const auto limit = [&](const char* order) { return c.truth(std::string("order=") + order).limit[3]; };
  EXPECT_LT(limit("tree"), limit("lanes:32"));
  EXPECT_LT(limit("lanes:32"), limit("any"));
  EXPECT_EQ(limit("sequential"), limit("any"));
  EXPECT_EQ(limit("depth:8"), limit("tree"));
}

TEST(Argmax, a_nan_wins_where_the_contract_says_so) {
  OpCase c("argmax", {{"rows", "3"}, {"cols", "3"}});
  c.put("x", {1, NAN, NAN, 1, 3, 3, NAN, 5, 6});
  EXPECT_EQ(c.truth("").value, (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(c.truth("nan=wins").value, (std::vector<double>{1, 1, 0}));
  expect_caught(c.truth("nan=wins"), std::vector<double>{0, 1, 0});
  expect_caught(c.truth("nan=loses"), std::vector<double>{1, 1, 0});
  expect_caught(c.truth("nan=wins"), std::vector<double>{2, 1, 0});  // the last NaN
}

}  // namespace
}  // namespace assay::testing
