// What the table of reports/results/sharpness.md promises of declared tiles, depths and units.
#include "reference/ops/bench_sharpness.hpp"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Sharpness, tiles_depths_and_units_see_what_they_promise) {
  std::size_t promises = 0;
  for (const SharpnessRow& row : sharpness_rows()) {
    if (row.goal == 0) continue;
    ++promises;
    const SharpnessFigure f = measure_sharpness(row);
    EXPECT_LE(f.seen.half, row.goal) << row.op << " " << row.attributes << "\n" << row.contract;
    EXPECT_GT(f.seen.elements, 0U);
  }
  EXPECT_GE(promises, 6U);
}

}  // namespace
}  // namespace assay
