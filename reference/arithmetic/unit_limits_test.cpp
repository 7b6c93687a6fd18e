// What the list of units claims where public reports contradict a plausible model.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/arithmetic/dot_bound.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay {
namespace {

// -1 + 32 + 24, as gfx1151 is reported to form it: two units of 2^(5 - 24) beyond 55.
TEST(UnitLimits, a_sum_of_small_integers_that_gfx1151_gets_wrong_is_within_the_bound_of_its_unit) {
  constexpr double kReported = 0x1p-18;
  EXPECT_EQ(static_cast<float>(55 + kReported), 55.0000038F);
  const auto bound = [&](const char* name) {
    Accumulator how;
    EXPECT_TRUE(find_accumulator(name, how));
    return dot_bound(how, {.n = 2, .abs_sum = 56, .abs_c = 1, .head = product_head(32, "f16", 1, "f16")});
  };
  EXPECT_GE(bound("rdna35_f16"), kReported);
  // Not more than it must: the same sum with one product missing, or rounded to f16, is beyond it.
  EXPECT_LT(bound("rdna35_f16"), 0x1p-14);
  // The model itself, which truncates, is exact here.
  const std::vector<float> a{32, 24}, b{1, 1};
  EXPECT_EQ(fused_dot(matrix_unit("rdna35_f16"), {a, ""}, {b, ""}, -1), 55);
}

TEST(UnitLimits, every_row_says_in_one_word_how_it_is_known) {
  for (const MatrixUnit& unit : matrix_units()) {
    const std::string_view word = to_string(unit.standing);
    EXPECT_TRUE(word == "silicon" || word == "vectors" || word == "published" || word == "assumed")
        << unit.name;
    EXPECT_EQ(word == "silicon", unit.source.starts_with("an H200")) << unit.name;
  }
  EXPECT_EQ(matrix_unit("blackwell_fp8_mma_sync").combine, Combine::unpack_split);
  EXPECT_EQ(to_string(matrix_unit("blackwell_fp8_mma_sync").standing), "vectors");
  EXPECT_EQ(to_string(matrix_unit("rdna4_f16").standing), "assumed");
}

}  // namespace
}  // namespace assay
