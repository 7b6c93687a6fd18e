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

}  // namespace
}  // namespace assay::testing
