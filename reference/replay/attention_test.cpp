// Fused attention replayed: rows that an H200 gave, bit for bit; a schedule that differs in one field does
// not pass for another; special functions as the device has them.
#include "reference/replay/attention.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "reference/error.hpp"
#include "reference/replay/attention_testing.hpp"
#include "reference/replay/special_functions.hpp"

namespace assay {
namespace {

struct GoldenRow {
  std::string format, kernel;
  std::int64_t d = 0, rows = 0, keys = 0, heads = 0, kv_heads = 0, left = 0, right = 0, head = 0, row = 0;
  bool causal = false;
  float k_scale = 1;
  std::uint64_t seed = 0;
  AttentionSchedule schedule;
  std::vector<float> out;

  bool sees(std::int64_t key) const {
    const std::int64_t position = row + keys - rows;
    return causal ? key <= position : left < 0 || (key >= position - left && key <= position + right);
  }
  std::vector<float> replayed(const AttentionSchedule& how) const {
    const auto size = static_cast<std::size_t>(keys * d), width = static_cast<std::size_t>(d);
    const auto kv_head = static_cast<std::size_t>(head / (heads / kv_heads));
    const auto q = drawn(seed * 3, static_cast<std::size_t>(head * rows + row) * width, width, 1, format);
    const auto k = drawn(seed * 3 + 1, kv_head * size, size, k_scale, format);
    const auto v = drawn(seed * 3 + 2, kv_head * size, size, 1, format);
    const AttentionReplay replay({keys, d, d, k, v, format});
    return replay
        .run(how, {1, q, std::pow(static_cast<double>(d), -0.5),
                   [&](std::int64_t, std::int64_t j) { return sees(j); }})
        .out;
  }
};

std::vector<GoldenRow> golden_rows() {
  std::ifstream file(ASSAY_GOLDEN_REPLAY "/attention.csv");
  std::vector<GoldenRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream in(line);
    const auto next = [&] {
      std::string field;
      std::getline(in, field, ',');
      return field;
    };
    GoldenRow r;
    r.format = next(), r.d = std::stoll(next()), r.rows = std::stoll(next()), r.keys = std::stoll(next());
    r.heads = std::stoll(next()), r.kv_heads = std::stoll(next()), r.causal = next() == "1";
    r.left = std::stoll(next()), r.right = std::stoll(next()), r.k_scale = std::stof(next()),
    r.seed = std::stoull(next());
    r.head = std::stoll(next()), r.row = std::stoll(next()), r.kernel = next();
    r.schedule = parse_attention_schedule(next());
    std::istringstream codes(next());
    for (std::string code; codes >> code;)
      r.out.push_back(static_cast<float>(
          decode(scalar_format(r.format), static_cast<std::uint32_t>(std::stoul(code, nullptr, 16)))));
    rows.push_back(std::move(r));
  }
  return rows;
}

TEST(AttentionReplay, rows_of_an_h200_are_replayed_with_no_bit_different) {
  const std::vector<GoldenRow> rows = golden_rows();
  ASSERT_GE(rows.size(), 11U);
  for (const GoldenRow& r : rows) {
    ASSERT_EQ(r.out.size(), static_cast<std::size_t>(r.d));
    EXPECT_EQ(r.replayed(r.schedule), r.out)
        << r.kernel << " " << r.format << " d=" << r.d << " keys=" << r.keys;
  }
}

// Sinks in base two, alibi in front of log2 e, parts merged in lanes, q rounded or scaled to 8 bits, weights
// shifted and promoted, o kept in f16: each has a bit of its own to say. What devices store by these steps:
// reference/golden/replay, reports/results/replay.md.
TEST(AttentionReplay, each_step_of_kernels_on_gpus_shows) {
  const std::int64_t keys = 300, d = 32, rows = 40;
  const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, "e4m3fn"),
             v = drawn(3, 0, static_cast<std::size_t>(keys * d), 1, "e4m3fn");
  const auto q = drawn(1, 0, static_cast<std::size_t>(rows * d), 1, "f32");
  const AttentionReplay replay({keys, d, d, k, v, "e4m3fn"});
  const auto out = [&](const std::string& text) {
    ReplayQueries queries{rows, q, 0.25, {}};
    queries.slope = 0.01f, queries.first = keys - rows, queries.sink = 0.5f;
    return replay.run(parse_attention_schedule(text), queries).out;
  };
  const auto shows = [&](const std::string& whole,
                         const std::vector<std::pair<std::string, std::string>>& words) {
    const auto with = [&](const std::string& from, const std::string& to) {
      return out(with_word(whole, from, to));
    };
    expect_each_shows(with, words);
  };
  shows(
      "qk=f32 pv=f32 p=f32 out=f32 tile=16 argument=scaled constant=float exp=exp2f sums=tile sum_fma=no "
      "lanes=32 pack=1 "
      "quotient=division bias=subtract sink=exp2f split=6 part=48 merge=lanes merge_lanes=4 merge_fold=1*4 "
      "merge_groups=3 "
      "q=f16",
      {{"sink=exp2f", "sink=last"},
       {"sink=exp2f", "sink=none"},
       {"bias=subtract", "bias=none"},
       {"merge=lanes", "merge=weights"},
       {"merge_lanes=4 merge_fold=1*4", "merge_lanes=1"},
       {"merge_fold=1*4", "merge_fold=2.1"},
       {"merge_groups=3", "merge_groups=1"},
       {"q=f16", "q=none"},
       {"q=f16", "q=bf16"},
       {"quotient=division", "quotient=approx"},
       {"quotient=division", "quotient=reciprocal"},
       {"pv=f32", "pv=f16"}});
  shows(
      "qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn out=f32 tile=64 argument=scaled constant=float exp=ex2 "
      "sum_fma=no "
      "fold=adjacent quotient=division q=e4m3fn p_shift=8 promote=128",
      {{"promote=128", "promote=32"},
       {"promote=128", "promote=64"},
       {"promote=128", "promote=0"},
       {"promote=128", "promote=4096"},
       {"p_shift=8", "p_shift=0"}});
  shows(
      "qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn out=f32 tile=128 argument=scaled_fma_max constant=float exp=ex2 "
      "sums=lane sum_fma=yes lanes=4 fold=adjacent quotient=approx q=e4m3fn",
      {{"sums=lane", "sums=tile"},
       {"sums=lane", "sums=thread"},
       {"sum_fma=yes", "sum_fma=no"},
       {"fold=adjacent", "fold=halving"},
       {"lanes=4", "lanes=2"},
       {"argument=scaled_fma_max", "argument=scaled_fma"},
       {"argument=scaled_fma_max", "argument=scaled_twice"}});
  for (const char* bad :
       {"qk=f32 pv=f32 p=f32 q=e4m3fn", "q=f16", "promote=40", "promote=96", "qk=f32 pv=f16 p=f32 promote=64",
        "split=2 sink=exp2f", "qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn q=e4m3fn split=2", "merge_fold=3",
        "p_shift=17"})
    EXPECT_THROW(parse_attention_schedule(bad), InputError) << bad;
  // Twice q has the same codes and twice the divisor: whatever the argument, that is twice the scale. A shift
  // of weights in f32 changes no bit, however parts are merged.
  std::vector<float> twice = q;
  for (float& x : twice) x *= 2;
  for (const char* argument :
       {"fma", "mul_sub", "scaled", "sub_mul", "scaled_twice", "scaled_fma", "fma_max", "scaled_fma_max"}) {
    const AttentionSchedule s = parse_attention_schedule(
        "qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn out=f32 tile=64 q=e4m3fn argument=" + std::string(argument));
    EXPECT_EQ(replay.run(s, {rows, twice, 0.25, {}}).out, replay.run(s, {rows, q, 0.5, {}}).out) << argument;
    EXPECT_NE(replay.run(s, {rows, twice, 0.25, {}}).out, replay.run(s, {rows, q, 0.25, {}}).out) << argument;
  }
  for (const char* merge : {"logs", "weights", "lanes"}) {
    const std::string parts = "qk=f32 pv=f32 p=f32 out=f32 tile=16 split=3 merge=" + std::string(merge);
    EXPECT_EQ(out(parts + " p_shift=8"), out(parts)) << merge;
  }
  // With a sum that never closes before the end all is one chain, as without promotion, and is then added to
  // 0.
  EXPECT_EQ(out("qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn out=f32 tile=512 argument=scaled q=e4m3fn p_shift=8 "
                "promote=512"),
            out("qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn out=f32 tile=512 argument=scaled q=e4m3fn p_shift=8"));
}

// A maximum that is rounded once more than the logits is below them by up to half its last place: of logits
// near 10^15 that is millions, and the weight is infinite. In 16 bits it stays so, and infinity times 0 is
// NaN, as the H100 stores; it did not become 65504.
TEST(AttentionReplay, a_weight_that_overflows_is_infinite_in_16_bits) {
  const std::int64_t keys = 64, d = 16;
  for (const char* format : {"f16", "bf16"}) {
    auto q = drawn(1, 0, d, 8192, format);
    const auto k = drawn(2, 0, static_cast<std::size_t>(keys * d), 1, format);
    std::vector<float> v(static_cast<std::size_t>(keys * d), 0.0f);
    const AttentionReplay replay({keys, d, d, k, v, format});
    int infinite = 0;
    for (int i = 0; i < 16; ++i) {
      const std::string name(format);
      const auto out =
          replay
              .run(parse_attention_schedule("qk=hopper_" + name + " pv=hopper_" + name + " p=" + name +
                                            " out=f32 tile=32 argument=fma_max constant=float exp=ex2"),
                   {1, q, 1e6 * (1 + i / 16.0), {}})
              .out;
      infinite += std::isnan(out[0]) ? 1 : 0;
      EXPECT_TRUE(std::isnan(out[0]) || out[0] == 0) << out[0];
    }
    EXPECT_GT(infinite, 0) << format;
  }
}

TEST(AttentionReplay, a_tampered_schedule_is_refuted) {
  const std::vector<GoldenRow> rows = golden_rows();
  const std::map<std::string, std::function<void(AttentionSchedule&)>> tampering = {
      {"order", [](AttentionSchedule& s) { s.descending = !s.descending; }},
      {"tile", [](AttentionSchedule& s) { s.tile = s.tile == 64 ? 128 : s.tile / 2; }},
      {"argument",
       [](AttentionSchedule& s) {
         s.argument = s.argument == Argument::mul_sub ? Argument::scaled : Argument::mul_sub;
       }},
      {"p", [](AttentionSchedule& s) { s.qk = s.pv = "a100_f16", s.p = "f16"; }},
      {"unit", [](AttentionSchedule& s) { s.qk = s.pv = s.p == "f16" ? "a100_f16" : "a100_bf16"; }},
  };
  for (const auto& [field, tamper] : tampering) {
    int refuted = 0;
    for (const GoldenRow& r : rows) {
      AttentionSchedule wrong = r.schedule;
      tamper(wrong);
      if (field == "p" && r.format != "f16") continue;  // the unit takes one format
      refuted += r.replayed(wrong) != r.out ? 1 : 0;
    }
    EXPECT_GT(refuted, 0) << field;
  }
}

TEST(AttentionSchedule, what_is_printed_is_read_back_and_errors_say_what_is_allowed) {
  for (const GoldenRow& r : golden_rows())
    EXPECT_EQ(parse_attention_schedule(print_schedule(r.schedule)), r.schedule);
  for (const char* text : {"tile=0", "tile=40", "order=sideways", "exp=", "lanes=4 lanes=4", "fold=3",
                           "p=f16", "nonsense=1", "split"})
    EXPECT_THROW(static_cast<void>(parse_attention_schedule(text)), InputError) << text;
}

}  // namespace
}  // namespace assay
