// Keys that are left behind whole groups have sums of their own, and each of their words shows in the bits.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "reference/error.hpp"
#include "reference/replay/attention.hpp"
#include "reference/replay/attention_testing.hpp"

namespace assay {
namespace {

// Of keys that are served in fours, those that are left have sums of their own: by such a kernel's logits,
// and each word.
TEST(AttentionReplay, keys_left_behind_fours_have_sums_of_their_own) {
  const std::int64_t keys = 23, d = 28, rows = 30;
  const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             v = drawn(3, 0, static_cast<std::size_t>(keys * d), 1, "f16"),
             q = drawn(1, 0, static_cast<std::size_t>(rows * d), 1, "f16");
  const AttentionReplay replay({keys, d, d, k, v, "f32"});
  const std::string whole =
      "qk=f32 pv=f32 p=f32 out=f32 tile=8 argument=scaled exp=libm closed=yes dot_lanes=4 dot_rows=4 "
      "left_lanes=16 left_vector=4 left_head=2 left_second=8";
  // Tiles of 8, of which row i does not see key 2 + i mod 3 of the second.
  const auto visible = [](std::int64_t i, std::int64_t j) { return j != 10 + i % 3; };
  const auto out = [&](const std::string& from, const std::string& to) {
    return replay.run(parse_attention_schedule(with_word(whole, from, to)), {rows, q, 0.25, visible}).out;
  };
  expect_each_shows(out, {{"dot_rows=4", "dot_rows=2"},
                          {"left_lanes=16", "left_lanes=4"},
                          {"left_vector=4", "left_vector=0"},
                          {"left_vector=4", "left_folded=8"},
                          {"left_vector=4", "left_folded=4"},
                          {"left_head=2", "left_head=0"},
                          {"left_head=2", "left_head=1"},
                          {"left_second=8", "left_second=0"},
                          {"left_second=8", "left_second=4"},
                          {"tile=8", "tile=16"}});
  // Where a run is four keys none is left.
  const auto alike = parse_attention_schedule(
      with_word(whole, "dot_rows=4 left_lanes=16 left_vector=4 left_head=2 left_second=8", ""));
  const auto seeing = [&](std::int64_t end) {
    return ReplayQueries{rows, q, 0.25, [=](std::int64_t, std::int64_t j) { return j >= 16 && j < end; }};
  };
  EXPECT_EQ(replay.run(parse_attention_schedule(whole), seeing(20)).out, replay.run(alike, seeing(20)).out);
  EXPECT_NE(replay.run(parse_attention_schedule(whole), seeing(23)).out, replay.run(alike, seeing(23)).out);
  // Where one is left there is no second.
  const auto no_second = parse_attention_schedule(with_word(whole, "left_second=8", ""));
  for (const std::int64_t end : {21, 22})
    EXPECT_EQ(replay.run(parse_attention_schedule(whole), seeing(end)).out ==
                  replay.run(no_second, seeing(end)).out,
              end == 21);
  EXPECT_THROW(parse_attention_schedule("dot_rows=4 qk=hopper_f16"), InputError);
  for (const std::string bad :
       {"left_lanes=8", "left_head=1", "left_second=4", "left_folded=1",
        "dot_rows=4 left_lanes=8 left_vector=3", "dot_rows=4 left_lanes=8 left_vector=4 left_second=2",
        "dot_rows=4 left_lanes=8 left_second=8", "dot_rows=4 left_lanes=8 left_folded=8",
        "dot_rows=4 left_lanes=8 left_folded=3", "dot_rows=4 left_lanes=8 left_folded=4 left_vector=4",
        "dot_rows=4 left_lanes=8 left_folded=4 left_second=2",
        "dot_rows=4 left_lanes=8 left_fold=1.4.2 left_second=2",
        "dot_rows=4 left_lanes=8 left_fold=sequential left_folded=4"})
    EXPECT_THROW(parse_attention_schedule("qk=f32 pv=f32 p=f32 " + bad), InputError) << bad;
}

}  // namespace
}  // namespace assay
