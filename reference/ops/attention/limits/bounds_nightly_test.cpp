// The promise of the bounds at length: every arithmetic, every fill, up to 65,536 keys, no violation at any
// level.
#include <gtest/gtest.h>

#include "reference/ops/attention/limits/bounds_testing.hpp"

namespace assay {
namespace {

TEST(AttentionBoundsNightly, two_hundred_thousand_outputs_of_correct_kernels_stay_within_every_level) {
  const std::array<std::int64_t, 5> sizes{64, 257, 1000, 2048, 4096};
  const Tally tally = judge_all(sizes, 64, 128, 1);
  EXPECT_GE(tally.outputs, 200000);
  EXPECT_EQ(tally.violations, (std::array<std::int64_t, 4>{}));
}

TEST(AttentionBoundsNightly, long_rows_stay_within_every_level) {
  Tally tally;
  for (const TestKernel& kernel : test_kernels()) {
    if (kernel.name != "f32" && kernel.name != "hopper_f16" && kernel.name != "hopper_bf16" &&
        kernel.name != "hopper_fp8_two_level" && kernel.name != "hopper_fp8") {
      continue;
    }
    for (const Design fill :
         {Design::gaussian, Design::needle, Design::ramp, Design::constant, Design::window_onehot}) {
      const AttentionFill f = attention_fill(fill, 65536, 64, 32, std::string(kernel.q),
                                             std::string(kernel.k), std::string(kernel.v), 7);
      judge(kernel, f, f.row(), fill, tally);
    }
  }
  EXPECT_EQ(tally.outputs, 5 * 5 * 32);
  EXPECT_EQ(tally.violations, (std::array<std::int64_t, 4>{}));
}

}  // namespace
}  // namespace assay
