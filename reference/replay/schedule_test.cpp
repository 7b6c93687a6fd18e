// The grammar of schedules: what is printed is read back, what contradicts itself is refused by name, and
// every term of a sum is added once, in the slice, chunk and lane that the text says.
#include "reference/replay/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "reference/error.hpp"
#include "reference/replay/attention_schedule.hpp"
#include "reference/replay/moments_schedule.hpp"
#include "reference/replay/replay.hpp"
#include "reference/replay/row_schedule.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

constexpr std::array kTexts = {
    "acc=f32",
    "acc=f32 fma=yes lanes=64 fold=16.32.8.4.2.1 tail=vector:16",
    "acc=f64 lanes=3 fold=sequential pack=4 order=descending",
    "acc=hopper_fp8 chunk=128 split=3 quantum=64",
    "acc=hopper_bf16 split=4 slicing=interleaved quantum=16 merge=halving part=bf16",
    "acc=a100_f16 slicing=cuts:128.640 merge=reverse",
    "acc=f32 fma=yes lanes=16 head=1 tail=refold",
    "acc=f32 lanes=8 fold=4.1*4 tail=before:4 cascade=2",
    "acc=f32 fma=yes lanes=4 pack=2 order=second",
    "acc=f32 fma=yes lanes=32 head=1 head_at=apart tail=folded:16",
    "acc=f32 lanes=8 pack=2 head=3 head_at=apart fold=2.1.4 tail=folded:2 cascade=4",
    "acc=f32 lanes=2 pack=3 head=5 tail=before:1 cascade=3 order=swapped fold=reverse",
    "acc=bf16 lanes=8 fold=adjacent tail=after chunk=100 chunk_acc=f64 merge_acc=f16 scales=a_b",
};

TEST(Schedule, what_is_printed_is_read_back) {
  for (const char* text : kTexts) {
    const Schedule s = parse_schedule(text);
    const std::string printed = print_schedule(s);
    EXPECT_EQ(parse_schedule(printed), s) << text;
    EXPECT_EQ(print_schedule(parse_schedule(printed)), printed);
    EXPECT_EQ(parse_schedule(as_contract_value(printed)), s) << as_contract_value(printed);
    EXPECT_EQ(parse_schedule("other.acc=f16 " + print_schedule(s, "qk."), "qk."), s);
  }
}

TEST(Schedule, a_contradiction_is_refused_with_what_is_allowed) {
  for (const char* text : {"acc=f33",
                           "lanes=0",
                           "lanes=4 fold=2",
                           "lanes=4 fold=2.2",
                           "fold=x",
                           "tail=vector",
                           "lanes=2 tail=first:4",
                           "acc=hopper_fp8 lanes=2",
                           "acc=hopper_fp8 chunk=100",
                           "acc=hopper_fp8 fma=yes",
                           "acc=hopper_fp8 head=1",
                           "acc=hopper_fp8 cascade=16",
                           "cascade=1",
                           "tail=refold:4",
                           "tail=before",
                           "head_at=apart",
                           "head=1 head_at=end",
                           "lanes=8 tail=folded",
                           "lanes=8 tail=folded:8",
                           "lanes=8 tail=folded:3",
                           "lanes=8 tail=folded:1",
                           "lanes=8 fold=sequential tail=folded:2",
                           "lanes=8 fold=reverse tail=folded:2",
                           "acc=hopper_fp8 head=1 head_at=apart",
                           "acc=i32 lanes=4",
                           "acc=i32 fma=yes",
                           "acc=i32 split=2 quantum=32",
                           "acc=int8_dot",
                           "slicing=cuts",
                           "slicing=cuts:4.4",
                           "slicing=cuts:4 split=3",
                           "nonsense=1",
                           "acc",
                           "acc=f32 acc=f32",
                           "chunk=-1",
                           "scales=sum"})
    EXPECT_THROW(static_cast<void>(parse_schedule(text)), InputError) << text;
}

TEST(Schedule, every_term_is_added_once) {
  for (const char* text : kTexts)
    for (const std::int64_t n : {1, 5, 31, 64, 100, 257, 1000}) {
      const Schedule s = parse_schedule(text);
      const SumPlan plan = plan_sum(s, n);
      std::vector<int> seen(static_cast<std::size_t>(n));
      for (const SumOp& op : plan.ops)
        for (std::int64_t k = op.begin; k < op.end; ++k) ++seen[static_cast<std::size_t>(k)];
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }))
          << text << " n=" << n;
      // A sum that is in no other at the end is lost: as many begin as join another, but one.
      std::int64_t begun = 0, joined = 0;
      for (const SumOp& op : plan.ops) {
        begun += op.kind == SumOp::first || op.kind == SumOp::zero ? 1 : 0;
        joined += op.kind == SumOp::add ? 1 : 0;
      }
      EXPECT_EQ(begun, joined + 1) << text << " n=" << n;
    }
}

// Rows are added side by side, and of a row with itself from one panel: the same bits as alone, and as of a
// copy.
TEST(Schedule, rows_side_by_side_have_the_sums_of_each_alone) {
  constexpr std::int64_t kK = 37;
  for (const char* text : {"acc=f32 lanes=8", "acc=f32 fma=yes", "acc=f64"})
    for (const std::int64_t rows : {1, 15, 16, 17, 33}) {
      const Schedule s = parse_schedule(text);
      std::vector<float> x;
      for (std::int64_t i = 0; i < rows * kK; ++i)
        x.push_back(1.0F / static_cast<float>(i % 2 == 0 ? i + 1 : -i - 7));
      const SummedRows all(x, rows, kK), copy(x, rows, kK);
      const std::vector<double> plain = all.sums(s), squares = all.squares(s);
      EXPECT_EQ(squares, all.products(s, copy)) << text << " " << rows;
      for (std::int64_t r = 0; r < rows; ++r) {
        const SummedRows row({x.begin() + r * kK, x.begin() + (r + 1) * kK}, 1, kK);
        EXPECT_EQ(row.sums(s).front(), plain[static_cast<std::size_t>(r)]);
        EXPECT_EQ(row.squares(s).front(), squares[static_cast<std::size_t>(r)]);
      }
    }
}

// Twins of one kernel that differ in where the first term or the last ones are added.
enum class Twin { healthy, head_in_a_lane, head_by_fma, no_head, tail_ahead_of_the_fold, tail_behind_it };
float summed(const std::vector<float>& a, const std::vector<float>& b, Twin twin) {
  float s[32] = {};
  const std::size_t n = a.size();
  std::size_t k = twin == Twin::no_head ? 0 : 1;
  if (twin == Twin::head_in_a_lane) s[0] = a[0] * b[0];
  const auto steps = [&](std::size_t width, std::size_t end) {
    for (; k < end; k += std::min(width, end - k))
      for (std::size_t j = 0; j < width && k + j < end; ++j) s[j] = std::fma(a[k + j], b[k + j], s[j]);
  };
  steps(32, twin == Twin::tail_ahead_of_the_fold ? n : k + (n - k) / 32 * 32);
  for (std::size_t half = 16; half >= 1; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) s[j] += s[j + half];
    if (half == (twin == Twin::tail_behind_it ? 8 : 16)) steps(half, n);
  }
  if (twin == Twin::head_in_a_lane || twin == Twin::no_head) return s[0];
  if (twin == Twin::head_by_fma) return std::fma(a[0], b[0], s[0]);
  const float first = a[0] * b[0];
  return s[0] + first;
}

TEST(Schedule, a_head_may_stand_apart_and_a_tail_go_on_over_what_a_fold_has_come_down_to) {
  constexpr std::int64_t kRows = 64;
  for (const std::int64_t n : {20, 64, 75, 100}) {
    std::mt19937_64 draw(20);
    std::normal_distribution<float> normal;
    std::vector<float> x, y;
    for (std::int64_t i = 0; i < kRows * n; ++i) x.push_back(normal(draw)), y.push_back(normal(draw));
    const auto of = [&](const char* text) {
      return SummedRows(x, kRows, n).products(parse_schedule(text), SummedRows(y, kRows, n));
    };
    const auto by = [&](Twin twin) {
      std::vector<double> sums;
      for (std::int64_t r = 0; r < kRows; ++r)
        sums.push_back(static_cast<double>(summed({x.begin() + r * n, x.begin() + (r + 1) * n},
                                                  {y.begin() + r * n, y.begin() + (r + 1) * n}, twin)));
      return sums;
    };
    const std::vector<double> healthy = of("acc=f32 fma=yes lanes=32 head=1 head_at=apart tail=folded:16");
    EXPECT_EQ(by(Twin::healthy), healthy) << n;
    EXPECT_EQ(by(Twin::head_in_a_lane), of("acc=f32 fma=yes lanes=32 head=1 tail=folded:16")) << n;
    EXPECT_EQ(by(Twin::no_head), of("acc=f32 fma=yes lanes=32 tail=folded:16")) << n;
    EXPECT_EQ(by(Twin::tail_ahead_of_the_fold), of("acc=f32 fma=yes lanes=32 head=1 head_at=apart")) << n;
    EXPECT_EQ(by(Twin::tail_behind_it), of("acc=f32 fma=yes lanes=32 head=1 head_at=apart tail=folded:8"))
        << n;
    for (const Twin twin : {Twin::head_in_a_lane, Twin::head_by_fma, Twin::no_head,
                            Twin::tail_ahead_of_the_fold, Twin::tail_behind_it})
      EXPECT_NE(by(twin), healthy) << n << " " << static_cast<int>(twin);
  }
}

TEST(Schedule, slices_are_cut_as_their_word_says) {
  const auto lengths = [](const char* text, std::int64_t n) {
    std::vector<std::int64_t> list;
    for (const auto& slice : slices(parse_schedule(text), n)) {
      list.push_back(0);
      for (const TermRun& run : slice) list.back() += run.length();
    }
    return list;
  };
  using L = std::vector<std::int64_t>;
  EXPECT_EQ(lengths("split=4 quantum=64", 640), (L{192, 192, 192, 64}));
  EXPECT_EQ(lengths("split=4 quantum=64 slicing=balanced", 640), (L{192, 192, 128, 128}));
  EXPECT_EQ(lengths("split=4 quantum=64 slicing=proportional", 640), (L{128, 192, 128, 192}));
  EXPECT_EQ(lengths("split=4 quantum=64 slicing=interleaved", 640), (L{192, 192, 128, 128}));
  EXPECT_EQ(lengths("slicing=cuts:100.300", 640), (L{100, 200, 340}));
  EXPECT_EQ(lengths("split=4", 2), (L{1, 1, 0, 0}));
}

TEST(Schedule, a_fold_says_its_additions) {
  std::int32_t result = 0;
  const auto pairs = [&](const char* text, std::int64_t count) {
    std::vector<std::pair<int, int>> list;
    for (const FoldAddition& a : additions(fold_of(text, count), count, result))
      list.emplace_back(a.into, a.from);
    return list;
  };
  using P = std::vector<std::pair<int, int>>;
  EXPECT_EQ(pairs("halving", 4), (P{{0, 2}, {1, 3}, {0, 1}}));
  EXPECT_EQ(pairs("adjacent", 4), (P{{0, 1}, {2, 3}, {0, 2}}));
  EXPECT_EQ(pairs("sequential", 3), (P{{0, 1}, {0, 2}}));
  EXPECT_EQ(pairs("reverse", 3), (P{{2, 1}, {2, 0}}));
  EXPECT_EQ(result, 2);
  EXPECT_EQ(pairs("2*2.1", 4), (P{{0, 2}, {1, 3}, {0, 1}}));
  EXPECT_EQ(pairs("halving", 3), (P{{0, 2}, {0, 1}}));
  EXPECT_EQ(pairs("adjacent", 3), (P{{0, 1}, {0, 2}}));
}

// One reader serves sums, moments, rows and attention: the same text is wrong in all of them, and each says
// what it allows.
TEST(Schedule, every_grammar_refuses_alike_and_names_the_key) {
  const auto refusal = [](const auto& parse) -> std::string {
    try {
      parse();
    } catch (const InputError& e) {
      return e.what();
    }
    return "none";
  };
  struct Grammar {
    const char *number, *word, *prefix;
    std::function<void(std::string)> parse;
  };
  const std::vector<Grammar> grammars = {
      {"lanes", "fma", "", [](const std::string& text) { parse_schedule(text); }},
      {"lanes", "fma", "moments.", [](const std::string& text) { parse_moments(text); }},
      {"lanes", "exp", "sum.", [](const std::string& text) { parse_row_schedule("softmax", text); }},
      {"lanes", "order", "", [](const std::string& text) { parse_attention_schedule(text); }}};
  for (const Grammar& g : grammars) {
    const std::string key = g.prefix + std::string(g.number);
    const auto said = [&](const std::string& text) { return refusal([&] { g.parse(text); }); };
    EXPECT_EQ(said(key + "=64"), "none");
    EXPECT_EQ(said(key + ":64"), "none");
    EXPECT_EQ(said(key + "=064"), "none");
    for (const char* bad : {"0", "65537", "6x", "-1", ""})
      EXPECT_NE(said(key + "=" + bad).find("allowed: 1..65536"), std::string::npos) << key << bad;
    EXPECT_NE(said(key + "=1 " + key + "=1").find("given twice"), std::string::npos) << key;
    EXPECT_NE(said(g.prefix + std::string("lanse=1")).find("lanes"), std::string::npos) << key;
    EXPECT_NE(said(key).find("key=value"), std::string::npos) << key;
    const std::string words = (std::string(g.prefix) == "sum." ? "" : g.prefix) + std::string(g.word);
    EXPECT_NE(said(words + "=maybe").find("allowed: "), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace assay
