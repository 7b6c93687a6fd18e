// What the limits of declarations see: printed for all, promised where tiles and depths are declared.
#include "reference/ops/attention/limits/sharpness.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

const AttentionDeclaration& declaration(std::string_view name) {
  for (const AttentionDeclaration& d : attention_declarations())
    if (d.name == name) return d;
  throw std::out_of_range(std::string(name));
}

TEST(AttentionSharpness, what_each_declaration_sees) {
  fmt::print("{:32} {:>8} {:>9} {:>9} {:>9} {:>9}\n", "declaration", "keys", "half", "some", "half", "some");
  fmt::print("{:32} {:>8} {:>19} {:>19}\n", "", "", "gaussian", "needle");
  for (const AttentionDeclaration& d : attention_declarations())
    for (const std::int64_t keys : {1024, 16384, 131072}) {
      const Sharpness g = attention_sharpness(d, Design::gaussian, keys);
      const Sharpness n = attention_sharpness(d, Design::needle, keys);
      fmt::print("{:32} {:>8} {:>8.3g}% {:>8.3g}% {:>8.3g}% {:>8.3g}%\n", d.name, keys, 100 * g.median,
                 100 * g.least, 100 * n.median, 100 * n.least);
    }
}

TEST(AttentionSharpness, tiles_and_depths_see_one_percent_of_bf16_at_128k_and_two_of_fp8_kv_at_16k) {
  EXPECT_LE(attention_sharpness(declaration("bf16 tiles"), Design::gaussian, 131072).median, 0.01);
  EXPECT_LE(attention_sharpness(declaration("e4m3 kv, bf16 products, tiles"), Design::gaussian, 16384).median,
            0.02);
}

}  // namespace
}  // namespace assay
