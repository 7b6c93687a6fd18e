// Stores that hide a sum's last bits: values near midpoints show them, and a kernel that differs in one step
// is not taken for another.
#include <gtest/gtest.h>

#include "cases/studies/identify/attention_kernels_testing.hpp"
#include "cases/studies/identify/attention_regions.hpp"

namespace assay {
namespace {

constexpr std::int64_t kSplitKeys = 192;
constexpr const char* kSplit =
    "qk=f32 pv=f32 p=f32 out=f16 tile=64 argument=scaled exp=taylor7 rescale_exp=libm sums=tile sum_fma=no "
    "lanes=16 "
    "pack=1 values=tile values_fma=no dot_lanes=16 split=2 part=96 merge=weights";

std::int64_t unequal(const AttentionAsk& kernel, const AttentionSchedule& other, AttentionDesign design) {
  std::int64_t count = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    count += ReplayedHead(kernel(seed, design)->heads[0]).unequal(other);
  return count;
}

AttentionCard card_of(const AttentionAsk& kernel) {
  return identify_attention(kernel, {}, {.outputs = 2'000, .seconds = 1e4});
}

TEST(NarrowStores, a_split_decode_in_f16_is_found_from_one_row) {
  const AttentionSchedule truth = parse_attention_schedule(kSplit);
  const AttentionCard card = card_of(kernel_of(kSplit, 1, kSplitKeys));
  ASSERT_TRUE(card.schedule) << card_text(card);
  const std::string words = " " + spell_out(truth) + " ";
  int concluded = 0;
  for (const CardField& f : card.fields) {
    if (!f.concluded) continue;
    EXPECT_NE(words.find(" " + f.field + "=" + f.value + " "), std::string::npos)
        << f.field << card_text(card);
    for (const char* hidden : {"lanes", "exp", "tile", "values", "part"})
      concluded += f.field == hidden ? 1 : 0;
  }
  EXPECT_EQ(concluded, 5) << card_text(card);
}

TEST(NarrowStores, one_step_otherwise_shows_at_midpoints_and_is_no_such_kernel) {
  const AttentionSchedule truth = parse_attention_schedule(kSplit);
  for (const char* step : {"lanes=8", "exp=libm", "quotient=division", "values_fma=yes", "tile=32"}) {
    const std::string name = std::string(step).substr(0, std::string(step).find('=') + 1);
    std::string text = kSplit;
    const std::size_t at = (" " + text).find(" " + name);
    if (at == std::string::npos)
      text += std::string(" ") + step;
    else
      text.replace(at, (text + " ").find(' ', at) - at, step);
    const AttentionAsk tampered = kernel_of(text, 1, kSplitKeys);
    EXPECT_EQ(unequal(tampered, parse_attention_schedule(text), AttentionDesign::midpoints), 0) << step;
    const std::int64_t shown = unequal(tampered, truth, AttentionDesign::midpoints) +
                               unequal(tampered, truth, AttentionDesign::single_values) +
                               unequal(tampered, truth, AttentionDesign::pairs);
    EXPECT_GT(shown, unequal(tampered, truth, AttentionDesign::drawn)) << step;
    const AttentionCard card = card_of(tampered);
    EXPECT_TRUE(!card.schedule || !(*card.schedule == truth)) << step << card_text(card);
  }
}

// The manner of FlashInfer's decode, split over its keys.
constexpr const char* kDealtInParts =
    "qk=f32 pv=f32 p=f32 out=f16 argument=scaled constant=float exp=ex2 sums=thread sum_fma=yes lanes=1 "
    "pack=1 "
    "quotient=approx values=carried deal_merge=online tile=8 dot_lanes=8 dot_pack=8 ";

TEST(NarrowStores, parts_merged_by_logarithms_are_found_where_nothing_else_holds) {
  const std::string hidden =
      std::string(kDealtInParts) + "deal=8 part=256 split=3 merge=log2 merge_groups=16";
  const AttentionSchedule truth = parse_attention_schedule(hidden);
  const AttentionCard card = card_of(kernel_of(hidden, 4, 600));
  ASSERT_TRUE(card.schedule) << card_text(card);
  EXPECT_EQ(card.schedule->merge, truth.merge) << card_text(card);
  EXPECT_EQ(card.schedule->part, truth.part) << card_text(card);
  const std::string words = " " + spell_out(truth) + " ";
  for (const CardField& f : card.fields)
    if (f.concluded) {
      EXPECT_NE(words.find(" " + f.field + "=" + f.value + " "), std::string::npos)
          << f.field << card_text(card);
    }
  for (const char* otherwise :
       {"deal=8 part=300 split=2 merge=log2 merge_groups=16",
        "deal=4 part=256 split=3 merge=log2 merge_groups=16", "deal=8 part=256 split=3 merge=weights"}) {
    const AttentionAsk twin = kernel_of(std::string(kDealtInParts) + otherwise, 4, 600);
    EXPECT_GT(unequal(twin, truth, AttentionDesign::midpoints), 0) << otherwise;
    const AttentionCard of_twin = card_of(twin);
    EXPECT_TRUE(!of_twin.schedule || !(*of_twin.schedule == *card.schedule))
        << otherwise << card_text(of_twin);
  }
}

}  // namespace
}  // namespace assay
