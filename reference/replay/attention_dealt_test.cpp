// Tiles that are dealt to the warps of a block and merged online, and parts merged by logarithms to base two,
// against such kernels written out; and keys in front of all tiles.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/error.hpp"
#include "reference/replay/attention.hpp"
#include "reference/replay/attention_testing.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay {
namespace {

constexpr std::int64_t kKeys = 150, kD = 32, kTile = 4, kWarps = 5, kLanes = 4;

struct State {
  float m = -std::numeric_limits<float>::infinity(), l = 0;
  std::vector<float> o = std::vector<float>(kD, 0.0f);
};

// A lane has kD / kLanes neighbouring columns; lanes are added by halves.
float dot(const float* q, const float* k) {
  float lanes[kLanes] = {};
  for (std::int64_t lane = 0; lane < kLanes; ++lane)
    for (std::int64_t c = 0; c < kD / kLanes; ++c) {
      const std::int64_t at = lane * (kD / kLanes) + c;
      lanes[lane] = std::fma(q[at], k[at], lanes[lane]);
    }
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

// s is merged into all; what nvcc fuses is fused.
void merge(State& all, const State& s) {
  const float m = std::max(all.m, s.m), f = ex2_approx_ftz(all.m - m), g = ex2_approx_ftz(s.m - m),
              l = s.l * g;
  all.l = std::fma(all.l, f, l), all.m = m;
  for (std::size_t e = 0; e < kD; ++e) {
    const float product = s.o[e] * g;
    all.o[e] = std::fma(all.o[e], f, product);
  }
}
void divide(State& s) {
  for (float& o : s.o) o *= rcp_approx_ftz(s.l);
}

// Keys [begin, end) of one row by kWarps warps, of which each takes every kWarps-th tile.
State part_of(const float* q, const std::vector<float>& k, const std::vector<float>& v, float scale,
              std::int64_t begin, std::int64_t end) {
  const float c = scale * 1.44269504088896340736f;
  std::vector<State> warps(kWarps);
  for (std::int64_t first = begin; first < end; first += kTile) {
    State& s = warps[static_cast<std::size_t>((first - begin) / kTile % kWarps)];
    const std::int64_t n = std::min(kTile, end - first);
    float x[kTile], m = s.m;
    for (std::int64_t j = 0; j < n; ++j)
      x[j] = dot(q, &k[static_cast<std::size_t>((first + j) * kD)]) * c, m = std::max(m, x[j]);
    const float a = ex2_approx_ftz(s.m - m);
    s.m = m;
    for (std::int64_t j = 0; j < n; ++j) {
      x[j] = ex2_approx_ftz(x[j] - m);
      s.l = j == 0 ? std::fma(s.l, a, x[j]) : s.l + x[j];
    }
    for (std::int64_t e = 0; e < kD; ++e) {
      float& o = s.o[static_cast<std::size_t>(e)];
      const float product = x[0] * v[static_cast<std::size_t>(first * kD + e)];
      o = std::fma(o, a, product);
      for (std::int64_t j = 1; j < n; ++j)
        o = std::fma(x[j], v[static_cast<std::size_t>((first + j) * kD + e)], o);
    }
  }
  State all;
  all.l = 1;
  for (const State& s : warps) merge(all, s);
  divide(all);
  return all;
}

TEST(AttentionReplay, tiles_dealt_to_warps_and_merged_online) {
  constexpr std::int64_t kRows = 60;
  const auto q = drawn(1, 0, kRows * kD, 1, "f16"), k = drawn(2, 0, kKeys * kD, 1, "f16"),
             v = drawn(3, 0, kKeys * kD, 1, "f16");
  std::vector<float> want;
  for (std::int64_t i = 0; i < kRows; ++i)
    for (const float y : part_of(&q[static_cast<std::size_t>(i * kD)], k, v, 0.375f, 0, kKeys).o)
      want.push_back(y);
  const AttentionReplay replay({kKeys, kD, kD, k, v, "f32"});
  const auto out = [&](const std::string& from, const std::string& to) {
    const std::string whole =
        "qk=f32 pv=f32 p=f32 out=f32 tile=4 argument=scaled constant=float exp=ex2 sums=thread sum_fma=yes "
        "lanes=1 pack=1 "
        "values=carried quotient=approx deal=5 deal_merge=online dot_lanes=4 dot_pack=8";
    return replay.run(parse_attention_schedule(with_word(whole, from, to)), {kRows, q, 0.375, {}}).out;
  };
  EXPECT_EQ(out("", ""), want);
  const std::vector<std::pair<std::string, std::string>> others = {{"carried", "chained"},
                                                                   {"deal_merge=online", "deal_merge=whole"},
                                                                   {"deal=5", "deal=4"},
                                                                   {"tile=4", "tile=8"},
                                                                   {"dot_pack=8", "dot_pack=1"},
                                                                   {"sum_fma=yes", "sum_fma=no"},
                                                                   {"quotient=approx", "quotient=division"}};
  expect_each_shows(out, others);
}

// Parts of kPart keys, each stored in f16 with m + lg2 l, taken by kGroups groups in turn, which store what
// they have likewise and are merged first to last. whole: groups keep f32, in a kernel that is wrong.
constexpr std::int64_t kPart = 20;
std::vector<float> row_in_parts(const float* q, const std::vector<float>& k, const std::vector<float>& v,
                                float scale, std::size_t groups, bool whole) {
  const ScalarFormat& f16 = scalar_format("f16");
  const auto store = [&](State& s, bool in_f32 = false) {
    for (float& o : s.o)
      if (!in_f32) o = static_cast<float>(round_to(f16, static_cast<double>(o)));
    s.m += *lg2_approx_ftz(s.l), s.l = 1;
  };
  std::vector<State> taken(groups);
  for (std::int64_t begin = 0; begin < kKeys; begin += kPart) {
    State s = part_of(q, k, v, scale, begin, std::min(kKeys, begin + kPart));
    store(s);
    merge(taken[static_cast<std::size_t>(begin / kPart) % groups], s);
  }
  State all;
  for (State& s : taken) {
    divide(s);
    store(s, whole);
    merge(all, s);
  }
  divide(all);
  for (float& o : all.o) o = static_cast<float>(round_to(f16, static_cast<double>(o)));
  return all.o;
}

TEST(AttentionReplay, parts_merged_by_logarithms_to_base_two) {
  constexpr std::int64_t kRows = 60;
  const auto q = drawn(1, 0, kRows * kD, 1, "f16"), k = drawn(2, 0, kKeys * kD, 1, "f16"),
             v = drawn(3, 0, kKeys * kD, 1, "f16");
  const auto kernel = [&](std::size_t groups, bool whole) {
    std::vector<float> rows;
    for (std::int64_t i = 0; i < kRows; ++i)
      for (const float y : row_in_parts(&q[static_cast<std::size_t>(i * kD)], k, v, 0.375f, groups, whole))
        rows.push_back(y);
    return rows;
  };
  const AttentionReplay replay({kKeys, kD, kD, k, v, "f32"});
  const auto out = [&](const std::string& from, const std::string& to) {
    const std::string whole =
        "qk=f32 pv=f32 p=f32 out=f16 tile=4 argument=scaled constant=float exp=ex2 sums=thread sum_fma=yes "
        "lanes=1 pack=1 values=carried quotient=approx deal=5 deal_merge=online dot_lanes=4 dot_pack=8 "
        "part=20 split=8 merge=log2 merge_groups=3";
    const ReplayedRows rows =
        replay.run(parse_attention_schedule(with_word(whole, from, to)), {kRows, q, 0.375, {}});
    for (const std::uint8_t known : rows.known) EXPECT_EQ(known, 1);
    return rows.out;
  };
  const std::vector<float> want = kernel(3, false);
  EXPECT_EQ(out("", ""), want);
  EXPECT_EQ(out("merge_groups=3", "merge_groups=16"), kernel(8, false)) << "a part to each group";
  EXPECT_NE(kernel(3, true), want);
  const std::vector<std::pair<std::string, std::string>> others = {{"merge=log2", "merge=weights"},
                                                                   {"merge=log2", "merge=lanes"},
                                                                   {"merge_groups=3", "merge_groups=4"},
                                                                   {"merge_groups=3", "merge_groups=1"},
                                                                   {"part=20", "part=24"}};
  expect_each_shows(out, others);
  for (const std::string bad :
       {"exp=expf", "argument=fma", "p_shift=2", "argument=scaled split=2 sink=exp2f"})
    EXPECT_THROW(parse_attention_schedule("merge=log2 " + bad), InputError);
  EXPECT_NO_THROW(parse_attention_schedule("merge=log2 argument=scaled split=2"));
}

// A window hides the first keys, whose logits have more bits than the unit's operands: it is as if there were
// none of them.
TEST(AttentionReplay, keys_in_front_of_the_first_tile_are_no_operands) {
  constexpr std::int64_t kRows = 4, kHidden = 70;
  const auto q = drawn(1, 0, kRows * kD, 1, "f16"), k = drawn(2, 0, kKeys * kD, 1, "f16"),
             v = drawn(3, 0, kKeys * kD, 1, "f16");
  const auto out = [&](std::int64_t hidden, std::int64_t left_out, const std::string& more = "origin=4") {
    const std::ptrdiff_t from = left_out * kD;
    const AttentionReplay replay(
        {kKeys - left_out, kD, kD, {k.begin() + from, k.end()}, {v.begin() + from, v.end()}, "f16"});
    ReplayQueries queries{kRows, q, 0.3,
                          [=](std::int64_t i, std::int64_t j) { return j >= hidden - left_out + i; }};
    queries.slope = 0.37f, queries.first = kKeys - kRows - left_out;
    return replay
        .run(parse_attention_schedule(
                 "qk=hopper_f16 pv=hopper_f16 p=f16 out=f32 tile=16 argument=scaled exp=series9 "
                 "bias=subtract " +
                 more),
             queries)
        .out;
  };
  EXPECT_EQ(out(kHidden, 0), out(kHidden, kHidden));
  EXPECT_NE(out(kHidden, 0), out(kHidden + 1, 0));
  // Two tiles between promotions, counted from the tile of the first key that is seen, the fifth.
  const std::string counted = "promote=32 origin=4 origin_at=tile";
  constexpr std::int64_t kWhole = kHidden / 16 * 16;
  static_assert(kWhole % 32 == 0);
  EXPECT_EQ(out(kHidden, 0, counted), out(kHidden, kWhole, counted));
  EXPECT_EQ(out(kHidden + 16, 0, counted), out(kHidden + 16, kWhole + 16, counted));
  EXPECT_NE(out(kHidden + 16, 0, "promote=32"), out(kHidden + 16, 0, counted));
}

}  // namespace
}  // namespace assay
