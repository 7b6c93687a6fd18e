// What a seventh reading of the manual broke of the limits of attention, each beside what stays caught.
#include <cmath>
#include <cstring>

#include "reference/ops/attention/limits/strangers_testing.hpp"

namespace assay::testing {
namespace {

constexpr float kInf = INFINITY;
const std::string kEmulated =
    "level=emu order=sequential scaling=scores tiles=aligned sink=last merge=once argument=rounded ";

// Products are summed before a small scale brings them down: -Inf in a register of f16, and NaN beside it.
TEST(AttentionOfStrangers, an_infinity_of_v_is_not_claimed_where_a_logit_may_overflow_before_its_scale) {
  const OpCase c = filled({{"d", "1"}, {"len", "1"}, {"scale", "2.38418579e-07"}}, {1}, {-1e5F}, {kInf});
  expect_pass(c.truth("qk=f16"), Values{NAN});
  expect_caught(c.truth("qk=f32"), Values{NAN});
  expect_pass(c.truth("qk=f32"), Values{kInf});
  const OpCase small = filled({{"d", "1"}, {"len", "1"}, {"scale", "2.38418579e-07"}}, {1}, {-1e4F}, {kInf});
  expect_caught(small.truth("qk=f16"), Values{NAN});
}

TEST(AttentionOfStrangers, the_quotient_of_a_softcap_errs_as_declared) {
  const OpCase c = filled({{"d", "1"}, {"len", "2"}, {"softcap", "30"}}, {2}, {1, 1}, {1, -1});
  // Derivation: 65536 ulps of z = 2 / 30, 2^-27 each, are 2^-11; 30 times that between two logits, halved, is
  // 0.0073.
  constexpr float kOff = 0.00726F;
  expect_pass(c.truth("tanh_ulp=0.5 div_ulp=65536"), Values{kOff});
  expect_caught(c.truth("tanh_ulp=0.5 div_ulp=65536"), Values{20 * kOff});
  expect_caught(c.truth("tanh_ulp=0.5"), Values{kOff});
  const std::string words = "order=tiles scaling=scores tiles=aligned tanh_ulp=0.5 div_ulp=";
  expect_pass(c.truth(words + "65536"), Values{kOff});
  expect_caught(c.truth(words + "2"), Values{kOff});
}

// A weight times V's scale vanishes in front of the code of an infinity.
TEST(AttentionOfStrangers, an_infinity_of_v_under_a_scale_that_makes_nothing_of_its_weight) {
  const auto scaled = [](float scale) {
    OpCase c =
        filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"k", "f32"}, {"v", "e5m2_row"}, {"scale", "1"}}, {1},
               {-17.02F, 0}, {1, 1});
    for (Plane& plane : c.set.at("v").planes) {
      if (plane.spec.suffix.empty())
        plane.bytes[0] = std::byte{0x7c}, plane.bytes[1] = std::byte{0};  // Inf, 0
      else
        std::memcpy(plane.bytes.data(), &scale, sizeof scale);
    }
    return c;
  };
  expect_pass(scaled(0x1p-149F).truth(""), Values{NAN});
  expect_caught(scaled(1).truth(""), Values{NAN});
}

// A code of 0 makes NaN of a shifted weight times its scale, where that overflows.
TEST(AttentionOfStrangers, a_shifted_weight_times_the_scale_of_v_may_overflow) {
  OpCase c = filled({{"d", "1"}, {"len", "1"}, {"k", "f32"}, {"v", "e5m2_tok"}}, {1}, {0}, {0});
  constexpr float kScale = 7.578e25F;
  for (Plane& plane : c.set.at("v").planes)
    if (!plane.spec.suffix.empty()) std::memcpy(plane.bytes.data(), &kScale, sizeof kScale);
  expect_pass(c.truth("p_shift=64"), Values{NAN});
  expect_caught(c.truth("p_shift=8"), Values{NAN});
  expect_caught(c.truth("p_shift=14 p=f16"), Values{NAN});
}

TEST(AttentionOfStrangers, level_emu_does_not_clip_weights_of_f16) {
  const OpCase c = filled({{"d", "1"}, {"len", "1"}, {"scale", "1"}}, {1}, {0}, {1});
  expect_pass(c.truth(kEmulated + "p=f16 p_shift=16"), Values{kInf});
  expect_caught(c.truth(kEmulated + "p=f16 p_shift=15"), Values{kInf});
  expect_pass(c.truth(kEmulated + "p=f16 p_shift=15"), Values{1});
}

TEST(AttentionOfStrangers, partial_sums_over_tiles_are_not_emulated) {
  const OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "6"}, {"scale", "1"}}, {1}, Values(6, 0),
                          {1, 0x1p-12F, 0x1p-12F, 0x1p-12F, 0x1p-12F, 0x1p-12F});
  const std::string half = kEmulated + "pv=f16 tile=2 promote=";
  EXPECT_THROW((void)c.truth(half + "4"), InputError);
  const float each_tile = (1 + 0x1p-11F + 0x1p-11F) / 6;  // 1 + 2^-12 is 1 in f16
  expect_pass(c.truth(half + "2"), Values{each_tile});
  expect_caught(c.truth(half + "2"), Values{1 / 6.0F});
  const float in_fours = (1 + 0x1p-11F) / 6;
  expect_pass(c.truth("order=tiles scaling=scores tiles=aligned pv=f16 tile=2 promote=4"), Values{in_fours});
  expect_pass(c.truth(half + "1048576"), Values{1 / 6.0F});
}

// q of 1e-36 has the code 448, and 448 times 1e36 is Inf before a scale meets it.
TEST(AttentionOfStrangers, codes_of_a_small_q_overflow_where_its_numbers_do_not) {
  const auto of = [](float q, float k) {
    return filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1e-12"}}, {q}, {k, 0}, {1, 3});
  };
  expect_pass(of(1e-36F, 1e36F).truth("q=e4m3fn"), Values{NAN});
  expect_caught(of(1e-36F, 1e36F).truth(""), Values{NAN});
  expect_caught(of(1e-30F, 1e30F).truth("q=e4m3fn"), Values{NAN});
}

// The lowest number of f32 as a mask: what it meets that it does not leave as it is.
OpCase unseen(const Given& more, const Values& q, const Values& k, const Values& v, float sink = 0) {
  Given given{{"d", "1"}, {"dv", "1"}, {"len", std::to_string(v.size())}, {"mask", "random"}, {"scale", "1"}};
  given.insert(more.begin(), more.end());
  OpCase c = filled(given, q, k, v);
  std::ranges::fill(c.set.at("mask").planes[0].bytes, std::byte{0});
  if (more.contains("sinks")) c.put("sinks", {sink});
  return c;
}

TEST(AttentionOfStrangers, parts_merged_by_logarithms_lose_how_many_keys_a_masked_row_has) {
  const OpCase c = unseen({}, {1}, {0, 0, 0}, {0, 0, 1});
  expect_pass(c.truth("empty=mean split=2"), Values{0.25F});
  expect_caught(c.truth("empty=mean split=2 merge=states"), Values{0.25F});
  expect_pass(c.truth("empty=mean split=2 merge=states"), Values{1 / 3.0F});
  expect_pass(c.truth("empty=mean scores=f16"), Values{NAN});
}

TEST(AttentionOfStrangers, the_mean_is_not_claimed_where_a_hidden_logit_overflows) {
  const OpCase c = unseen({}, {1}, {-1e5F, 0}, {1, 3});
  expect_pass(c.truth("empty=mean qk=f16"), Values{3});
  expect_caught(c.truth("empty=mean"), Values{3});
  expect_pass(c.truth("empty=mean"), Values{2});
}

TEST(AttentionOfStrangers, a_slope_that_the_mask_does_not_absorb_leaves_no_mean) {
  const auto with_slope = [](float slope) {
    OpCase c = unseen({{"alibi", "yes"}}, {1}, {1, 2}, {3, 9});
    c.put("slopes", {slope});
    return c;
  };
  expect_pass(with_slope(-1e32F).truth("empty=mean"), Values{9});
  expect_caught(with_slope(-1e25F).truth("empty=mean"), Values{9});
  expect_pass(with_slope(-1e25F).truth("empty=mean"), Values{6});
}

TEST(AttentionOfStrangers, beside_a_sink_the_exponential_of_a_mask_is_0) {
  const OpCase c = unseen({{"sinks", "yes"}}, {1}, {0}, {1e35F});
  expect_pass(c.truth("empty=mean"), Values{0});
  expect_caught(c.truth("empty=mean"), Values{2.8e-10F});
  expect_pass(unseen({{"sinks", "yes"}}, {1}, {0}, {INFINITY}).truth("empty=mean"), Values{NAN});
}

}  // namespace
}  // namespace assay::testing
