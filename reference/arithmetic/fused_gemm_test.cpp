// The vector form against the scalar model, bit for bit, on every instruction set that this machine runs.
#include "reference/arithmetic/fused_gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "hwy/targets.h"
#include "reference/arithmetic/adversarial.hpp"
#include "reference/arithmetic/fused_tile.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

using adversarial::Random;

// Any two NaN are the same; otherwise the same bits.
bool same(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) ||
         std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

struct Problem {
  std::int64_t m, n, k;
  std::string a_format, b_format;
  std::vector<float> a, b, a_scales, b_scales, c, expected;
  int promote;
};

void expect(const MatrixUnit& unit, Problem& p) {
  const auto k = static_cast<std::size_t>(p.k);
  const auto row = [&](const std::vector<float>& x, const std::vector<float>& s, std::int64_t r,
                       std::string_view format) {
    const std::size_t per = s.size() / (x.size() / k);
    return Operand{std::span(x).subspan(static_cast<std::size_t>(r) * k, k), format,
                   std::span(s).subspan(static_cast<std::size_t>(r) * per, per)};
  };
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      p.expected.push_back(static_cast<float>(promoted_dot(unit, row(p.a, p.a_scales, i, p.a_format),
                                                           row(p.b, p.b_scales, j, p.b_format),
                                                           p.c[p.expected.size()], p.promote)));
    }
  }
}

Problem make(const MatrixUnit& unit, Random& random, bool specials) {
  Problem p;
  p.m = 1 + static_cast<std::int64_t>(random() % 9);
  p.n = 1 + static_cast<std::int64_t>(random() % 40);
  p.k = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(3 * unit.group));
  p.promote = random() % 3 == 0 ? 1 + static_cast<int>(random() % 2) : 0;
  std::vector<std::string> inputs;
  for (const ScalarFormat& f : scalar_formats()) {
    if (accepts(unit, f.name)) inputs.emplace_back(f.name);
  }
  p.a_format = inputs[random() % inputs.size()];
  p.b_format = inputs[random() % inputs.size()];
  const adversarial::Values av(p.a_format), bv(p.b_format);
  const auto k = static_cast<std::size_t>(p.k);
  const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (std::int64_t i = 0; i < p.m; ++i)
    append(p.a, adversarial::operand(av, random, k)),
        append(p.a_scales, adversarial::scales(unit, random, k));
  for (std::int64_t j = 0; j < p.n; ++j)
    append(p.b, adversarial::operand(bv, random, k)),
        append(p.b_scales, adversarial::scales(unit, random, k));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  if (specials) {
    for (int i = 0; i < 3; ++i) p.a[random() % p.a.size()] = random() % 2 == 0 ? nan : inf;
    if (random() % 2 == 0) p.b[random() % p.b.size()] = -inf;
  }
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      const double size = static_cast<double>(p.a[static_cast<std::size_t>(i * p.k)]) *
                          static_cast<double>(p.b[static_cast<std::size_t>(j * p.k)]);
      p.c.push_back(adversarial::accumulator_value(unit, random, std::isfinite(size) ? size : 1.0));
      if (specials && random() % 8 == 0) p.c.back() = random() % 2 == 0 ? -inf : nan;
    }
  }
  expect(unit, p);
  return p;
}

// Number of dots compared.
std::size_t compare(const MatrixUnit& unit, const Problem& p, const char* target) {
  std::vector<float> c = p.c;
  const PackedOperand a(unit, PackedOperand::Side::a, p.a_format, p.a.data(), p.m, p.k, p.k, p.a_scales);
  const PackedOperand b(unit, PackedOperand::Side::b, p.b_format, p.b.data(), p.n, p.k, p.k, p.b_scales);
  fused_gemm(unit, a, b, c.data(), p.n, {p.promote});
  std::size_t bad = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (same(c[i], p.expected[i])) continue;
    if (bad++ == 0) {
      ADD_FAILURE() << unit.name << " on " << target << " " << p.a_format << " x " << p.b_format
                    << " k=" << p.k << " promote=" << p.promote << " element " << i << ": got "
                    << std::hexfloat << c[i] << ", model " << p.expected[i] << ", c " << p.c[i];
    }
  }
  return c.size();
}

class Targets : public testing::Test {
 protected:
  void TearDown() override { choose(0); }
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_F(Targets, give_the_scalar_models_bits_on_a_million_adversarial_dots) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  std::set<std::string> ran;
  std::size_t dots = 0;
  Random random(20250101);
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.combine == Combine::wrap) continue;
    for (int round = 0; round < 250; ++round) {
      const Problem p = make(unit, random, round % 8 == 7);
      for (const std::int64_t target : targets) {
        choose(target);
        ran.insert(fused_tile_target());
        dots += compare(unit, p, fused_tile_target());
      }
      choose(0);
    }
    if (HasFailure()) break;
  }
  RecordProperty("dots", static_cast<int>(dots));
  std::printf("%zu dots on %zu targets, seed 20250101\n", dots, ran.size());
  EXPECT_GE(dots, 1000000U);
  EXPECT_EQ(ran.size(), targets.size());
}

// Factors whose product would be infinite: they meet in outputs (i, i) alone.
TEST_F(Targets, give_the_scalar_models_bits_where_large_factors_meet_and_where_they_do_not) {
  std::size_t infinite = 0, dots = 0;
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.combine == Combine::wrap || unit.scale_block > 0 || !accepts(unit, "bf16")) continue;
    const std::int64_t k = 2 * unit.group + 3;
    Problem p{k, k, k, "bf16", "bf16", {}, {}, {}, {}, {}, {}, 0};
    p.a.assign(static_cast<std::size_t>(k * k), 1.0F);
    p.b = p.a;
    p.c.assign(p.a.size(), 0.0F);
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i)
      p.a[i * static_cast<std::size_t>(k) + i] = 0x1p100F,
                                            p.b[i * static_cast<std::size_t>(k) + i] = -0x1p100F;
    expect(unit, p);
    infinite += static_cast<std::size_t>(
        std::ranges::count_if(p.expected, [](float x) { return !std::isfinite(x); }));
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      choose(target);
      dots += compare(unit, p, fused_tile_target());
    }
    choose(0);
  }
  EXPECT_GT(infinite, 0U);
  EXPECT_GT(dots, 20 * infinite);
}

TEST(FusedGemm, of_a_k_range_chains_into_the_same_bits_as_the_whole) {
  Random random(5);
  for (const char* name : {"hopper_fp8", "a100_f16", "cdna3_fp8", "blackwell_nvfp4", "hopper_fp8_mma_sync"}) {
    const MatrixUnit& unit = matrix_unit(name);
    const std::int64_t k = unit.group * 4 + 5;
    const adversarial::Values values(adversarial::default_input(unit));
    const auto n = static_cast<std::size_t>(k);
    const std::vector<float> x = adversarial::operand(values, random, n),
                             y = adversarial::operand(values, random, n);
    const std::vector<float> xs = adversarial::scales(unit, random, n),
                             ys = adversarial::scales(unit, random, n);
    const PackedOperand a(unit, PackedOperand::Side::a, "", x.data(), 1, k, k, xs);
    const PackedOperand b(unit, PackedOperand::Side::b, "", y.data(), 1, k, k, ys);
    float whole = 0, parts = 0;
    fused_gemm(unit, a, b, &whole, 1);
    fused_gemm_range(unit, a, b, 0, unit.group, &parts, 1);
    fused_gemm_range(unit, a, b, unit.group, 3 * unit.group, &parts, 1);
    fused_gemm_range(unit, a, b, 3 * unit.group, k, &parts, 1);
    EXPECT_TRUE(same(whole, parts)) << name << " " << whole << " " << parts;
    EXPECT_THROW(fused_gemm_range(unit, a, b, 1, k, &parts, 1), InputError);
  }
}

TEST(FusedGemm, refuses_operands_that_do_not_fit) {
  const MatrixUnit& fp8 = matrix_unit("hopper_fp8");
  const float good[4] = {1, 2, 0.5, -448};
  const float between[4] = {1, 2, 0.3f, 1};
  const float large[4] = {1, 2, 480, 1};
  using Side = PackedOperand::Side;
  EXPECT_THROW(PackedOperand(fp8, Side::a, "", between, 1, 4, 4), InputError);
  EXPECT_THROW(PackedOperand(fp8, Side::a, "", large, 1, 4, 4), InputError);
  EXPECT_THROW(PackedOperand(fp8, Side::a, "f16", good, 1, 4, 4), InputError);
  EXPECT_THROW(PackedOperand(fp8, Side::a, "", good, 2, 2, 1), InputError);
  EXPECT_THROW(PackedOperand(matrix_unit("blackwell_nvfp4"), Side::a, "", good, 1, 2, 2),
               InputError);  // scales missing
  EXPECT_THROW(PackedOperand(matrix_unit("int8_dot"), Side::a, "", good, 1, 2, 2), InputError);
  const PackedOperand a(fp8, Side::a, "", good, 1, 4, 4);
  const PackedOperand b(fp8, Side::b, "", good, 1, 3, 4);
  float c = 0;
  EXPECT_THROW(fused_gemm(fp8, a, b, &c, 1), InputError);
  EXPECT_THROW(fused_gemm(fp8, a, a, &c, 1), InputError);
}

TEST(FusedGemm, int8_wraps_as_the_scalar_model_does) {
  const std::vector<std::int8_t> x(8, 127), y(8, 127);
  std::int32_t c = 2147483647 - 5;
  int8_gemm(1, 1, 8, x.data(), y.data(), &c, 1);
  const std::vector<float> xf(8, 127.0f);
  EXPECT_EQ(c, fused_dot(matrix_unit("int8_dot"), {xf, ""}, {xf, ""}, 2147483647.0 - 5));
  EXPECT_LT(c, 0);
}

}  // namespace
}  // namespace assay
