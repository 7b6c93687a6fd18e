#include "reference/ops/attention/limits/bounds.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "reference/error.hpp"
#include "reference/ops/attention/limits/bounds_figures.hpp"
#include "reference/ops/attention/limits/bounds_testing.hpp"

namespace assay {
namespace {

TEST(AttentionBounds, correct_kernels_of_every_arithmetic_stay_within_every_level_on_every_fill) {
  const std::array<std::int64_t, 3> sizes{64, 100, 300};
  const Tally tally = judge_all(sizes, 64, 32, 1);
  EXPECT_GE(tally.outputs, 20000);
  EXPECT_EQ(tally.violations, (std::array<std::int64_t, 4>{}));
}

// Everything a row may have besides q, K and V, in random combinations; shapes that no tile divides.
TEST(AttentionBounds, masks_sinks_biases_soft_caps_scales_splits_and_ragged_shapes_stay_within_every_level) {
  Tally tally;
  std::mt19937_64 random(20);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  std::vector<float> bias;
  for (int round = 0; round < 12; ++round) {
    for (TestKernel kernel : test_kernels()) {
      const Design fill = kDesigns[random() % kDesigns.size()];
      const auto keys = static_cast<std::int64_t>(1 + random() % 400),
                 d = static_cast<std::int64_t>(33 + random() % 60);
      AttentionFill f = attention_fill(fill, keys, d, 16, std::string(kernel.q), std::string(kernel.k),
                                       std::string(kernel.v), random());
      QueryRow row = f.row();
      if (one_in(2)) {
        f.visible.resize(static_cast<std::size_t>(keys));
        const std::uint64_t hidden = random() % static_cast<std::uint64_t>(keys);  // whole tiles among them
        for (std::size_t j = 0; j < f.visible.size(); ++j) f.visible[j] = j >= hidden && !one_in(3);
        row.visible = f.visible;
      }
      if (one_in(3)) row.sink = static_cast<float>(random() % 8) - 2.25f;
      if (one_in(3)) row.softcap = 20;
      if (one_in(3)) row.v_scale = 0.37;
      if (one_in(3)) {
        bias.resize(static_cast<std::size_t>(keys));
        for (std::size_t j = 0; j < bias.size(); ++j)
          bias[j] = -0.01f * static_cast<float>(bias.size() - 1 - j);
        row.bias = bias;
      }
      kernel.how.base2 = kernel.how.base2 != one_in(3);
      kernel.how.denominator_cast = kernel.how.denominator_cast != one_in(4);
      if (one_in(3)) kernel.how.split = 1 + static_cast<std::int64_t>(random() % 5);
      judge(kernel, f, row, fill, tally);
    }
  }
  EXPECT_GE(tally.outputs, 4000);
  EXPECT_EQ(tally.violations, (std::array<std::int64_t, 4>{}));
}

// detap assumes no order: a kernel that meets the keys in any permutation keeps the limit of the unpermuted
// row.
TEST(AttentionBounds, the_order_free_limit_holds_for_every_order_of_the_keys) {
  std::mt19937_64 random(3);
  std::int64_t outputs = 0;
  for (const TestKernel& kernel : test_kernels()) {
    for (const Design fill :
         {Design::gaussian, Design::ramp, Design::needle, Design::low_logits, Design::equal_onehot}) {
      const AttentionFill f = attention_fill(fill, 512, 64, 32, std::string(kernel.q), std::string(kernel.k),
                                             std::string(kernel.v), random());
      const RowBounds r = AttentionBounds(kernel.how, f.kv()).row(f.row(), AttentionLevel::detap);
      std::vector<std::size_t> order(static_cast<std::size_t>(f.keys));
      std::iota(order.begin(), order.end(), 0);
      AttentionFill moved = f;
      std::vector<float> out(static_cast<std::size_t>(f.dv));
      for (int round = 0; round < 3; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        if (round == 0) {  // ascending by logit: the maximum rises in every tile
          std::vector<float> s(order.size());
          AttentionEmulator(kernel.how, f.kv()).scores(f.row(), s);
          std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return s[a] < s[b]; });
        }
        for (std::size_t j = 0; j < order.size(); ++j) {
          std::copy_n(f.k.data() + order[j] * 64, 64, moved.k.data() + j * 64);
          std::copy_n(f.v.data() + order[j] * 32, 32, moved.v.data() + j * 32);
        }
        AttentionEmulator(kernel.how, moved.kv()).run(f.row(), out);
        for (std::size_t c = 0; c < out.size(); ++c) {
          EXPECT_LE(std::fabs(static_cast<double>(out[c]) - r.centre[c]), r.limit[c])
              << kernel.name << " " << fill;
          ++outputs;
        }
      }
    }
  }
  EXPECT_GE(outputs, 10000);
}

// An exp of 3000 ulps makes its error the only one that matters, at every rescale of every fill.
TEST(AttentionBounds, an_exp_as_bad_as_it_is_declared_stays_within_every_level) {
  Tally tally;
  for (TestKernel kernel : test_kernels()) {
    kernel.how.exp_ulp = 3000;
    for (const Design fill : kDesigns) {
      const AttentionFill f = attention_fill(fill, 300, 64, 16, std::string(kernel.q), std::string(kernel.k),
                                             std::string(kernel.v), 9);
      judge(kernel, f, f.row(), fill, tally);
    }
  }
  EXPECT_EQ(tally.outputs, 16 * std::ssize(test_kernels()) * std::ssize(kDesigns));
  EXPECT_EQ(tally.violations, (std::array<std::int64_t, 4>{}));
}

TEST(AttentionBounds, limits_are_as_sharp_as_promised) {
  for (const AttentionBoundFigure& figure : attention_bound_figures()) {
    fmt::print("{} {:.3g} {:.3g}\n", figure.name, figure.value, figure.limit);
    EXPECT_LE(figure.value, figure.limit) << figure.name;
  }
}

TEST(AttentionBounds, a_row_that_sees_no_key_is_exactly_zero) {
  const TestKernel kernel = test_kernels()[2];
  AttentionFill f = attention_fill(Design::gaussian, 100, 64, 16, "f16", "f16", "f16", 1);
  f.visible.assign(100, 0);
  for (const AttentionLevel level : kLevels) {
    const RowBounds r = AttentionBounds(kernel.how, f.kv()).row(f.row(), level);
    EXPECT_EQ(r.limit, std::vector<double>(16, 0.0));
    EXPECT_EQ(r.value, std::vector<double>(16, 0.0));
  }
  std::vector<float> out(16, 7.0f);
  AttentionEmulator(kernel.how, f.kv()).run(f.row(), out);
  EXPECT_EQ(out, std::vector<float>(16, 0.0f));
}

TEST(AttentionBounds, levels_and_arithmetics_that_cannot_be_are_named_errors) {
  const AttentionFill f = attention_fill(Design::gaussian, 100, 64, 16, "f16", "f16", "f16", 1);
  EXPECT_THROW(attention_level("best"), InputError);
  AttentionArithmetic how = test_kernels()[2].how;
  how.tile = 40;  // the unit fuses 16 products
  EXPECT_THROW(AttentionBounds(how, f.kv()), InputError);
  how.tile = 64, how.p = "e4m3fn";  // the unit takes f16
  EXPECT_THROW(AttentionEmulator(how, f.kv()), InputError);
  how.p = "f16", how.sequential = false;
  EXPECT_THROW(AttentionBounds(how, f.kv()).row(f.row(), AttentionLevel::ca), InputError);
  EXPECT_NO_THROW(AttentionBounds(how, f.kv()).row(f.row(), AttentionLevel::detap));
}

// Products that need no alignment are no sums without rounding: 576 - 120 - 15.125 is a tie in the 11 bits of
// the unit's register.
TEST(AttentionBounds, halves_that_a_unit_rounds_apart_to_f16_are_counted) {
  const std::vector<float> q(4, 448.0F),
      k{0, 0, 0, 0, 1.5F,    -0.234375F, 0.875F, 0.203125F,   0.5625F, -2.0F,
        0, 0, 0, 0, -1.375F, -1.0F,      0.875F, 0.02734375F, -1.5F,   -0.5625F},
      v{-1.5F, 2.25F, 0.34375F, -0.6875F, -0.34375F};
  AttentionArithmetic how;
  how.qk = how.pv = "blackwell_fp8_mma_sync_f16out", how.p = "e4m3fn", how.out = "f16";
  how.p_shift = 8, how.tile = 64, how.exp_ulp = 1, how.chunk = how.promote = 0;
  const KeyValues kv{5, 4, 1, k, v, "e4m3fn", "e4m3fn"};
  const std::vector<std::uint8_t> visible(5, 1);
  QueryRow row;
  row.q = q, row.q_format = "e4m3fn", row.visible = visible;
  row.scale = 0.5 / 448, row.softcap = 5;
  std::vector<float> out(1);
  AttentionEmulator(how, kv).run(row, out);
  const RowBounds r = AttentionBounds(how, kv).row(row, AttentionLevel::emu);
  EXPECT_LE(std::fabs(static_cast<double>(out[0]) - r.centre[0]), r.limit[0]);
  EXPECT_GT(std::fabs(r.centre[0]), r.limit[0]);  // zeros would be seen
}

}  // namespace
}  // namespace assay
