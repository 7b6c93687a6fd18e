// Each step that a schedule of fused attention has a word for shows in the bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reference/error.hpp"
#include "reference/replay/attention.hpp"
#include "reference/replay/attention_testing.hpp"
#include "reference/replay/exponentials.hpp"

namespace assay {
namespace {

// Softcap, alibi, a sink, a window whose tiles begin with it, hidden keys without a lane, parts of keys
// merged by weights: each has a bit of its own to say. What the kernels of the cpu backend store by these
// steps is held against them in identify_level_test.
TEST(AttentionReplay, each_step_around_the_softmax_shows) {
  const std::int64_t keys = 150, d = 16, rows = 40;
  const auto numbers = [](std::uint64_t seed, std::int64_t count) {
    return drawn(seed, 0, static_cast<std::size_t>(count), 1, "f16");
  };
  const auto q = numbers(1, rows * d), k = numbers(2, keys * d), v = numbers(3, keys * d);
  const AttentionReplay replay({keys, d, d, k, v, "f32"});
  const std::string whole =
      "qk=f32 pv=f32 p=f32 out=f32 tile=16 argument=scaled exp=libm rescale_exp=libm sums=tile sum_fma=no "
      "lanes=4 pack=1 "
      "values=tile values_fma=no cap=libm bias=subtract sink=last origin=1 closed=yes split=3 part=50 "
      "merge=weights";
  const auto out = [&](const std::string& from, const std::string& to) {
    const std::string text = with_word(whole, from, to);
    ReplayQueries queries{rows, q, 0.25, [&](std::int64_t i, std::int64_t j) {
                            return j <= keys - rows + i && j > keys - rows + i - 131 && j % 7 != 3;
                          }};
    queries.softcap = text.find("cap=none") == std::string::npos ? 4 : 0;
    queries.slope = 0.01f, queries.first = keys - rows, queries.sink = 0.5f;
    return replay.run(parse_attention_schedule(text), queries).out;
  };
  const std::vector<float> healthy = out("", "");
  expect_each_shows(out, {{"cap=libm", "cap=none"},
                          {"cap=libm", "cap=cuda_tanhf"},
                          {"bias=subtract", "bias=none"},
                          {"sink=last", "sink=none"},
                          {"origin=1", "origin=0"},
                          {"origin=1", "origin=1 origin_at=tile"},
                          {"closed=yes", "closed=no"},
                          {"part=50", "part=0"},
                          {"part=50", "part=50 cut=40"},
                          {"split=3", "split=2"}});
  // In exact arithmetic how parts are cut and merged is no difference; here each output is a mean of values
  // below 4, by as many roundings in f32 as there are keys, and no more than twenty besides.
  const float limit = 4 * static_cast<float>(keys + 20) * 0x1p-24f;
  const std::vector<float> other = out("split=3 part=50", "split=1 part=0");
  for (std::size_t i = 0; i < healthy.size(); ++i) EXPECT_LE(std::fabs(other[i] - healthy[i]), limit) << i;
  for (const std::string bad : {"cap=libm", "bias=subtract"}) {
    EXPECT_THROW(parse_attention_schedule("argument=fma " + bad), InputError);
  }
  EXPECT_THROW(parse_attention_schedule("split=2 sink=last"), InputError);
}

// Steps of vectors on a CPU: products in pairs, sums with a head and a tail, keys in eights, and keys behind
// the last whole vector.
TEST(AttentionReplay, each_step_of_vectors_shows) {
  const std::int64_t keys = 181, d = 64, rows = 8;
  const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, "bf16"),
             v = drawn(3, 0, static_cast<std::size_t>(keys * d), 1, "bf16"),
             q = drawn(1, 0, static_cast<std::size_t>(rows * d), 1, "bf16");
  const AttentionReplay replay({keys, d, d, k, v, "f32"});
  const std::string whole =
      "qk=f32 pv=f32 p=f32 out=f32 tile=128 argument=scaled exp=degree3 rescale_exp=libm sums=tile lanes=32 "
      "pack=1 tail=nearest tail_width=16 dot_lanes=16 dot_head=1 dot_tail=refold dot_step=pair "
      "value_step=eight promote=64";
  const auto out = [&](const std::string& from, const std::string& to) {
    return replay.run(parse_attention_schedule(with_word(whole, from, to)), {rows, q, 0.25, {}}).out;
  };
  expect_each_shows(out, {{"exp=degree3", "exp=degree5"},
                          {"tail=nearest", "tail=after"},
                          {"tail=nearest tail_width=16", "tail=lanes"},
                          {"tail_width=16", "tail_width=32"},
                          {"dot_head=1", "dot_head=0"},
                          {"dot_tail=refold", "dot_tail=lanes"},
                          {"dot_step=pair", "dot_step=one"},
                          {"value_step=eight", "value_step=pair"},
                          {"value_step=eight", "value_step=one"},
                          {"promote=64", "promote=128"}});
  for (const char* bad : {"qk=hopper_f16 dot_step=pair", "qk=hopper_f16 dot_head=1", "pv=f16 value_step=pair",
                          "sums=thread tail=after", "sums=tile warps=2 tail=after", "tail_width=16",
                          "pv=f32 p=f32 tile=64 promote=48"})
    EXPECT_THROW(parse_attention_schedule(bad), InputError) << bad;
}

// own=: of a row whose keys are all of its own block the argument is that of own=, of keys in front of the
// block the schedule's.
TEST(AttentionReplay, tiles_of_a_rows_own_block_have_an_argument_of_their_own) {
  const std::int64_t keys = 96, d = 64, block = 32;
  const auto numbers = [](std::uint64_t seed) {
    return drawn(seed, 0, static_cast<std::size_t>(keys * d), 1, "f16");
  };
  const auto q = numbers(1), k = numbers(2), v = numbers(3);
  const AttentionReplay replay({keys, d, d, k, v, "f32"});
  const auto out = [&](const std::string& words, bool own_keys) {
    const auto sees = [&](std::int64_t i, std::int64_t j) {
      return j <= i && (own_keys || j < i / block * block);
    };
    return replay
        .run(parse_attention_schedule(
                 "qk=f32 pv=f32 p=f32 out=f32 tile=16 exp=ex2 sums=tile lanes=1 pack=1 " + words),
             {keys, q, 0.3, sees})
        .out;
  };
  const auto same = [&](const std::vector<float>& a, const std::vector<float>& b, std::int64_t from,
                        std::int64_t to) {
    return std::equal(a.begin() + from * d, a.begin() + to * d, b.begin() + from * d);
  };
  for (const char* own : {"scaled", "scaled_twice"}) {
    const std::string words = std::string("argument=fma_max own_rows=32 own=") + own;
    const std::vector<float> mixed = out(words, true), all_own = out(std::string("argument=") + own, true),
                             none = out("argument=fma_max", true);
    EXPECT_TRUE(same(mixed, all_own, 0, block)) << own;
    EXPECT_FALSE(same(mixed, none, 0, block)) << own;
    EXPECT_FALSE(same(mixed, all_own, block, keys)) << own;
    EXPECT_FALSE(same(mixed, none, block, keys)) << own;
    EXPECT_FALSE(same(mixed, out("argument=fma_max own_rows=16 own=" + std::string(own), true), block, keys))
        << own;
    EXPECT_TRUE(same(out(words, false), out("argument=fma_max", false), block, keys)) << own;
  }
  for (const char* bad : {"argument=mul_sub own=scaled", "argument=fma_max own_rows=32",
                          "argument=fma_max slack=8 own=scaled", "argument=fma_max own=fma"})
    EXPECT_THROW(parse_attention_schedule(bad), InputError) << bad;
}

// Four weights of 1: the small values meet before 1 takes their bits where the second of a pair comes first.
TEST(AttentionReplay, of_a_pair_the_second_key_is_added_first) {
  const std::vector<float> k(4, 0.0F), q(1, 0.0F), v = {0x1p-24F, 0, 1, 0x1p-24F};
  const AttentionReplay replay({4, 1, 1, k, v, "f32"});
  const auto mean = [&](const std::string& step) {
    const AttentionSchedule s = parse_attention_schedule(
        "qk=f32 pv=f32 p=f32 out=f32 argument=scaled exp=libm sums=tile lanes=1 pack=1 value_step=" + step);
    return replay.run(s, {1, q, 1, {}}).out[0];
  };
  EXPECT_EQ(mean("one"), 0.25F);
  EXPECT_EQ(mean("pair"), 0.25F * (1 + 0x1p-23F));
}

// The steps of a kernel whose exponential is a series in f64, of which a group's heads share tiles: each has
// a bit of its own to say. What a driver stores by them: gpu/vulkan_replay.
TEST(AttentionReplay, each_step_of_kernels_with_a_series_shows) {
  const std::int64_t keys = 150, d = 32, rows = 40;
  const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             v = drawn(3, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             q = drawn(1, 0, static_cast<std::size_t>(rows * d), 1, "f16");
  const AttentionReplay replay({keys, d, d, k, v, "f32"});
  const std::string whole =
      "qk=f32 pv=f32 p=f32 out=f32 tile=8 argument=scaled exp=series9 sums=tile sum_fma=no lanes=8 pack=1 "
      "fold=sequential quotient=division fma=no cap=series9 sink=own origin=8 origin_rows=group split=3 "
      "part=50 "
      "merge=weights";
  const auto out = [&](const std::string& from, const std::string& to) {
    const std::string text = with_word(whole, from, to);
    ReplayQueries queries{rows, q, 0.25, [&](std::int64_t i, std::int64_t j) {
                            return j <= keys - rows + i && j > keys - rows + i - 77;
                          }};
    queries.softcap = text.find("cap=none") == std::string::npos ? 4 : 0;
    queries.first = keys - rows, queries.sink = 0.5f, queries.head = 1, queries.group = 3;
    return replay.run(parse_attention_schedule(text), queries).out;
  };
  EXPECT_EQ(print_schedule(parse_attention_schedule(print_schedule(parse_attention_schedule(whole)))),
            print_schedule(parse_attention_schedule(whole)));
  expect_each_shows(out, {{"qk=f32", "qk=f16"},
                          {"exp=series9", "exp=taylor7"},
                          {"cap=series9", "cap=none"},
                          {"sink=own", "sink=none"},
                          {"fold=sequential", "fold=reverse"},
                          {"origin_rows=group", "origin_rows=head"},
                          {"merge=weights", "merge=lanes"}});
  // q in blocks of 8 bits, of which each joins the logit by one rounding.
  const std::vector<float> blocks = out("qk=f32", "q=q8_0 dot_block=32 qk=f32");
  EXPECT_NE(out("qk=f32", "q=q8_0 qk=f32"), blocks);
  EXPECT_NE(out("qk=f32", "q=q8_0 dot_block=16 qk=f32"), blocks);
  EXPECT_NE(out("qk=f32", "dot_block=32 qk=f32"), blocks);
  EXPECT_THROW(parse_attention_schedule("qk=f32 dot_block=32 dot_lanes=2"), InputError);
  EXPECT_THROW(parse_attention_schedule("dot_block=32"), InputError);
  EXPECT_THROW(parse_attention_schedule("exp=exp2f argument=scaled sink=own"), InputError);
  EXPECT_THROW(parse_attention_schedule("argument=fma cap=series9"), InputError);
}

// Heads of a group that move their maxima together, tiles dealt to warps, columns in another order: each has
// a bit of its own to say. What a device stores by these steps: gpu/replay.
TEST(AttentionReplay, each_step_of_heads_that_move_together_shows) {
  const std::int64_t keys = 700, d = 64, heads = 6;
  const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             v = drawn(3, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             q = drawn(1, 0, static_cast<std::size_t>(heads * d), 4, "f16");
  const std::vector<float> slopes = {0.01f, 0.02f, 0.03f, 0.04f, 0.05f, 0.06f},
                           sinks = {20, 21, 22, 23, 24, 25};
  const AttentionReplay replay({keys, d, d, k, v, "f16"});
  const std::string whole =
      "qk=hopper_f16 pv=hopper_f16 p=f16 out=f32 tile=32 argument=fma_max constant=float exp=ex2 sums=thread "
      "sum_fma=no lanes=8 pack=1 fold=adjacent edge=scaled merge_exp=exp2f slack=8 slack_rows=8 deal=4 "
      "dot_run=8 quotient=division split=3 part=256 merge=lanes merge_lanes=512 merge_fold=16.8.4.2.1.32*16 "
      "merge_groups=16 sink=exp2f";
  const auto out = [&](const std::string& from, const std::string& to, std::int64_t window = 650) {
    const std::string text = with_word(whole, from, to);
    ReplayQueries queries{heads, q, 0.25, [=](std::int64_t, std::int64_t j) { return j >= keys - window; }};
    queries.first = keys - 1, queries.heads = true, queries.slopes = slopes, queries.sinks = sinks;
    return replay.run(parse_attention_schedule(text), queries).out;
  };
  const std::vector<float> healthy = out("", "");
  const std::string canonical = print_schedule(parse_attention_schedule(whole));
  EXPECT_EQ(print_schedule(parse_attention_schedule(canonical)), canonical);
  expect_each_shows(out, {{"slack=8", "slack=1"},
                          {"slack_rows=8", "slack_rows=2"},
                          {"edge=scaled", "edge=same"},
                          {"deal=4", "deal=2"},
                          {"deal=4", "deal=1"},
                          {"dot_run=8", "dot_run=4"},
                          {"fma_max", "scaled"},
                          {"sink=exp2f", "sink=none"}});
  // The two exponentials differ where one flushes: parts that are 2^-130 of the others, whose values are 0.
  const std::size_t low = 256 * static_cast<std::size_t>(d);
  std::vector<float> k_low(k.size(), 5.625f), v_low(v.size(), 0), ones(q.size(), 1);
  std::fill_n(k_low.begin(), low, 0.0f), std::fill_n(v_low.begin(), low, 1024.0f);
  const AttentionReplay flushed({keys, d, d, k_low, v_low, "f16"});
  ReplayQueries all{heads, ones, 0.25};
  all.heads = true, all.slopes = slopes, all.sinks = sinks;
  std::string flushing = whole;
  flushing.erase(flushing.find("merge_exp=exp2f "), 16);
  EXPECT_GT(flushed.run(parse_attention_schedule(whole), all).out.front(), 0);
  EXPECT_EQ(flushed.run(parse_attention_schedule(flushing), all).out.front(), 0);
  // A head whose maximum moves alone has other bits than among those that move with it.
  EXPECT_NE(out("slack_rows=8", "slack_rows=1"), healthy);
  EXPECT_THROW(parse_attention_schedule("slack=8 argument=fma"), InputError);
  EXPECT_THROW(parse_attention_schedule("edge=scaled"), InputError);
  EXPECT_THROW(parse_attention_schedule("dot_run=6"), InputError);
  EXPECT_THROW(parse_attention_schedule("qk=f32 dot_run=8"), InputError);
}

// A scale of K joins that of S before anything else, one of V comes last: each one rounding more than
// without.
TEST(AttentionReplay, scales_beside_the_codes_are_one_rounding_each) {
  const std::int64_t keys = 90, d = 32, rows = 8;
  const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, "e4m3fn"),
             v = drawn(3, 0, static_cast<std::size_t>(keys * d), 1, "e4m3fn"),
             q = drawn(1, 0, static_cast<std::size_t>(rows * d), 1, "f16");
  const AttentionReplay replay({keys, d, d, k, v, "f16"});
  const std::string whole =
      "qk=hopper_f16 pv=hopper_f16 p=f16 out=f32 tile=16 argument=scaled constant=float exp=ex2 "
      "quotient=division kv_scale=";
  constexpr float kScale = 0.3f, kOfK = 1.1f, kOfV = 0.7f;
  const auto out = [&](const std::string& word, float scale, float k_scale, float v_scale) {
    ReplayQueries queries{rows, q, static_cast<double>(scale), {}};
    queries.k_scale = k_scale, queries.v_scale = v_scale;
    return replay.run(parse_attention_schedule(whole + word), queries).out;
  };
  const std::vector<float> scaled = out("head", kScale, kOfK, kOfV);
  std::vector<float> after = out("value", kScale * kOfK, 1, 1);
  for (float& y : after) y *= kOfV;
  EXPECT_EQ(scaled, after);
  EXPECT_NE(scaled, out("value", kScale, kOfK, kOfV));
  EXPECT_THROW(parse_attention_schedule(whole + "head split=2"), InputError);
}

// A row of which V is stored rotated is transformed back by stages, of which the first are of neighbours or
// of halves.
TEST(AttentionReplay, a_row_is_transformed_back_stage_by_stage) {
  const std::int64_t keys = 20, d = 64, rows = 8;
  const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             v = drawn(3, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             q = drawn(1, 0, static_cast<std::size_t>(rows * d), 1, "f16");
  const AttentionReplay replay({keys, d, d, k, v, "f32"});
  const auto out = [&](const std::string& word) {
    return replay
        .run(parse_attention_schedule("qk=f32 pv=f32 p=f32 out=f32 unrotate=" + word), {rows, q, 0.2})
        .out;
  };
  // Signs of tq3, and H by the parity of the two indices' common bits.
  constexpr std::uint32_t kSigns = 0xB1A6D4B2U;
  const std::vector<float> stored = out("none"), ascending = out("ascending");
  for (std::size_t at = 0; at < stored.size(); ++at) {
    double sum = 0, size = 0;
    for (std::size_t j = 0; j < 32; ++j) {
      const auto x = static_cast<double>(stored[at / 32 * 32 + j]);
      sum += std::popcount(at % 32 & j) % 2 == 0 ? x : -x, size += std::fabs(x);
    }
    const double want = ((kSigns >> at % 32 & 1U) != 0 ? -sum : sum) / std::sqrt(32.0);
    // Five stages, the factor and its product round.
    EXPECT_LE(std::fabs(static_cast<double>(ascending[at]) - want), 7 * size * 0x1p-24) << at;
  }
  EXPECT_NE(out("descending"), ascending);
}

// The series is within 2^-33 of e^x: its rounding is the nearest f32 or, next to the middle of two, the
// other.
TEST(AttentionReplay, the_series_is_the_exponential_but_for_its_last_rounding) {
  const RowExp series = row_exp("series9"), nearest = row_exp("nearest");
  for (float x = -80; x < 0; x += 0x1.3p-10f) {
    const float a = series(x), b = nearest(x);
    EXPECT_LE(std::fabs(a - b), b * 0x1p-23f) << x;
  }
  EXPECT_EQ(series(0), 1);
  EXPECT_EQ(series(-105), 0);
  EXPECT_TRUE(std::isinf(series(90)));
  EXPECT_TRUE(std::isnan(series(std::nanf(""))));
  EXPECT_EQ(series9_tanh(21), 1);
  EXPECT_EQ(series9_tanh(-0x1p-14f), -0x1p-14f);
  EXPECT_EQ(series9_tanh(-0.5f), -series9_tanh(0.5f));
}

}  // namespace
}  // namespace assay
