// The limits can fail: kernels that are not what they declare leave them, on the fill and from the level
// named; the kernel that keeps the same declaration does not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/bounds_test_kernels.hpp"
#include "reference/ops/attention/test_fills.hpp"

namespace assay {
namespace {

using enum AttentionLevel;

std::int64_t outside(const RowBounds& r, std::span<const float> out) {
  std::int64_t count = 0;
  for (std::size_t c = 0; c < out.size(); ++c) {
    const double got = out[c];
    const bool ok = std::fabs(got - r.centre[c]) <= r.limit[c] && r.low[c] <= got && got <= r.high[c];
    count += !ok;
  }
  return count;
}

struct Wrong {
  std::string_view kernel;  // the declaration, a row of test_kernels()
  Design fill;
  std::int64_t keys;
  AttentionLevel level;  // from which on it must be seen
  std::function<void(AttentionArithmetic&, QueryRow&)> change = [](auto&, auto&) {};
};

const TestKernel& kernel(const std::vector<TestKernel>& all, std::string_view name) {
  for (const TestKernel& k : all) {
    if (k.name == name) return k;
  }
  ADD_FAILURE() << "no kernel " << name;
  return all.front();
}

void expect_seen(const Wrong& wrong, const AttentionSteps& steps = AttentionSteps{}) {
  const std::vector<TestKernel> all = test_kernels();
  const TestKernel& declared = kernel(all, wrong.kernel);
  const AttentionFill f = attention_fill(wrong.fill, wrong.keys, 64, 64, std::string(declared.q),
                                         std::string(declared.k), std::string(declared.v), 11);
  std::vector<float> good(static_cast<std::size_t>(f.dv)), bad(good.size());
  AttentionEmulator(declared.how, f.kv()).run(f.row(), good);
  AttentionArithmetic how = declared.how;
  QueryRow row = f.row();
  wrong.change(how, row);
  AttentionEmulator(how, f.kv()).run(row, bad, steps);
  const AttentionBounds bounds(declared.how, f.kv());
  for (const AttentionLevel level : {detap, detord, ca, emu}) {
    const RowBounds r = bounds.row(f.row(), level);
    EXPECT_EQ(outside(r, good), 0) << "the correct kernel at level " << static_cast<int>(level);
    if (level >= wrong.level) {
      EXPECT_GT(outside(r, bad), 0) << "the wrong kernel at level " << static_cast<int>(level);
    }
  }
}

TEST(AttentionBoundsCatch, a_single_level_sum_that_is_declared_two_level) {
  expect_seen(
      {"hopper_fp8_two_level", Design::gaussian, 1024, emu, [](auto& how, auto&) { how.promote = 0; }});
  expect_seen(
      {"hopper_fp8_promote32", Design::gaussian, 4096, emu, [](auto& how, auto&) { how.promote = 0; }});
}

TEST(AttentionBoundsCatch, the_other_fp8_path_of_the_same_chip) {
  expect_seen({"hopper_fp8_mma_sync", Design::gaussian, 1024, ca,
               [](auto& how, auto&) { how.qk = how.pv = "hopper_fp8"; }});
  expect_seen({"hopper_fp8", Design::gaussian, 1024, emu,
               [](auto& how, auto&) { how.qk = how.pv = "hopper_fp8_mma_sync"; }});
}

TEST(AttentionBoundsCatch, weights_in_e4m3fn_that_are_declared_f16) {
  struct Steps : AttentionSteps {
    float weight(std::int64_t, float w) const override {
      return std::ldexp(static_cast<float>(round_to(scalar_format("e4m3fn"), std::ldexp(w, 8))), -8);
    }
  };
  expect_seen({"hopper_f16", Design::ramp, 1000, detap}, Steps{});
  expect_seen({"hopper_f16", Design::gaussian, 4096, ca}, Steps{});
}

TEST(AttentionBoundsCatch, an_f16_accumulator_that_is_declared_f32) {
  const auto f16 = [](auto& how, auto&) { how.pv = "f16"; };
  expect_seen({"f32_f16kv_base2", Design::gaussian, 4096, detap, f16});
  expect_seen({"f32_f16kv_base2", Design::constant, 4096, detap, f16});
  expect_seen(
      {"hopper_f16", Design::gaussian, 4096, detord, [](auto& how, auto&) { how.pv = "hopper_f16_f16out"; }});
  expect_seen({"f32_f16kv_base2", Design::huge_logits, 300, detap, [](auto& how, auto&) { how.qk = "f16"; }});
}

TEST(AttentionBoundsCatch, a_scale_that_is_one_percent_off) {
  const auto off = [](auto&, auto& row) { row.scale *= 1.01; };
  expect_seen({"f32_f16kv_base2", Design::needle, 4096, detap, off});
  expect_seen({"hopper_f16", Design::needle, 4096, detap, off});
  expect_seen({"hopper_fp8_promote32", Design::needle, 4096, emu, off});
}

TEST(AttentionBoundsCatch, a_dropped_key) {
  static std::vector<std::uint8_t> visible;
  const auto drop = [](auto&, auto& row) {
    visible.assign(row.visible.empty() ? 300 : row.visible.size(), 1);
    visible[visible.size() / 2] = 0;
    row.visible = visible;
  };
  expect_seen({"hopper_f16", Design::equal_onehot, 300, detap, drop});
  expect_seen({"hopper_fp8_promote32", Design::equal_onehot, 300, detap, drop});
}

TEST(AttentionBoundsCatch, a_tile_that_is_run_twice) {
  struct Steps : AttentionSteps {
    int visits(std::int64_t tile) const override { return tile == 1 ? 2 : 1; }
  };
  expect_seen({"hopper_f16", Design::window_onehot, 1000, detap}, Steps{});
  expect_seen({"hopper_fp8_two_level", Design::window_onehot, 1000, detap}, Steps{});
}

TEST(AttentionBoundsCatch, a_missing_rescale) {
  struct Output : AttentionSteps {
    float rescale_output(std::int64_t, float) const override { return 1; }
  };
  struct Both : Output {
    float rescale_sum(std::int64_t, float) const override { return 1; }
  };
  expect_seen({"hopper_f16", Design::ramp, 1000, detap}, Output{});
  expect_seen({"hopper_f16", Design::ramp, 1000, detap}, Both{});
  expect_seen({"hopper_fp8_two_level", Design::ramp, 1000, detap}, Both{});
}

TEST(AttentionBoundsCatch, a_maximum_that_starts_at_zero) {
  struct Steps : AttentionSteps {
    float initial_max() const override { return 0; }
  };
  expect_seen({"hopper_f16", Design::low_logits, 300, detap}, Steps{});
}

TEST(AttentionBoundsCatch, parts_that_are_merged_without_their_weights) {
  struct Steps : AttentionSteps {
    float split_weight(std::int64_t, float) const override { return 1; }
  };
  expect_seen({"hopper_f16_split", Design::ramp, 600, detap}, Steps{});
}

TEST(AttentionBoundsCatch, an_exp_two_thousand_times_worse_than_declared) {
  const auto worse = [](auto& how, auto&) { how.exp_ulp = 4000; };
  expect_seen({"f32", Design::needle, 1000, detord, worse});
  expect_seen({"f32", Design::gaussian, 1000, emu, worse});
}

TEST(AttentionBoundsCatch, logits_that_pass_through_f16) {
  struct Steps : AttentionSteps {
    float logit(std::int64_t, float x) const override {
      return static_cast<float>(round_to(scalar_format("f16"), x));
    }
  };
  expect_seen({"hopper_f16", Design::low_logits, 1000, detap}, Steps{});
  expect_seen({"hopper_f16", Design::gaussian, 4096, ca}, Steps{});
}

}  // namespace
}  // namespace assay
