// What an eleventh reading of the manual broke of the limits of attention, beside what stays caught.
#include <cmath>

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

}  // namespace
}  // namespace assay::testing
