// The grammar of schedules: what is printed is read back, what contradicts itself is refused by name, and every term of a sum
// is added once, in the slice, chunk and lane that the text says.
#include "reference/replay/schedule.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
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
                           "split=01",
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

// Rows are added side by side, and of a row with itself from one panel: the same bits as alone, and as of a copy.
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

// One reader serves sums, moments, rows and attention: the same text is wrong in all of them, and each says what it allows.
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
    for (const char* bad : {"064", "0", "65537", "6x", "-1", ""})
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
