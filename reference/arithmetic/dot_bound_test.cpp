// Every bound against the exact sum (MPFR, wide enough to be exact), on inputs made to hurt: no violation,
// ever. And against the vacuous bound: on gaussian input the ratio bound / error is reported and limited.
#include "reference/arithmetic/dot_bound.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/arithmetic/adversarial.hpp"
#include "reference/arithmetic/exact_sum.hpp"
#include "reference/arithmetic/ordered_testing.hpp"

namespace assay {
namespace {

using adversarial::Exact;
using adversarial::Random;

struct Case {
  std::vector<float> a, b, as, bs;
  double c = 0;
  std::string a_format, b_format;
  Operand left() const { return {a, a_format, as}; }
  Operand right() const { return {b, b_format, bs}; }
  double scale(const MatrixUnit* unit, std::size_t k) const {
    if (unit == nullptr || unit->scale_block == 0) return 1;
    const std::size_t s = k / static_cast<std::size_t>(unit->scale_block);
    return static_cast<double>(as[s]) * static_cast<double>(bs[s]);
  }
  void exact(const MatrixUnit* unit, Exact& sum) const {
    sum.add(c);
    for (std::size_t k = 0; k < a.size(); ++k) sum.add(a[k], b[k], scale(unit, k));
  }
};

Case unit_case(const MatrixUnit& unit, Random& random) {
  Case p;
  std::vector<std::string> inputs;
  for (const ScalarFormat& f : scalar_formats()) {
    if (accepts(unit, f.name)) inputs.emplace_back(f.name);
  }
  p.a_format = inputs[random() % inputs.size()];
  p.b_format = inputs[random() % inputs.size()];
  const auto n = 1 + random() % static_cast<std::uint64_t>(6 * unit.group);
  p.a = adversarial::operand(adversarial::Values(p.a_format), random, n);
  p.b = adversarial::operand(adversarial::Values(p.b_format), random, n);
  p.as = adversarial::scales(unit, random, n);
  p.bs = adversarial::scales(unit, random, n);
  p.c = adversarial::accumulator_value(
      unit, random, static_cast<double>(p.a[0]) * static_cast<double>(p.b[0]) * p.scale(&unit, 0));
  return p;
}

TEST(DotBound, of_every_matrix_unit_is_never_violated) {
  Random random(31);
  std::size_t checked = 0, infinite = 0;
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.combine == Combine::wrap) continue;
    const Accumulator how = accumulator(unit.name);
    for (int i = 0; i < 900; ++i) {
      const Case p = unit_case(unit, random);
      const DotMagnitudes m = dot_magnitudes(p.left(), p.right(), p.c, how);
      Exact exact;
      p.exact(&unit, exact);
      for (const int promote : {0, 1, 3}) {
        const double got = promoted_dot(unit, p.left(), p.right(), p.c, promote);
        const double bound = dot_bound(how, m, promote);
        if (!std::isfinite(bound)) {
          ++infinite;
          continue;
        }
        ASSERT_LE(exact.distance(got), bound)
            << unit.name << " n=" << p.a.size() << " promote=" << promote << " c=" << p.c;
        ++checked;
      }
    }
  }
  std::printf("%zu bounds checked, %zu infinite (overflow possible)\n", checked, infinite);
  EXPECT_GE(checked, 100000U);
  EXPECT_LT(infinite, checked / 2);
}

TEST(DotBound, of_scalar_accumulators_is_never_violated_in_any_order) {
  Random random(32);
  std::size_t checked = 0;
  for (const char* name : {"f64", "f32", "f16", "bf16"}) {
    const Accumulator how = accumulator(name);
    for (int i = 0; i < 3000; ++i) {
      const std::size_t n = 1 + random() % 200;
      Case p;
      const char* formats[] = {"f16", "bf16", "e4m3fn", "f32"};
      const adversarial::Values values(formats[random() % 4]);
      p.a = adversarial::operand(values, random, n);
      p.b = adversarial::operand(values, random, n);
      if (random() % 2 == 0)
        p.c = round_to_precision(adversarial::accumulator_value(matrix_unit("hopper_f16"), random, 1),
                                 how.precision);
      if (!std::isfinite(p.c)) p.c = 0;
      const DotMagnitudes m = dot_magnitudes(p.left(), p.right(), p.c, how);
      Exact exact;
      p.exact(nullptr, exact);
      for (const SumOrder order : {SumOrder::sequential, SumOrder::tree, SumOrder::lanes}) {
        for (const bool fused : {false, true}) {
          const OrderedSum sum{how.precision, order, 1 + static_cast<int>(random() % 16), fused};
          const double got = ordered_dot(sum, p.a, p.b, p.c);
          const double any = dot_bound(how, m);
          const double ordered =
              dot_bound_ordered(how.precision, addition_depth(sum, static_cast<std::int64_t>(n)), m);
          if (!std::isfinite(any)) continue;
          ASSERT_LE(exact.distance(got), any)
              << name << " n=" << n << " order " << static_cast<int>(order) << " fused " << fused;
          ASSERT_LE(exact.distance(got), ordered)
              << name << " n=" << n << " order " << static_cast<int>(order) << " fused " << fused;
          checked += 2;
        }
      }
    }
  }
  std::printf("%zu bounds checked\n", checked);
  EXPECT_GE(checked, 50000U);
}

// A bound that a broken accumulator cannot exceed would be worthless: the same arithmetic with one fault must
// exceed the bound of the declared one.
TEST(DotBound, is_exceeded_by_an_accumulator_narrower_than_declared) {
  Random random(34);
  std::normal_distribution<float> normal;
  std::vector<float> a(4096), b(4096);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(round_to(scalar_format("e4m3fn"), 1 + std::fabs(normal(random))));
    b[i] = static_cast<float>(round_to(scalar_format("e4m3fn"), 1 + std::fabs(normal(random))));
  }
  Exact exact;
  for (std::size_t i = 0; i < a.size(); ++i) exact.add(a[i], b[i]);
  const auto error = [&](double got) { return exact.distance(got); };
  const Operand x{a, ""}, y{b, ""};
  const auto bound = [&](const char* name, std::int64_t promote = 0) {
    const Accumulator how = accumulator(name);
    return dot_bound(how, dot_magnitudes(x, y, 0, how), promote);
  };
  const MatrixUnit& fp8 = matrix_unit("hopper_fp8");
  // Declared Blackwell's 25 bits, or f32, but 14-bit single-level accumulation ran.
  EXPECT_GT(error(fused_dot(fp8, x, y, 0)), bound("blackwell_fp8"));
  EXPECT_GT(error(fused_dot(fp8, x, y, 0)), bound("f32"));
  // Declared promotion every 4 blocks, but none happened.
  EXPECT_GT(error(fused_dot(fp8, x, y, 0)), bound("hopper_fp8", 4));
  EXPECT_LE(error(promoted_dot(fp8, x, y, 0, 4)), bound("hopper_fp8", 4));
  // Declared f32, but the sum was kept in bf16.
  EXPECT_GT(error(ordered_dot({kPrecisionBf16}, a, b)), bound("f32"));
  EXPECT_LE(error(ordered_dot({kPrecisionF32}, a, b)), bound("f32"));
}

TEST(DotBound, is_not_vacuous_on_gaussian_input) {
  Random random(35);
  std::normal_distribution<float> normal;
  constexpr std::size_t kN = 128;
  constexpr int kCases = 60;
  std::printf("median bound / error in any order, gaussian, n = %zu\n", kN);
  for (const char* name : {"f32", "f16", "bf16", "v100_f16", "a100_bf16", "hopper_f16", "hopper_fp8",
                           "cdna2_f16", "cdna3_f16", "rdna4_f16"}) {
    const Accumulator how = accumulator(name);
    const std::string format(how.unit != nullptr ? adversarial::default_input(*how.unit) : "f16");
    std::vector<double> ratios;
    for (int i = 0; i < kCases; ++i) {
      Case p;
      p.a_format = p.b_format = format;
      for (std::size_t k = 0; k < kN; ++k) {
        p.a.push_back(static_cast<float>(round_to(scalar_format(format), normal(random))));
        p.b.push_back(static_cast<float>(round_to(scalar_format(format), normal(random))));
      }
      Exact exact;
      p.exact(nullptr, exact);
      const bool unit = how.unit != nullptr;
      const double got =
          unit ? fused_dot(*how.unit, p.left(), p.right(), 0) : ordered_dot({how.precision}, p.a, p.b);
      const double error = exact.distance(got);
      if (error == 0) continue;
      const Blocking whole{unit ? how.unit->group : 1, 1};
      ratios.push_back(dot_bound(how, dot_magnitudes(p.left(), p.right(), 0, how), 0, whole) / error);
    }
    ASSERT_GE(ratios.size(), 20U) << name << " was nearly always exact: choose inputs that are not";
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    const double median = *middle;
    std::printf("  %-20s %8.1f\n", name, median);
    EXPECT_GE(*std::min_element(ratios.begin(), ratios.end()), 1);
    // Every rounding in full against a random walk costs sqrt(n), sum|ab| against |partial sum| another
    // sqrt(n). Constants: a power of two rounded up (2), the mean of a uniform error against its maximum (2),
    // the median of |gaussian| against its size (1.5), all terms of a block cut (2 to 3).
    EXPECT_LT(median, 16.0 * kN) << name;
  }
}

TEST(DotBound, says_infinity_when_overflow_or_too_many_roundings_forbid_a_bound) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(dot_bound(accumulator("f16"), {4, 70000, 0, 0, 0}), inf);
  EXPECT_LT(dot_bound(accumulator("f16"), {4, 60000, 0, 0, 0}), 200);
  EXPECT_EQ(dot_bound(accumulator("bf16"), {256, 1, 0, 0, 0}), inf);  // n u = 1
  EXPECT_EQ(dot_bound(accumulator("i32"), {4, 1e9, 0, 0, 0}), 0);
  EXPECT_EQ(dot_bound(accumulator("i32"), {4, 3e9, 0, 0, 0}), inf);
  EXPECT_EQ(dot_bound(accumulator("int8_dot"), {4, 3e9, 0, 0, 0}), inf);
  EXPECT_EQ(dot_bound(accumulator("f32"), {4, std::nan(""), 0, 0, 0}), inf);
}

}  // namespace
}  // namespace assay
