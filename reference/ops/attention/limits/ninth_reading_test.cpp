// What a ninth reading of the manual broke of the limits of attention, beside what stays caught.
#include <cmath>

#include "reference/ops/attention/limits/strangers_testing.hpp"

namespace assay::testing {
namespace {

// q.k is rounded to a narrow format, and only then a slope is subtracted that cancels most of it.
TEST(AttentionOfStrangers, narrow_scores_may_be_rounded_before_a_slope_that_cancels_them) {
  constexpr float kSlope = 3.875F;
  struct Row {
    const char* scores;
    float x, rounded;  // the first logit, and it in that format
  };
  for (const Row& row :
       {Row{"f16", 4.001951217651367F, 4.00390625F}, Row{"tf32", 4.001951217651367F, 4.00390625F},
        Row{"bf16", 4.015609264373779F, 4.0F}}) {
    OpCase c = filled({{"d", "1"}, {"len", "2"}, {"scale", "1"}, {"alibi", "yes"}}, {1}, {row.x, 0}, {0, 1});
    c.put("slopes", {kSlope});
    const auto weight_of_last = [&](float logit) {
      return static_cast<float>(1 / (1 + std::exp(static_cast<double>(logit) - kSlope)));
    };
    for (const char* order : {"tiles", "descending", "sequential"}) {
      const std::string words = std::string(" scaling=scores tiles=aligned order=") + order;
      for (const char* level : {"", " level=detord"}) {
        expect_pass(c.truth("scores=" + std::string(row.scores) + words + level),
                    Values{weight_of_last(row.rounded)});
        // Without the word, and four steps of it away, that is wrong.
        expect_caught(c.truth(words.substr(1) + level), Values{weight_of_last(row.rounded)});
        const float far = row.x + 8 * (row.rounded - row.x);
        expect_caught(c.truth("scores=" + std::string(row.scores) + words + level),
                      Values{weight_of_last(far)});
      }
    }
    // The emulated kernel rounds behind the slope.
    expect_caught(
        c.truth(
            "scores=" + std::string(row.scores) +
            " level=emu order=sequential scaling=scores tiles=aligned sink=last merge=once argument=rounded"),
        Values{weight_of_last(row.rounded)});
  }
}

TEST(AttentionOfStrangers, narrow_scores_may_be_rounded_before_a_softcap_and_a_slope) {
  OpCase c = filled({{"d", "1"}, {"len", "2"}, {"scale", "1"}, {"alibi", "yes"}, {"softcap", "16"}}, {1},
                    {4.001951217651367F, 0}, {0, 1});
  c.put("slopes", {3.78F});
  const double capped = 16 * std::tanh(4.00390625 / 16) - static_cast<double>(3.78F);
  const Values rounded = {static_cast<float>(1 / (1 + std::exp(capped)))};
  const std::string words = "order=tiles scaling=scores tiles=aligned";
  expect_pass(c.truth("scores=f16 " + words), rounded);
  expect_caught(c.truth(words), rounded);
}

// What may overflow before its cap is Inf there, and the cap itself behind it.
TEST(AttentionOfStrangers, narrow_scores_that_may_overflow_before_a_softcap_claim_nothing) {
  const OpCase c =
      filled({{"d", "1"}, {"len", "2"}, {"scale", "1"}, {"softcap", "100000"}}, {1}, {70000, 69990}, {0, 1});
  const std::string words = "order=tiles scaling=scores tiles=aligned";
  expect_pass(c.truth("scores=f16 " + words), Values{0.5F});  // both are Inf, and capped alike
  expect_caught(c.truth(words), Values{0.5F});
}

}  // namespace
}  // namespace assay::testing
