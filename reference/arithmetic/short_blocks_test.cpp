// Kernels that feed a matrix unit otherwise than in whole blocks of one chain: each was accused by a bound
// that counted ceil(n / g) blocks. Chained mma.m16n8k8 on an H100 (driver 580.159.04) returns 1 where the
// exact sum is 1.00016773.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/arithmetic/dot_bound.hpp"
#include "reference/arithmetic/exact_sum.hpp"
#include "reference/arithmetic/rule.hpp"

namespace assay {
namespace {

using Values = std::vector<float>;

struct Dot {
  Values a, b;
  double distance(double got) const {
    adversarial::Exact exact;
    for (std::size_t k = 0; k < a.size(); ++k) exact.add(a[k], b[k]);
    return exact.distance(got);
  }
  double limit(std::string_view unit, Blocking blocking = {}) const {
    const Accumulator how = accumulator(unit);
    return dot_bound(how, dot_magnitudes({a, ""}, {b, ""}, 0, how), 0, blocking);
  }
  // Instructions of `products` each, chained; `part` products to a chain, the parts added in f32.
  double kernel(std::string_view name, std::size_t products, std::size_t part) const {
    const MatrixUnit& unit = matrix_unit(name);
    float total = 0;
    for (std::size_t first = 0; first < a.size(); first += part) {
      double c = 0;
      for (std::size_t k = first; k < std::min(a.size(), first + part); k += products)
        c = fused_dot(unit, {std::span(a).subspan(k, products), ""}, {std::span(b).subspan(k, products), ""},
                      c);
      total += static_cast<float>(c);
    }
    return static_cast<double>(total);
  }
};

// 1 and then 127 times 2^-12, in both operands: a product of 2^-24 is lost beside 1.
Dot one_and_small() {
  Dot d{Values(128, 0x1p-12F), Values(128, 0x1p-12F)};
  d.a[0] = d.b[0] = 1;
  return d;
}

TEST(ShortBlocks, parts_of_one_and_two_products_are_within_the_default) {
  const Dot d = one_and_small();
  for (const char* unit : {"hopper_f16", "hopper_tf32", "cdna1_f16", "cdna3_f16", "a100_f16"})
    for (const std::size_t part : {1U, 2U}) {
      const double got = d.kernel(unit, part, part);
      EXPECT_LE(d.distance(got), d.limit(unit)) << unit << " parts of " << part;
    }
  EXPECT_EQ(d.kernel("hopper_f16", 1, 1), 1);
  EXPECT_EQ(d.kernel("cdna1_f16", 1, 1), 1);
  // A kernel that says its parts are two chains of whole blocks is not one that adds 128 parts.
  const Blocking two{4, 2};
  EXPECT_GT(d.distance(1), d.limit("cdna1_f16", two));
  EXPECT_LE(d.distance(d.kernel("cdna1_f16", 4, 64)), d.limit("cdna1_f16", two));
}

// Block after block just below the last place that is kept beside 1.
Dot chained(std::size_t block) {
  Dot d{Values(4096, (1 - 0x1p-11F) * 0x1p-12F), Values(4096, 0x1p-13F)};
  for (std::size_t k = block - 1; k < d.b.size(); k += block) d.b[k] = 0x1p-11F;
  d.a[0] = d.b[0] = 1;
  return d;
}

TEST(ShortBlocks,
     chained_instructions_of_2_4_8_and_16_products_are_within_the_default_and_within_what_they_say) {
  for (const std::int64_t block : {2, 4, 8, 16}) {
    const Dot d = chained(static_cast<std::size_t>(block));
    const double got = d.kernel("hopper_f16", static_cast<std::size_t>(block), 4096);
    EXPECT_LE(d.distance(got), d.limit("hopper_f16")) << block;
    EXPECT_LE(d.distance(got), d.limit("hopper_f16", {block, 1})) << block;
    EXPECT_GT(d.distance(got), 0.5 * d.limit("hopper_f16", {block, 1}))
        << block;  // no room for twice that error
    if (block < 16) {
      EXPECT_GT(d.distance(got), d.limit("hopper_f16", {16, 1})) << block;
    }
  }
  EXPECT_EQ(chained(8).kernel("hopper_f16", 8, 4096), 1);  // what the device returns
}

TEST(ShortBlocks, a_sum_that_nothing_rounds_has_limit_0_and_one_lost_bit_is_seen) {
  // FP8 products have 8 bits and the unit keeps 13: one or two of them are exact, whatever their sizes up to
  // 2^5.
  for (const std::size_t n : {1U, 2U}) {
    const Dot d{Values(n, 1.875F), Values(n, 1.125F)};
    EXPECT_EQ(d.limit("hopper_fp8"), 0) << n;
    EXPECT_EQ(d.distance(d.kernel("hopper_fp8", 1, 1)), 0) << n;
  }
  const Dot spread{{1.875F, 0x1p-9F}, {1.875F, 0x1p-9F}};
  EXPECT_GT(spread.limit("hopper_fp8"), 0);
  EXPECT_LE(spread.distance(spread.kernel("hopper_fp8", 2, 2)), spread.limit("hopper_fp8"));
}

// A known point of each rule: a kernel beyond three quarters of the limit, and beyond all of it where the
// rule counts half.
TEST(ShortBlocks, each_rule_has_an_input_that_needs_it) {
  const auto needs = [](Rule rule, const Dot& d, std::string_view unit, double got, Blocking blocking) {
    const double error = d.distance(got), limit = d.limit(unit, blocking);
    EXPECT_LE(error, limit) << static_cast<int>(rule);
    EXPECT_GT(error, 0.65 * limit) << static_cast<int>(rule);
    for (const double factor : {0.0, 0.2, 0.5}) {
      const Unsound weak(rule, factor);
      EXPECT_GT(error, d.limit(unit, blocking)) << static_cast<int>(rule) << " x " << factor;
    }
  };
  // One block: 1, and fifteen products just below the last place that is kept beside it.
  Dot cut{Values(16, 0x1.ffcp-13F), Values(16, 0x1.ffcp-14F)};
  cut.a[0] = cut.b[0] = 1;
  needs(Rule::unit_cut, cut, "hopper_f16", cut.kernel("hopper_f16", 16, 16), {16, 1});
  // 1 and nearly half of its last place in f16.
  const Dot rounded{{1, 0x1.ffcp-6F}, {1, 0x1.ff8p-7F}};
  needs(Rule::unit_rounding, rounded, "hopper_f16_f16out", rounded.kernel("hopper_f16_f16out", 2, 2),
        {16, 1});
  // Half of the smallest subnormal f16: to even, which is 0.
  const Dot tiny{{0x1p-13F}, {0x1p-12F}};
  needs(Rule::unit_underflow, tiny, "hopper_f16_f16out", tiny.kernel("hopper_f16_f16out", 1, 1), {16, 1});
  // 32 parts: one of 25 blocks of four, and 31 of one product. Each block but the first, and each part,
  // brings 2^-24 to 1.
  Dot parts{Values(128, 0), Values(128, 1)};
  for (std::size_t k = 0; k < 97; k += 4) parts.a[k] = 0x1p-24F;
  for (std::size_t k = 97; k < 128; ++k) parts.a[k] = 0x1p-24F;
  parts.a[0] = 1;
  const MatrixUnit& unit = matrix_unit("cdna1_f16");
  double c = 0;
  for (std::size_t k = 0; k < 97; k += 4) {
    const std::size_t size = std::min<std::size_t>(4, 97 - k);
    c = fused_dot(unit, {std::span(parts.a).subspan(k, size), ""}, {std::span(parts.b).subspan(k, size), ""},
                  c);
  }
  auto total = static_cast<float>(c);
  for (std::size_t k = 97; k < 128; ++k) total += parts.a[k];
  EXPECT_EQ(total, 1);
  needs(Rule::part_addition, parts, "cdna1_f16", static_cast<double>(total), {4, 32});
}

}  // namespace
}  // namespace assay
