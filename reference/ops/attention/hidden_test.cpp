// Keys that a mask hides, as kernels that select and kernels that add meet them: each right where it is
// declared alone.
#include <cmath>
#include <cstring>

#include "reference/ops/attention/limits/strangers_testing.hpp"

namespace assay::testing {
namespace {

// Two rows of q over three keys, the mask given; d = dv = 2.
OpCase masked(const std::vector<std::int8_t>& mask, const Values& k, const Values& v) {
  OpCase c("attention", {{"heads", "1"},
                         {"d", "2"},
                         {"len", "3"},
                         {"q", "2"},
                         {"kv", "f32"},
                         {"dtype", "f32"},
                         {"mask", "random"}});
  std::memcpy(c.set.at("mask").planes[0].bytes.data(), mask.data(), mask.size());
  c.put("q", {1, 2, 3, -1}), c.put("k", k), c.put("v", v);
  return c;
}
const Values kKeys{1, 0, 0, 1, 1, 1}, kV{1, 10, 2, 20, 4, 40};

TEST(AttentionHidden, a_row_that_sees_no_key_gives_what_is_declared) {
  const OpCase c = masked({0, 0, 0, 1, 0, 0}, kKeys, kV);
  const double mean[2] = {7.0 / 3, 70.0 / 3};
  for (const std::string order : {"", "order=tiles scaling=scores tiles=aligned "}) {
    const Truth zero = c.truth(order), of_mean = c.truth(order + "empty=mean");
    expect_pass(zero, Values{0, 0, 1, 10});
    expect_caught(zero, Values{static_cast<float>(mean[0]), static_cast<float>(mean[1]), 1, 10});
    expect_pass(of_mean, Values{static_cast<float>(mean[0]), static_cast<float>(mean[1]), 1, 10});
    expect_caught(of_mean, Values{0, 0, 1, 10});
    expect_caught(of_mean, Values{2.3334F, 23.333333F, 1, 10});
    expect_caught(of_mean, Values{static_cast<float>(mean[0]), static_cast<float>(mean[1]), 1.001F, 10});
  }
}

TEST(AttentionHidden, with_a_sink_far_above_a_finite_mask_the_row_is_0) {
  OpCase c("attention", {{"heads", "1"},
                         {"d", "1"},
                         {"len", "2"},
                         {"kv", "f32"},
                         {"dtype", "f32"},
                         {"mask", "random"},
                         {"sinks", "yes"}});
  std::memset(c.set.at("mask").planes[0].bytes.data(), 0, 2);
  c.put("q", {1}), c.put("k", {1, 1}), c.put("v", {3, 5}), c.put("sinks", {0.5F});
  expect_pass(c.truth("empty=mean"), Values{0});
  expect_caught(c.truth("empty=mean"), Values{4});
}

TEST(AttentionHidden, what_is_not_finite_behind_a_mask_that_is_added_may_be_nan) {
  const std::string added = "hidden=added";
  for (const float bad : {NAN, INFINITY}) {
    Values v = kV;
    v[5] = bad;  // of key 2, its second column
    const OpCase of_v = masked({1, 0, 0, 1, 0, 0}, kKeys, v);
    expect_pass(of_v.truth(""), Values{1, 10, 1, 10});
    expect_caught(of_v.truth(""), Values{1, NAN, 1, NAN});
    expect_pass(of_v.truth(added), Values{1, NAN, 1, NAN});
    expect_caught(of_v.truth(added), Values{NAN, NAN, 1, 10});

    Values k = kKeys;
    k[2] = bad;  // of key 1, which is hidden from both rows
    const OpCase of_k = masked({1, 0, 1, 1, 0, 0}, k, kV);
    EXPECT_EQ(of_k.truth("").limit[0] < 1, true);
    EXPECT_TRUE(std::isinf(of_k.truth(added).limit[0]));
    EXPECT_TRUE(std::isinf(of_k.truth(added).limit[2]));
  }
  const OpCase finite = masked({1, 0, 0, 1, 0, 0}, kKeys, kV);
  EXPECT_EQ(finite.truth(added).limit, finite.truth("").limit);
}

// What a row meets that sees no key, where a mask is added: q and k that the mask does not absorb, a sink.
TEST(Hidden, a_row_without_keys_is_not_claimed_where_a_mask_is_added_to_what_it_does_not_absorb) {
  const auto first_of = [](float q, const Values& k, const char* words) {
    const OpCase c =
        filled({{"q", "3"}, {"len", "2"}, {"mask", "causal"}, {"scale", "1"}, {"d", "1"}, {"dv", "1"}},
               {q, 1, 1}, k, {1, 2});
    return c.truth(words);  // row 0 sees nothing
  };
  const auto limit = [&](float q, const Values& k, const char* words) {
    return first_of(q, k, words).limit[0];
  };
  for (const float q : {NAN, INFINITY, 0x1p101F}) EXPECT_EQ(limit(q, {1, -1}, "empty=mean"), kInfinity) << q;
  EXPECT_EQ(limit(1, {0x1p120F, -0x1p120F}, "empty=mean"), kInfinity);
  EXPECT_LT(limit(0x1p90F, {1, -1}, "empty=mean"), kInfinity);
  EXPECT_EQ(limit(NAN, {1, -1}, "empty=zero"), 0);
}

}  // namespace
}  // namespace assay::testing
