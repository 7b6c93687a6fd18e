// What readings of the manual, from the eleventh on, broke of attention's limits, beside what stays caught.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/ops/attention/limits/strangers_testing.hpp"

namespace assay::testing {
namespace {

constexpr const char* kTiles = "order=tiles tiles=aligned scaling=scores";

// Each partial sum is an f32; that of all of them is not, before it is divided.
TEST(AttentionOfStrangers, partial_sums_that_overflow_together_claim_nothing) {
  for (const char* words : {" promote=1", " promote=1 p=bf16", " split=2 tile=2 merge=once",
                            " split=2 tile=2 merge=once p=bf16"}) {
    const std::string contract = kTiles + std::string(words);
    expect_pass(equal({{"scale", "1"}}, Values(4, 1.2e38F)).truth(contract), Values{INFINITY});
    // Sums that fit are claimed.
    const OpCase less = equal({{"scale", "1"}}, Values(4, 0.6e38F));
    expect_pass(less.truth(contract), Values{0.6e38F});
    expect_caught(less.truth(contract), Values{INFINITY});
    expect_caught(less.truth(contract), Values{0.61e38F});
  }
}

// The same of q.k: chunks that are f32 each, or f64, and are added in f32.
TEST(AttentionOfStrangers, chunks_of_a_logit_that_overflow_together_claim_nothing) {
  const auto of = [](float large) {
    return filled({{"d", "3"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}}, {1, 1, 1},
                  {large, large, -2 * large}, {1});
  };
  const std::string tiles = kTiles;
  for (const std::string& words :
       {tiles + " qk_order=sequential", tiles, tiles + " level=detord", std::string("qk=f64")}) {
    const std::string contract = words + " chunk=1";
    expect_pass(of(1.6e38F).truth(contract), Values{1});
    expect_pass(of(1.8e38F).truth(contract), Values{NAN});
    expect_caught(of(8).truth(contract), Values{NAN});
  }
}

// -Inf is added to a hidden logit, which must not be +Inf.
TEST(AttentionOfStrangers, a_hidden_logit_that_overflows_claims_nothing_where_it_is_added_to) {
  const auto of = [](float hidden, float slope) {
    OpCase c =
        filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}, {"mask", "random"}, {"alibi", "yes"}},
               {1}, {hidden, 1}, {2, 1});
    c.put("slopes", {slope});
    c.set.at("mask").planes[0].bytes = {std::byte{0}, std::byte{1}};
    return c;
  };
  const std::string tiles = kTiles, added = tiles + " hidden=added";
  for (const char* level : {"", " level=detord", " level=detap"}) {
    SCOPED_TRACE(level);
    expect_pass(of(70000, 0).truth(added + " scores=f16" + level), Values{NAN});
    expect_pass(of(30000, -40000).truth(added + " scores=f16" + level), Values{NAN});
    expect_pass(of(1, -0x1.8p127F).truth(added + level), Values{NAN});
    if (std::string_view(level) == " level=detap") continue;  // it has one range and error for all keys
    expect_caught(of(7000, 0).truth(added + " scores=f16" + level), Values{NAN});
    expect_caught(of(70000, 0).truth(added + level), Values{NAN});
    expect_caught(of(70000, 0).truth(tiles + " scores=f16" + level), Values{NAN});
  }
}

// empty=mean adds a mask to every hidden logit, and its weight of 0 meets V.
TEST(AttentionOfStrangers, a_mask_that_is_added_meets_what_it_hides) {
  const auto of = [](float k, float v) {
    OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}, {"mask", "random"}}, {1},
                      {k, 1}, {v, 1});
    c.set.at("mask").planes[0].bytes = {std::byte{0}, std::byte{1}};
    return c;
  };
  for (const auto& [k, v] : {std::pair{1.0F, NAN}, {INFINITY, 2.0F}, {NAN, 2.0F}}) {
    expect_pass(of(k, v).truth("empty=mean"), Values{NAN});
    expect_caught(of(k, v).truth(""), Values{NAN});
  }
  expect_caught(of(1, 2).truth("empty=mean"), Values{NAN});
}

// The sums of hidden keys, which a running kernel meets first, overflow before they are multiplied by 0,
// which exp of the mask is, whatever exp errs by.
TEST(AttentionOfStrangers, what_a_mask_hides_may_be_summed_before_it_is_dropped) {
  const auto of = [](const char* kv, const Values& v) {
    return filled({{"d", "1"},
                   {"dv", "1"},
                   {"len", std::to_string(v.size())},
                   {"scale", "1"},
                   {"mask", "window"},
                   {"window", "1"},
                   {"kv", kv}},
                  {1}, Values(v.size(), 1), v);
  };
  const OpCase wide = of("f16", {60000, 60000, 1, 2});
  expect_pass(wide.truth("empty=mean pv=f16 tile=2"), Values{NAN});
  expect_caught(wide.truth("empty=mean tile=2"), Values{NAN});
  expect_caught(wide.truth("pv=f16 tile=2"), Values{NAN});
  expect_pass(of("f16", {1, 1, 1, 2}).truth("empty=mean tile=2 p=f16 p_shift=15 denominator=cast rowsum=f16"),
              Values{NAN});
  expect_pass(of("f32", {5, 1, 2, 3}).truth("empty=mean scores=f16 tile=2"), Values{NAN});
  expect_caught(of("f32", {1e37F, 1}).truth("empty=mean exp_ulp=65536 tile=1"), Values{1.0275F});
}

// Codes under one scale are summed by the emulated kernel as they are, in f16 too, and overflow there.
TEST(AttentionOfStrangers, codes_that_overflow_in_the_emulated_kernel_claim_nothing) {
  OpCase c = attention({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}, {"kv", "e5m2_tensor"}});
  c.put("q", {1}), c.put("k", {1, 1});
  const std::string emu = "level=emu order=sequential scaling=scores tiles=aligned argument=rounded ";
  c.put("v", {1, 1});  // codes of 57344
  expect_pass(c.truth(emu + "pv=f16"), Values{INFINITY});
  expect_caught(c.truth(emu), Values{INFINITY});
  c.put("v", {1, 0x1p-10F});
  expect_caught(c.truth(emu + "pv=f16"), Values{INFINITY});
}

// No part is empty, and the last of them meets the sink: in its own row sum.
TEST(AttentionOfStrangers, a_sink_is_met_behind_the_last_keys_however_many_parts_are_asked_for) {
  OpCase c = equal({{"scale", "1"}, {"sinks", "yes"}}, {1, 1, 1});
  c.put("sinks", {1});
  const float factor = std::exp(-1.0F), exact = 3 * factor / (3 * factor + 1);
  const std::string emu = "level=emu order=sequential scaling=scores tiles=aligned sink=last rowsum=";
  for (const char* parts : {" split=1", " split=2 part=64", " split=2 part=4 tile=4"}) {
    SCOPED_TRACE(parts);
    // bf16: 3 exp(-1) is 1.1015625, and 1 more 2.09375.
    const auto bf16 = c.truth(emu + "bf16" + parts), f32 = c.truth(emu + "f32" + parts);
    expect_pass(bf16, Values{3 * factor / 2.09375F}), expect_caught(bf16, Values{exact});
    expect_pass(f32, Values{exact}), expect_caught(f32, Values{3 * factor / 2.09375F});
  }
}

// A register of 14 bits is an f32 that its unit cuts as it reads it: the sink's rescale is read by none.
TEST(AttentionOfStrangers, a_register_that_no_unit_reads_any_more_is_not_cut) {
  OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}, {"kv", "e4m3fn"}, {"sinks", "yes"}}, {0},
             {1}, {1});
  c.put("sinks", {1});
  const Truth t = c.truth(
      "level=emu order=sequential scaling=scores tiles=aligned sink=last p=e4m3fn pv=hopper_fp8 exp_ulp=0.5");
  const float factor = std::exp(-1.0F), cut = std::floor(factor * 0x1p15F) * 0x1p-15F;  // 14 bits of 2^-2
  expect_pass(t, Values{factor / (factor + 1)}), expect_caught(t, Values{cut / (factor + 1)});
}

// Codes have no format that they are rounded into again.
TEST(AttentionOfStrangers, codes_of_q_are_not_scaled_and_rounded_again) {
  const OpCase c = attention({{"d", "32"}, {"dv", "1"}, {"len", "1"}});
  for (const char* q : {"q8_0", "q8_1", "q8_K", "e4m3fn"})
    EXPECT_THROW(Contract::parse("scaling=q_rounded q=" + std::string(q), c.op_row->contract), InputError)
        << q;
  EXPECT_NO_THROW(Contract::parse("scaling=q_rounded q=f16", c.op_row->contract));
}

// Codes of a q whose scale, or one over it, is no number: 0 times Inf.
TEST(AttentionOfStrangers, a_row_of_q_too_small_for_its_scale_claims_nothing) {
  const auto of = [](float small) {
    return filled({{"d", "2"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}}, {small, 0}, {1, 1}, {3});
  };
  for (const char* words : {"q=e4m3fn", "q=e4m3fn level=detap", "q=e5m2"}) {
    expect_pass(of(1e-37F).truth(words), Values{NAN});
    expect_caught(of(1e-30F).truth(words), Values{NAN});
    expect_caught(of(0).truth(words), Values{NAN});
  }
}

// Beside a sink a row that sees no key is 0, divided or not, whatever empty=nan says of it.
TEST(AttentionOfStrangers, nothing_is_claimed_of_empty_rows_beside_a_sink_under_nan) {
  OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"mask", "random"}, {"sinks", "yes"}}, {1}, {1}, {3});
  c.put("sinks", {1}), c.set.at("mask").planes[0].bytes = {std::byte{0}};
  expect_pass(c.truth("empty=nan"), Values{0}), expect_pass(c.truth("empty=nan"), Values{NAN});
  expect_caught(c.truth("empty=zero"), Values{NAN}), expect_caught(c.truth("empty=zero"), Values{1});
}

// A sequence without keys has no mean.
TEST(AttentionOfStrangers, the_mean_of_no_keys_is_not_claimed) {
  OpCase c = attention({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"lengths", "ragged"}});
  c.put("q", {1}), c.put("k", {1, 1}), c.put("v", {1, 3});
  c.set.at("lengths") = encode_tensor(format("int32"), {1}, std::vector<float>{0});
  expect_pass(c.truth("empty=mean"), Values{NAN});
  expect_caught(c.truth("empty=zero"), Values{NAN});
}

// An ulp of a subnormal exp is 2^-149.
TEST(AttentionOfStrangers, a_subnormal_exponential_errs_by_subnormal_ulps) {
  const OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}}, {1},
                          {0, -87.34422302246094F}, {0, 0x1p100F});
  const std::string emu = "level=emu order=sequential scaling=scores tiles=aligned argument=rounded exp_ulp=";
  expect_pass(c.truth(emu + "65536"), Values{1.4903598355431313e-08F});
  expect_caught(c.truth(emu + "16384"), Values{1.4903598355431313e-08F});
}

// Equal scores, divided by the cap within div_ulp: 3 ulps below the quotient in the first tile, 2 in the
// second, and so on. The maximum rises by an ulp in each, and the unit cuts its 14-bit register of 16 1.875 =
// 30 three times, to 29.992; the sum of 48 0.25 is 12: 41.992 / 64 = 0.65613, of 0.65625.
TEST(AttentionOfStrangers, equal_scores_may_have_unequal_quotients_under_a_soft_cap) {
  Values v(64, 0.25F);
  std::fill_n(v.begin(), 16, 1.875F);
  const OpCase c = filled({{"d", "1"},
                           {"dv", "1"},
                           {"len", "64"},
                           {"scale", "1"},
                           {"softcap", "50"},
                           {"k", "f32"},
                           {"v", "e4m3fn"}},
                          {1}, Values(64, 20), v);
  const std::string emu =
      "level=emu order=sequential scaling=scores tiles=aligned sink=last exp_ulp=0.5 tanh_ulp=0.5 p=e4m3fn "
      "pv=ada_fp8 tile=16 div_ulp=";
  expect_pass(c.truth(emu + "4"), Values{0.656128883F});
  expect_caught(c.truth(emu + "0.5"), Values{0.656128883F});
}

// K as f16 numbers, and codes of FP8: one contract cannot say both.
TEST(AttentionOfStrangers, a_conversion_to_what_the_unit_does_not_take_is_refused) {
  const OpCase c = equal({{"kv", "e4m3fn"}}, {1, 2});
  for (const char* words : {"qk=hopper_fp8 q=e4m3fn convert=f16", "pv=hopper_fp8 p=e4m3fn convert=bf16",
                            "qk=hopper_bf16 convert=f16", "pv=int8_dot convert=f16"})
    EXPECT_THROW((void)c.truth(words), InputError) << words;
  for (const char* words :
       {"qk=hopper_f16 q=f16 convert=f16", "qk=hopper_tf32 q=tf32 convert=bf16 pv=hopper_bf16 p=bf16",
        "qk=hopper_fp8 q=e4m3fn pv=hopper_f16 p=f16"})
    EXPECT_NO_THROW((void)c.truth(words)) << words;
}

// exp(-11) is subnormal in f16: a unit that reads it as 0 loses it from the row sum.
TEST(AttentionOfStrangers, a_unit_that_flushes_its_inputs_may_lose_weights_from_the_row_sum) {
  const OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}, {"kv", "f16"}}, {1}, {0, -11}, {1, 2});
  const std::string tiles =
      "level=detap order=sequential tiles=aligned scaling=scores sink=last tile=4 p=f16 exp_ulp=0.5 "
      "div_ulp=0.5 "
      "denominator=";
  const double p = round_to(scalar_format("f16"), std::exp(-11.0)), lost = 1 + 2 * p;
  expect_pass(c.truth(tiles + "cast rowsum=cdna2_f16"), Values{static_cast<float>(lost)});
  expect_caught(c.truth(tiles + "cast rowsum=cdna3_f16"), Values{static_cast<float>(lost)});
  expect_caught(c.truth(tiles + "cast rowsum=cdna2_f16"), Values{static_cast<float>(1 + 20 * p)});
}

// o / (2^8 l) as one quotient is subnormal, and errs by subnormal ulps; o / l first is not.
TEST(AttentionOfStrangers, a_shift_may_leave_before_the_quotient) {
  OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}, {"dtype", "bf16"}, {"sinks", "yes"}},
             {1}, {0}, {0x1p-17F});
  c.put("sinks", {80});
  const std::string emu =
      "level=emu order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 div_ulp=65536 p=f16 "
      "p_shift=";
  const double exact = c.truth(emu + "8").value[0], off = exact + 65536 * 0x1p-149;
  const double stored = round_to(scalar_format("bf16"), off);
  expect_pass(c.truth(emu + "8"), Values{static_cast<float>(stored)});
  expect_caught(c.truth(emu + "8"), Values{static_cast<float>(4 * stored)});
}

// q / (absmax / 448) lies 3 ulps below the half of two codes: a quotient of another, both within 2 ulps,
// meets it.
TEST(AttentionOfStrangers, codes_of_q_are_quotients_within_their_ulps) {
  const float absmax = 3.3F, scale = absmax / 448.0F;
  float x = 17.0F * scale;  // a half between 16 and 18
  for (int ulp = 0; ulp < 4; ++ulp) x = std::nextafter(x, 0.0F);
  const OpCase c =
      filled({{"d", "2"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}}, {absmax, x}, {0, 1, 0, -1}, {1, -1});
  const auto out = [&](double code) {
    const double logit = code * static_cast<double>(scale);
    return Values{static_cast<float>(std::tanh(logit))};
  };
  for (const char* level : {"detap", "detord order=sequential", "ca order=sequential"}) {
    const std::string words =
        std::string("level=") + level + " tiles=aligned scaling=scores exp_ulp=0.5 q=e4m3fn div_ulp=";
    expect_pass(c.truth(words + "2"), out(16));
    expect_pass(c.truth(words + "2"), out(18));
    expect_caught(c.truth(words + "2"), out(20));
    expect_caught(c.truth(words + "0.5"), out(18));
  }
}

// 6 14 / 627.4 by the reciprocal of the global scale, which the nearest f16 of the quotient is not.
TEST(AttentionOfStrangers, nvfp4_may_be_decoded_by_a_reciprocal_before_its_conversion) {
  OpCase c =
      filled({{"d", "1"}, {"dv", "16"}, {"len", "1"}, {"v", "nvfp4"}, {"k", "f32"}}, {1}, {0}, Values(16, 6));
  const float global = 0x1.393668p+9F;
  for (Plane& plane : c.set.at("v").planes) {
    if (plane.spec.suffix == ".global_scale") std::memcpy(plane.bytes.data(), &global, sizeof global);
    if (plane.spec.suffix == ".block_scale")
      plane.bytes[0] = static_cast<std::byte>(encode(scalar_format("e4m3fn"), 14.0));
  }
  const float inverse = 1.0F / global, by_inverse = 6.0F * (14.0F * inverse);
  for (const char* level : {"detord", "ca", "detap"}) {
    const std::string words = std::string("order=sequential tiles=aligned scaling=scores level=") + level +
                              " exp_ulp=0.5 convert=f16";
    const Truth t = c.truth(words);
    expect_pass(t, Values(16, static_cast<float>(round_f16(by_inverse))));
    expect_caught(t, Values(16, static_cast<float>(round_f16(by_inverse * 1.01F))));
    expect_caught(t, Values(16, NAN));
  }
  // A global scale whose reciprocal is Inf.
  const float tiny = 0x1p-130F;
  for (Plane& plane : c.set.at("v").planes)
    if (plane.spec.suffix == ".global_scale") std::memcpy(plane.bytes.data(), &tiny, sizeof tiny);
  for (const char* level : {"detord order=sequential", "ca order=sequential", "detap"})
    expect_pass(c.truth(std::string("tiles=aligned scaling=scores level=") + level), Values(16, NAN));
}

// 60000 + 60000 is Inf in f16, and Inf exp(mask - sink) is NaN; numbers that fit are 0 beside a sink.
TEST(AttentionOfStrangers, a_row_that_sees_no_key_may_overflow_before_its_sink) {
  const auto of = [](float v) {
    OpCase c =
        filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"mask", "random"}, {"sinks", "yes"}, {"kv", "f16"}},
               {1}, {0, 0}, {v, v});
    c.put("sinks", {0});
    c.set.at("mask").planes[0].bytes = {std::byte{0}, std::byte{0}};
    return c;
  };
  const std::string words = "empty=mean pv=f16 order=sequential tiles=aligned scaling=scores level=";
  for (const char* level : {"ca", "detap", "detord"}) {
    expect_pass(of(60000).truth(words + level), Values{NAN});
    expect_caught(of(1).truth(words + level), Values{NAN});
    expect_pass(of(1).truth(words + level), Values{0});
  }
}

// The scale of V, 2^-110, is a normal number; times 2^-40 it is none.
TEST(AttentionOfStrangers, a_shift_may_leave_apart_from_the_scale_of_v) {
  OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"v", "e5m2_tensor"}, {"k", "f32"}}, {1}, {0}, {57344});
  const float scale = 0x1p-110F;
  set_scale(c, "v", scale);
  const float right = 57344.0F * scale;
  for (const char* level : {"emu", "ca", "detap"}) {
    const std::string words = std::string("order=sequential tiles=aligned scaling=scores sink=last p=bf16 ") +
                              "exp_ulp=0.5 div_ulp=0.5 p_shift=40 level=" + level;
    expect_pass(c.truth(words), Values{right});
  }
}

// (1 / l) v_scale, l = 2^8: below the normal numbers, as the epilogue of FlashAttention-3 has it.
TEST(AttentionOfStrangers, the_scale_of_v_may_be_divided_by_the_row_sum_first) {
  OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"v", "e4m3fn_head"}, {"k", "f32"}}, {1}, {0}, {448});
  const float scale = 1.90173e-38F;
  set_scale(c, "v", scale);
  const float joined = (1.0F / 256.0F) * scale, got = 256.0F * 448.0F * joined;
  for (const char* level : {"ca", "detap", "detord"}) {
    const std::string words =
        std::string("order=sequential tiles=aligned scaling=scores p=e4m3fn p_shift=8 level=") + level;
    expect_pass(c.truth(words), Values{got});
    expect_caught(c.truth(words), Values{got * 1.001F});
  }
}

// Logits of 1 and 0 from q of 1e36 and scales whose product is subnormal.
TEST(AttentionOfStrangers, two_scales_of_k_may_be_multiplied_first) {
  Values q(32, 0);
  q[0] = 1e36F;
  OpCase c = filled(
      {{"d", "32"}, {"dv", "1"}, {"len", "2"}, {"k", "int4_ch_tensor"}, {"v", "f32"}, {"scale", "1e6"}}, q,
      Values(64, 0), {1, 0});
  const float scale = 1.3e-30F, second = 1.1e-14F;
  for (Plane& plane : c.set.at("k").planes) {
    if (plane.spec.suffix.empty()) plane.bytes[0] = std::byte{7};
    for (std::size_t at = 0; plane.spec.suffix == ".scale" && at < plane.bytes.size(); at += sizeof scale)
      std::memcpy(plane.bytes.data() + at, &scale, sizeof scale);
    if (plane.spec.suffix == ".scale_2") std::memcpy(plane.bytes.data(), &second, sizeof second);
  }
  const auto out = [](float k) {
    const double logit = 1e6 * static_cast<double>(1e36F * k);
    return Values{static_cast<float>(1 / (1 + std::exp(-logit)))};
  };
  const float product = scale * second;
  for (const char* level : {"detap", "detord order=sequential", "ca order=sequential"}) {
    const Truth t = c.truth(std::string("tiles=aligned scaling=scores exp_ulp=0.5 level=") + level);
    expect_pass(t, out(7 * scale * second));
    expect_pass(t, out(7 * product));
    expect_caught(t, out(400 * product));
  }
}

// scale k.scale / softcap, once on the host, is 1e-42: 714 steps of 2^-149 in place of 713.6.
TEST(AttentionOfStrangers, a_soft_cap_may_be_joined_with_the_scales_of_a_logit) {
  OpCase c = filled({{"d", "1"},
                     {"dv", "1"},
                     {"len", "2"},
                     {"k", "int8_tensor"},
                     {"v", "f32"},
                     {"scale", "1e-8"},
                     {"softcap", "1e6"}},
                    {8e33F}, {127, 0}, {1, 0});
  const float scale = 1e-28F;
  set_scale(c, "k", scale);
  const float joined = scale * 1e-8F / 1e6F, dot = 127 * 8e33F;
  const auto out = [&](double constant) {
    const double logit = 1e6 * std::tanh(static_cast<double>(dot) * constant);
    return Values{static_cast<float>(1 / (1 + std::exp(-logit)))};
  };
  for (const char* level : {"detap", "detord order=sequential", "ca order=sequential"}) {
    const Truth t = c.truth(std::string("tiles=aligned scaling=scores exp_ulp=0.5 level=") + level);
    expect_pass(t, out(static_cast<double>(joined)));
    expect_pass(t, out(static_cast<double>(scale) * 1e-14));
    expect_caught(t, out(static_cast<double>(scale) * 1.02e-14));
  }
}

// A unit multiplies numbers of its own types: what is none has to be converted, and the contract says to
// what.
TEST(AttentionOfStrangers, an_operand_that_its_unit_does_not_hold_is_refused) {
  const auto of = [](const char* dtype, const char* k, const char* v) {
    return filled({{"d", "64"}, {"len", "8"}, {"dtype", dtype}, {"k", k}, {"v", v}}, Values(64, 1),
                  Values(512, 1), Values(512, 1));
  };
  const auto refused = [](const OpCase& c, const char* words) {
    EXPECT_THROW((void)c.truth(words), InputError) << words;
  };
  refused(of("f32", "f32", "f32"), "qk=hopper_tf32");
  refused(of("f32", "f16", "f16"), "qk=hopper_f16");
  refused(of("f16", "q8_0", "f16"), "qk=hopper_f16");
  refused(of("bf16", "e4m3fn_head", "f16"), "qk=hopper_fp8");
  refused(of("f16", "f16", "f16"), "pv=hopper_f16");
  refused(of("f16", "f16", "f16"), "rowsum=hopper_f16 denominator=cast");
  refused(of("f16", "e4m3fn_ch", "f16"), "qk=hopper_f16");
  refused(of("f16", "f16", "e4m3fn_tok"), "pv=hopper_f16 p=f16");
  refused(of("f16", "q8_0", "f16"), "qk=int8_dot");
  refused(of("f16", "f16", "f16"), "qk=hopper_f16 q=q8_0");
  refused(of("f16", "f16", "f16"), "rowsum=hopper_f16 p=f16");
  refused(of("f16", "mxfp8", "f16"), "qk=int8_dot q=q8_0");
  refused(of("f16", "nvfp4", "f16"), "qk=blackwell_nvfp4");
  const auto taken = [](const OpCase& c, const char* words) {
    EXPECT_NO_THROW((void)c.truth(words)) << words;
  };
  taken(of("f32", "f32", "f32"), "qk=hopper_tf32 q=tf32 convert=tf32 pv=hopper_tf32 p=tf32");
  taken(of("f32", "f16", "f16"), "qk=hopper_f16 q=f16");
  taken(of("f16", "q8_0", "q8_0"), "qk=hopper_f16 convert=f16 pv=hopper_f16 p=f16");
  taken(of("bf16", "e4m3fn_tok", "e4m3fn_ch"), "qk=hopper_fp8 q=e4m3fn pv=hopper_fp8 p=e4m3fn");
  taken(of("f16", "e4m3fn_head", "e5m2_head"), "qk=hopper_f16 pv=hopper_f16 p=f16");
  taken(of("f16", "q8_0", "f16"), "qk=int8_dot q=q8_0");
  taken(of("f16", "mxfp4", "f16"), "qk=int8_dot q=q8_0");
  taken(of("f16", "mxfp8", "f16"), "qk=blackwell_mxfp8 q=e4m3fn");
}

// Operands whose low bits a unit ignores, and such as are rounded before: an f32 kernel on units of TF32.
TEST(AttentionOfStrangers, units_of_tf32_take_rounded_or_cut_operands) {
  const float one = 1 + 0x1.ffcp-11F;  // just below 1 + 2^-10: cut it is 1
  const OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}, {"kv", "f32"}}, {1}, {one, 0}, {1, -1});
  const auto out = [](double logit) { return Values{static_cast<float>(std::tanh(logit / 2))}; };
  const std::string to = "qk=hopper_tf32 q=tf32 convert=tf32 exp_ulp=0.5 ", near = to + "tf32=nearest_even ";
  for (const char* level : {"detap", "detord order=tiles", "ca order=tiles"}) {
    const std::string at = std::string("tiles=aligned scaling=scores level=") + level;
    expect_pass(c.truth(to + at), out(1));
    expect_pass(c.truth(to + at), out(1 + 0x1p-10));
    expect_caught(c.truth(to + at), out(1 - 0x1p-6));
    expect_pass(c.truth(near + at), out(1 + 0x1p-10));
    expect_caught(c.truth(near + at), out(1));
  }
  const OpCase held =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}, {"kv", "f32"}}, {1}, {1, 0}, {1, -1});
  expect_pass(held.truth(to), out(1));
  expect_caught(held.truth(to), out(1 + 0x1p-12));  // there is nothing to round
  EXPECT_THROW((void)c.truth(to + "level=emu order=sequential tiles=aligned scaling=scores sink=last"),
               InputError);
  const Truth emu = c.truth(near + "level=emu order=sequential tiles=aligned scaling=scores sink=last");
  expect_pass(emu, out(1 + 0x1p-10));
  expect_caught(emu, out(1));
}

// 32 sums of 32 codes, each times its scales in f32 and added to the ones before: the last 31 are below half
// an ulp of the first, one after the other.
TEST(AttentionOfStrangers, sums_of_blocks_of_codes_are_added_in_f32) {
  Values q(1024, 0.0F), k(2048, 0.0F);
  q[0] = 127;
  for (std::size_t i = 32; i < 1024; ++i) q[i] = 127 * 0x1p-24F;
  k[0] = 127;
  for (std::size_t i = 32; i < 1024; ++i) k[i] = i % 32 == 0 ? 63 : 0;
  for (std::size_t i = 32; i < 1024; ++i) k[i + 1024] = k[i];
  for (std::size_t i = 33; i < 1024; i += 32) k[i] = k[i + 1024] = 127;
  const OpCase c =
      filled({{"d", "1024"}, {"dv", "1"}, {"len", "2"}, {"k", "q8_0"}, {"v", "f32"}, {"scale", "1e-4"}}, q, k,
             {1, -1});
  const double first = 127.0 * 127, others = 31 * 127 * 0x1p-24 * (63 + 127);
  const auto out = [](double a, double b) {
    return Values{static_cast<float>(std::tanh((a - b) * 1e-4 / 2))};
  };
  for (const char* level : {"detap", "ca order=tiles"}) {
    const Truth t =
        c.truth(std::string("qk=int8_dot q=q8_0 exp_ulp=0.5 div_ulp=0.5 scaling=scores level=") + level);
    expect_pass(t, out(first + others, others));
    expect_pass(t, out(first, others));
    expect_caught(t, out(first * 1.01, others));
    // Partial sums of one product each: their f32 sum may round 1,023 times.
    expect_pass(t, out(first * (1 + 900 * 0x1p-24), others));
  }
}

// 13 s - 12 s, each product rounded, in place of (13 - 12) s: finished outputs of two parts.
TEST(AttentionOfStrangers, the_scale_of_v_may_meet_the_outputs_of_parts) {
  OpCase c = equal({{"k", "f32"}, {"v", "e4m3fn_tensor"}}, {13, -12});
  const float scale = 1 + 0x1p-23F;
  for (Plane& plane : c.set.at("v").planes) {
    if (plane.spec.suffix == ".scale") std::memcpy(plane.bytes.data(), &scale, sizeof scale);
    if (plane.spec.suffix.empty())
      plane.bytes = {static_cast<std::byte>(encode(scalar_format("e4m3fn"), 13)),
                     static_cast<std::byte>(encode(scalar_format("e4m3fn"), -12))};
  }
  const Truth t = c.truth(
      "level=emu order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 div_ulp=0.5 tile=1 "
      "split=2");
  expect_pass(t, Values{0.5F * scale});
  expect_pass(t, Values{(13 * scale - 12 * scale) / 2});
  expect_caught(t, Values{0.5F * scale * (1 + 0x1p-17F)});
}

// absmax / 448 by a reciprocal is another f32, and the scale of the logits.
TEST(AttentionOfStrangers, the_scale_of_codes_of_q_is_a_quotient_within_its_ulps) {
  const Values q{8.76225853F, 1.52813792F};
  const OpCase c = filled({{"d", "2"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}, {"kv", "f32"}}, q,
                          {-0.907999992F, 1, 0, 0}, {1, 0});
  const float dot = 448 * -0.907999992F + 80;
  const auto out = [&](float scale) {
    const auto w = static_cast<float>(std::exp(static_cast<double>(dot * scale)));
    return Values{w / (1 + w)};
  };
  const std::string emu =
      "level=emu order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 q=e4m3fn div_ulp=";
  const float nearest = q[0] / 448, by_reciprocal = q[0] * (1.0F / 448);
  ASSERT_NE(nearest, by_reciprocal);
  expect_pass(c.truth(emu + "2"), out(nearest));
  expect_pass(c.truth(emu + "2"), out(by_reciprocal));
  expect_pass(c.truth(emu + "0.5"), out(nearest));
  expect_caught(c.truth(emu + "0.5"), out(by_reciprocal));
  expect_caught(c.truth(emu + "2"), out(nearest * (1 + 0x1p-20F)));
}

// exp2 of a fused difference is 1 - 2^-24, and what is left of it in tf32, cut, 1 - 2^-11.
TEST(AttentionOfStrangers, the_largest_weight_may_be_cut_where_its_exp_is_not_1) {
  const OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}, {"kv", "f32"}}, {1},
                          {0.791117668F}, {1});
  for (const char* level : {"detap", "detord order=tiles", "ca order=tiles"}) {
    const std::string words =
        std::string("p=tf32 exp_ulp=0.5 div_ulp=0.5 tiles=aligned scaling=scores level=") + level;
    expect_pass(c.truth(words), Values{1 - 0x1p-11F});
    expect_caught(c.truth(words), Values{1 - 0x1p-8F});
    expect_caught(c.truth(words + " tf32=nearest_even"), Values{1 - 0x1p-11F});
  }
}

// f32(scale) k.scale q.scale, each product rounded: one f32 beside that of the exact product.
TEST(AttentionOfStrangers, scales_of_a_logit_are_multiplied_exactly_or_in_f32) {
  OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "0.3"}, {"k", "e4m3fn_tensor"}, {"v", "f32"}},
             {448 * 0.7F}, {448, 0}, {1, 0});
  const float scale = 0x1.000006p-13F, of_q = 448 * 0.7F / 448;
  set_scale(c, "k", scale);
  const float exact = static_cast<float>(0.3 * static_cast<double>(scale) * static_cast<double>(of_q)),
              rounded = 0.3F * scale * of_q;
  ASSERT_NE(exact, rounded);
  const auto out = [&](float factor) {
    const auto w = static_cast<float>(std::exp(-static_cast<double>(448.0F * 448.0F * factor)));
    return Values{1 / (1 + w)};
  };
  const std::string emu =
      "level=emu order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 div_ulp=0.5 q=e4m3fn";
  expect_pass(c.truth(emu), out(exact));
  expect_pass(c.truth(emu), out(rounded));
  expect_caught(c.truth(emu), out(exact * 0.99F));
}

// A slope whose product with log2 e is Inf, times a distance of 0.
TEST(AttentionOfStrangers, slopes_that_overflow_in_base_2_claim_nothing) {
  OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}, {"alibi", "yes"}}, {1}, {1}, {1});
  c.put("slopes", {3e38F});
  expect_pass(c.truth("level=ca"), Values{NAN});
  c.put("slopes", {1e38F});
  expect_caught(c.truth("level=ca"), Values{NAN});
}

// 2^8 2e36 2^-8: the sum of codes of a unit meets V's scale before the shift leaves.
TEST(AttentionOfStrangers, the_scale_of_v_may_overflow_before_a_quotient) {
  OpCase c = equal({{"k", "f32"}, {"v", "e4m3fn_tensor"}}, {1});
  const auto scaled = [&](float scale) {
    for (Plane& plane : c.set.at("v").planes) {
      if (plane.spec.suffix == ".scale") std::memcpy(plane.bytes.data(), &scale, sizeof scale);
      if (plane.spec.suffix.empty())
        plane.bytes = {static_cast<std::byte>(encode(scalar_format("e4m3fn"), 1))};
    }
    return c;
  };
  for (const char* level : {"emu", "ca", "detap"}) {
    const std::string words =
        std::string("order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 ") +
        "div_ulp=0.5 p=e4m3fn p_shift=8 pv=blackwell_fp8 level=" + level;
    expect_pass(scaled(2e36F).truth(words), Values{std::numeric_limits<float>::infinity()});
    expect_caught(scaled(1e35F).truth(words), Values{std::numeric_limits<float>::infinity()});
    expect_pass(scaled(1e35F).truth(words), Values{1e35F});
  }
}

// (1 / l) 2^-p_shift v.scale as one factor, below the normal numbers: the epilogue of FlashAttention-3.
TEST(AttentionOfStrangers, three_factors_of_an_epilogue_may_be_joined) {
  const auto of = [](std::int64_t keys, float scale) {
    OpCase c = equal({{"k", "f32"}, {"v", "e4m3fn_tensor"}}, Values(static_cast<std::size_t>(keys), 1));
    for (Plane& plane : c.set.at("v").planes) {
      if (plane.spec.suffix == ".scale") std::memcpy(plane.bytes.data(), &scale, sizeof scale);
      if (plane.spec.suffix.empty()) std::ranges::fill(plane.bytes, std::byte{0x7e});  // 448
    }
    return c;
  };
  struct Row {
    std::int64_t keys;
    const char* p;
    int shift;
    float scale;
    const char* level;
  };
  for (const Row& row : {Row{1000, "e4m3fn", 8, 1.1e-37F, "emu"}, Row{1000, "bf16", 64, 4.4e-23F, "emu"},
                         Row{1, "bf16", 32, 9e-36F, "ca"}, Row{1, "bf16", 64, 4.6e-27F, "ca"}}) {
    const auto l = static_cast<float>(row.keys);
    const float joined = (1 / l) * std::ldexp(1.0F, -row.shift) * row.scale,
                sum = std::ldexp(448.0F * l, row.shift);
    const Truth t =
        of(row.keys, row.scale)
            .truth(fmt::format("order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 "
                               "div_ulp=2 p={} p_shift={} level={}",
                               row.p, row.shift, row.level));
    expect_pass(t, Values{joined * sum});
    expect_pass(t, Values{448 * row.scale});
    expect_caught(t, Values{1000 * 448 * row.scale});
  }
}

// exp2(x log2 e + (64 - m log2 e)), FlashAttention-3's offset of the maximum: all weights, before their cast,
// are off by what the argument was rounded by.
TEST(AttentionOfStrangers, p_shift_may_be_added_to_a_fused_argument) {
  const float k = -0.0509649366F, v = 2.28304172F, log2e = 0x1.715476p+0F;
  const OpCase c =
      filled({{"d", "1"}, {"dv", "1"}, {"len", "1"}, {"scale", "1"}, {"kv", "f32"}}, {1}, {k}, {v});
  const auto w = static_cast<float>(std::exp2(static_cast<double>(std::fma(k, log2e, 64 - k * log2e))));
  ASSERT_NE(w, 0x1p64F);
  const auto p = static_cast<float>(round_to(scalar_format("tf32"), static_cast<double>(w)));
  for (const char* level : {"detap", "detord order=tiles", "ca order=tiles"}) {
    const std::string words = std::string("scaling=scores tiles=aligned sink=last merge=once exp_ulp=0.5 ") +
                              "div_ulp=0.5 p_shift=64 p=tf32 tf32=nearest_even level=" + level;
    expect_pass(c.truth(words), Values{p * v / w});
    expect_caught(c.truth(words), Values{v * (1 + 0x1p-14F)});
    expect_caught(c.truth(words + " argument=rounded"), Values{p * v / w});
  }
}

// h = __float2half(__half2float(h) + w): a sum is rounded to f32, and then to f16. 1 + 2^-11 + 2^-26 is f16's
// next number, of f32's 1 + 2^-11 the even one: 1.
TEST(AttentionOfStrangers, a_narrow_row_sum_may_be_formed_in_f32) {
  const double weight = 0x1p-11 + 0x1p-26;
  const auto logit = static_cast<float>(std::log(weight));
  OpCase c = filled({{"d", "1"}, {"dv", "1"}, {"len", "2"}, {"scale", "1"}}, {1}, {0, logit}, {1, 0});
  const Truth t = c.truth(
      "level=emu order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 div_ulp=0.5 rowsum=f16");
  expect_pass(t, Values{1});
  expect_pass(t, Values{1 / (1 + 0x1p-10F)});
  expect_caught(t, Values{1 / (1 + 0x1p-9F)});
}

// Products of f32 numbers are rounded twice by a kernel that computes in f32, and once by none.
TEST(AttentionOfStrangers, narrow_products_of_wide_operands_are_not_emulated) {
  const std::string emu = "level=emu order=sequential tiles=aligned scaling=scores sink=last qk=";
  const OpCase wide = equal({{"kv", "f16"}}, {1, 2}),
               narrow = equal({{"kv", "f16"}, {"dtype", "f16"}}, {1, 2});
  for (const char* sum : {"f16", "bf16"}) {
    EXPECT_THROW((void)wide.truth(emu + sum), InputError) << sum;
    expect_pass(wide.truth(emu + sum + " q=f16"), Values{1.5F});
    expect_pass(narrow.truth(emu + sum), Values{1.5F});
  }
}

// 1.0f / sqrtf(96) is one step of f32 below f32(1 / sqrt(96)).
TEST(AttentionOfStrangers, the_softmax_scale_may_be_a_quotient_in_f32) {
  Values q(96, 0), k(2 * 96, 0);
  q[0] = 96, k[0] = 1000, k[96] = 999.5F;
  const OpCase c = filled({{"d", "96"}, {"dv", "1"}, {"len", "2"}}, q, k, {1, 0});
  const float stepped = 1 / std::sqrt(96.0F), direct = static_cast<float>(1 / std::sqrt(96.0));
  ASSERT_NE(stepped, direct);
  const std::string words =
      "level=emu order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 div_ulp=0.5";
  for (const float scale : {stepped, direct, direct * (1 + 0x1p-12F)}) {
    const auto w = static_cast<float>(std::exp(static_cast<double>(95952 * scale - 96000 * scale)));
    if (scale == stepped || scale == direct)
      expect_pass(c.truth(words), Values{1 / (1 + w)});
    else
      expect_caught(c.truth(words), Values{1 / (1 + w)});
  }
}

// The scales of q's codes, of K and of the softmax, 1 / sqrt(2), as one f32: f32(1 / sqrt(2)) times both,
// exact and rounded once; and f32(k.scale / sqrt(2)), the host's product of doubles, times q's in the kernel.
TEST(AttentionOfStrangers, three_scales_may_be_multiplied_exactly_and_in_f32) {
  const auto check = [](float largest, float of_k, float scale) {
    OpCase c = filled({{"d", "2"}, {"dv", "1"}, {"len", "2"}, {"k", "int8_tensor"}, {"v", "f32"}},
                      {largest, 0}, {127, 0, 126, 0}, {1, 0});
    set_scale(c, "k", of_k);
    const auto w = static_cast<float>(std::exp(static_cast<double>(448 * 126 * scale - 448 * 127 * scale)));
    const Truth t = c.truth(
        "level=emu order=sequential tiles=aligned scaling=scores sink=last exp_ulp=0.5 div_ulp=0.5 q=e4m3fn");
    expect_pass(t, Values{1 / (1 + w)});
    expect_caught(t, Values{1 / (1 + w) * (1 - 0x1p-16F)});
  };
  const float once = 4.733487129211426F, twice = 2.9266185760498047F, k_once = 0.17614305019378662F,
              k_twice = 0.17830264568328857F;
  check(once, k_once, static_cast<float>(static_cast<double>(0x1.6a09e6p-1F) * (once / 448) * k_once));
  check(twice, k_twice, static_cast<float>(static_cast<double>(k_twice) / std::sqrt(2.0)) * (twice / 448));
}

// 448 exp(0) is the largest number of e4m3fn, and so is what is half a step above.
TEST(AttentionOfStrangers, weights_times_the_largest_number_of_their_format_are_judged) {
  const OpCase c = equal({{"kv", "f16"}}, {1, 2});
  for (const char* level : {"detap", "ca order=tiles"}) {
    const Truth t = c.truth(std::string("p=e4m3fn p_shift=8.807354922057604 level=") + level);
    expect_pass(t, Values{1.5F});
    expect_caught(t, Values{2.5F});
  }
}

}  // namespace
}  // namespace assay::testing
