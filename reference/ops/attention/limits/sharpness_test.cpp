// What the limits of declarations see: promised where tiles and depths are declared.
#include "reference/ops/attention/limits/sharpness.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace assay {
namespace {

const AttentionDeclaration& declaration(std::string_view name) {
  for (const AttentionDeclaration& d : attention_declarations())
    if (d.name == name) return d;
  throw std::out_of_range(std::string(name));
}

// Promised, of the values of half of the outputs.
constexpr double kOfBf16 = 0.01, kOfFp8Cache = 0.02, kOfUnits = 0.01;

TEST(AttentionSharpness, tiles_depths_and_units_see_what_they_promise) {
  EXPECT_LE(attention_sharpness(declaration("bf16 tiles"), Design::gaussian, 131072).median, kOfBf16);
  EXPECT_LE(attention_sharpness(declaration("e4m3 kv, bf16 products, tiles"), Design::gaussian, 16384).median,
            kOfFp8Cache);
  EXPECT_LE(
      attention_sharpness(declaration("e4m3 kv by head, f32 sums, tiles"), Design::gaussian, 16384).median,
      kOfFp8Cache);
  EXPECT_LE(attention_sharpness(declaration("hopper_fp8 promote4, tiles"), Design::gaussian, 16384).median,
            kOfUnits);
}

}  // namespace
}  // namespace assay
