// The bounds can fail: on inputs where every cut and every rounding is nearly as large as it can be,
// arithmetic that is one bit narrower than declared exceeds the bound, and the declared arithmetic does not.
// A bound that is too large by a factor of two, or by one term of its derivation on short sums, is caught
// here.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/arithmetic/adversarial.hpp"
#include "reference/arithmetic/dot_bound.hpp"
#include "reference/arithmetic/exact_sum.hpp"
#include "reference/arithmetic/ordered_testing.hpp"

namespace assay {
namespace {

using adversarial::Exact;

struct Terms {
  std::vector<float> a, b;
  double c = 0;
  Operand left(std::string_view format = "") const { return {a, format}; }
  Operand right(std::string_view format = "") const { return {b, format}; }
  void add(double x, double y) {
    a.push_back(static_cast<float>(x));
    b.push_back(static_cast<float>(y));
  }
  double error(double got) const {
    Exact exact;
    exact.add(c);
    for (std::size_t k = 0; k < a.size(); ++k) exact.add(a[k], b[k]);
    return exact.distance(got);
  }
};

Precision narrower(Precision f) {
  --f.p;
  return f;
}

// 1, then n - 1 terms that the narrower format loses whole and the declared one rounds up: each just above
// half a unit in the last place of 1 to the declared format.
Terms lost_additions(const Precision& f, std::size_t n) {
  Terms t;
  t.add(1, 1);
  const double u = std::ldexp(1.0, -f.p);
  for (std::size_t k = 1; k < n; ++k) t.add(1.98 * u, 1);
  for (float& x : t.a) x = static_cast<float>(round_to_precision(x, narrower(f)));
  return t;
}

TEST(DotBoundSharp, a_scalar_accumulator_that_is_one_bit_narrower_exceeds_every_bound_of_the_declared_one) {
  for (const char* name : {"f32", "f16", "bf16"}) {
    const Accumulator how = accumulator(name);
    for (const std::size_t n : {4U, 8U, 40U}) {
      if (static_cast<double>(n) > std::ldexp(1.0, how.precision.p - 4))
        continue;  // the sum leaves its binade
      Terms t = lost_additions(how.precision, n);
      const double good = t.error(ordered_dot({how.precision}, t.a, t.b));
      const double bad = t.error(ordered_dot({narrower(how.precision)}, t.a, t.b));
      const DotMagnitudes m = dot_magnitudes(t.left(), t.right(), 0, how);
      const auto depth = static_cast<std::int64_t>(n) - 1;
      for (const double bound : {dot_bound(how, m), dot_bound_ordered(how.precision, depth, m),
                                 dot_bound_ordered(how.precision, depth, m, 0)}) {
        EXPECT_LE(good, bound) << name << " n=" << n;
        EXPECT_GT(bad, bound) << name << " n=" << n;
      }
    }
  }
}

// Every product half a unit beyond what the format holds, in one sum that is otherwise exact.
TEST(DotBoundSharp, rounded_products_come_near_their_bound_and_products_cut_twice_as_coarse_exceed_it) {
  const double u = kPrecisionF32.p;
  Terms t;
  const float x = static_cast<float>(1 + std::ldexp(1.0, -12)),
              y = static_cast<float>(1 + std::ldexp(1.0, 1 - 13));
  t.add(x, y);  // 1 + 2^-11 + 2^-24: half a unit of f32 at 1
  ASSERT_EQ(u, 24);
  const DotMagnitudes m = dot_magnitudes(t.left(), t.right(), 0, accumulator("f32"));
  const double good = t.error(ordered_dot({kPrecisionF32}, t.a, t.b));
  EXPECT_GE(good, 0x1p-24);
  for (const double bound : {dot_bound(accumulator("f32"), m), dot_bound_ordered(kPrecisionF32, 0, m)}) {
    EXPECT_LE(good, bound);
    EXPECT_GT(1.01 * good, bound);  // one rounding of one product: nothing else may be in it
  }
}

// Sums near the smallest normal number: the underflow of each product, and nothing more.
TEST(DotBoundSharp, products_that_underflow_come_near_their_bound) {
  for (const char* name : {"f32", "f16"}) {
    const Accumulator how = accumulator(name);
    const double tiny = std::ldexp(1.0, how.precision.emin - how.precision.p);  // half the subnormal step
    Terms t;
    const double root = std::ldexp(1.0, std::ilogb(tiny) / 2);
    for (int k = 0; k < 4; ++k) t.add(root, tiny / root);
    const DotMagnitudes m = dot_magnitudes(t.left(), t.right(), 0, how);
    const double good = t.error(ordered_dot({how.precision}, t.a, t.b));
    EXPECT_EQ(good, 4 * tiny) << name;  // ties go to the even 0
    EXPECT_LE(good, dot_bound(how, m)) << name;
    EXPECT_LT(dot_bound(how, m), 1.01 * good) << name;
    EXPECT_LT(dot_bound_ordered(how.precision, 3, m), 1.01 * good) << name;
  }
}

// Blocks of a truncating unit: c (or the first product) is 1, every other product just below two units of the
// narrower quantum, so that a unit with one fraction bit fewer loses all of each, and the declared one just
// less than one unit.
Terms cut_products(const MatrixUnit& unit, std::size_t blocks, std::string_view format, bool head_in_each) {
  Terms t;
  const ScalarFormat& f = scalar_format(format);
  const double largest = std::ldexp(2 - std::ldexp(1.0, -f.fraction_bits), 0);
  const double quantum = std::ldexp(1.0, -unit.fraction_bits);
  double product = largest * largest;
  int shift = 0;
  while (std::ldexp(product, shift) >= 2 * quantum) --shift;
  const int left = shift / 2;
  for (std::size_t k = 0; k < blocks * static_cast<std::size_t>(unit.group); ++k) {
    const bool first = head_in_each ? k % static_cast<std::size_t>(unit.group) == 0 : k == 0;
    if (first)
      t.add(1, 1);
    else
      t.add(std::ldexp(largest, left), std::ldexp(largest, shift - left));
  }
  return t;
}

// The widest exponent range that the unit takes: small factors then are normal numbers.
std::string widest(const MatrixUnit& unit) {
  const ScalarFormat* best = nullptr;
  for (const ScalarFormat& f : scalar_formats())
    if (accepts(unit, f.name) && (best == nullptr || f.exponent_bits > best->exponent_bits)) best = &f;
  return std::string(best->name);
}

TEST(DotBoundSharp, a_matrix_unit_that_cuts_one_bit_earlier_exceeds_every_bound_of_the_declared_one) {
  std::size_t checked = 0;
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.combine != Combine::truncate || unit.rounding != Rounding::toward_zero) continue;
    const std::string format = widest(unit);
    MatrixUnit wrong = unit;
    wrong.fraction_bits -= 1;
    const Accumulator how = accumulator(unit.name);
    for (const std::size_t blocks : {1U, 3U}) {
      const Terms t = cut_products(unit, blocks, format, false);
      const double good = t.error(fused_dot(unit, t.left(format), t.right(format), 0));
      const double bad = t.error(fused_dot(wrong, t.left(format), t.right(format), 0));
      const double whole =
          dot_bound(how, dot_magnitudes(t.left(format), t.right(format), 0, how), 0, {unit.group, 1});
      EXPECT_LE(good, whole) << unit.name << " blocks=" << blocks;
      EXPECT_GT(bad, unit.group > 4 ? whole : 0) << unit.name << " blocks=" << blocks;
      ++checked;
    }
    // Two levels: every partial sum from zero.
    wrong.fraction_bits -=
        scalar_format(format).fraction_bits < 5 ? 2 : 1;  // their products are 3/4 of a power of two
    const Terms t = cut_products(wrong, 3, format, true);
    const DotMagnitudes m = dot_magnitudes(t.left(format), t.right(format), 0, how);
    EXPECT_LE(t.error(promoted_dot(unit, t.left(format), t.right(format), 0, 1)),
              dot_bound(how, m, 1, {unit.group, 1}))
        << unit.name;
    if (unit.group > 4) {
      EXPECT_GT(t.error(promoted_dot(wrong, t.left(format), t.right(format), 0, 1)),
                dot_bound(how, m, 1, {unit.group, 1}))
          << unit.name;
    }
  }
  EXPECT_GE(checked, 20U);
}

// Units that only round: every block sums exactly and rounds once, or adds in some order of f32. A sum that
// is kept in 20 bits exceeds their bounds.
TEST(DotBoundSharp, a_unit_that_only_rounds_is_exceeded_by_a_sum_in_20_bits) {
  const Precision wrong{20, -126, 127};
  std::size_t checked = 0;
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.combine != Combine::exact && unit.combine != Combine::pairwise_flush) continue;
    const std::string format = widest(unit);
    Terms t;
    t.add(1, 1);
    for (int k = 1; k < 4 * unit.group; ++k)
      t.add(0x1.8p-10, 0x1p-11);  // 3/4 of half a unit of 20 bits at 1: lost
    const Accumulator how = accumulator(unit.name);
    const double good = t.error(fused_dot(unit, t.left(format), t.right(format), 0));
    const double bad = t.error(ordered_dot({wrong}, t.a, t.b));
    const double whole = dot_bound(how, dot_magnitudes(t.left(format), t.right(format), 0, how));
    EXPECT_LE(good, whole) << unit.name;
    EXPECT_GT(bad, whole) << unit.name;
    ++checked;
  }
  EXPECT_GE(checked, 8U);
}

TEST(DotBoundSharp, a_zero_has_no_head_and_a_subnormal_operand_that_of_its_format) {
  EXPECT_EQ(product_head(0, "f16", 3, "f16"), 0);
  EXPECT_EQ(product_head(3, "f16", 0, "f16"), 0);
  EXPECT_EQ(product_head(3, "f16", 5, "f16"), 8);
  EXPECT_EQ(product_head(0x1p-20, "f16", 1, "f16"), 0x1p-14);
  EXPECT_EQ(product_head(1, "f16", 0x1p-20, "f16"), 0x1p-14);
}

// Promoted sums of a unit whose blocks are two-level themselves: single-level accumulation in 14 bits is no
// such sum, nor is a register in 20 bits. More promotions err more, and a promotion of everything at once
// errs as none.
TEST(DotBoundSharp, of_a_two_level_unit_more_promotions_cost_more_roundings_and_20_bits_exceed_all_of_them) {
  const Accumulator how = accumulator("hopper_fp8_mma_sync");
  const std::string format = "e5m2";
  Terms t;
  t.add(1, 1);
  for (int k = 2; k < 8 * 32; ++k) t.add(0x1.8p-10, 0x1p-11);
  t.add(0x1p-14, 0x1p-14);  // below the last bit of 1: without it nothing could be rounded
  const DotMagnitudes m = dot_magnitudes(t.left(format), t.right(format), 0, how);
  const Blocking whole{32, 1};
  const double none = dot_bound(how, m, 0, whole), one = dot_bound(how, m, 1, whole),
               four = dot_bound(how, m, 4, whole), all = dot_bound(how, m, 8, whole);
  EXPECT_LT(none, all);
  EXPECT_LT(all, four);
  EXPECT_LT(four, one);
  EXPECT_LT(
      one,
      2 * none);  // eight additions more, each of one rounding, beside two cuts of 17 terms in each of 8 blocks
  const double bad = t.error(ordered_dot({Precision{20, -126, 127}}, t.a, t.b));
  EXPECT_GT(bad, one);
  EXPECT_LE(t.error(fused_dot(*how.unit, t.left(format), t.right(format), 0)), none);
}

}  // namespace
}  // namespace assay
