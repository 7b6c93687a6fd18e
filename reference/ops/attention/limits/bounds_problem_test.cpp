// The levels through the op's row: an emulated kernel run on the tensors of a case stays within each level
// that its contract names; with a wrong operand or a wrong scale it does not.
#include "reference/ops/attention/limits/bounds_problem.hpp"
#include "reference/arithmetic/gamma.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "reference/error.hpp"
#include "reference/ops/attention/attention.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/judged.hpp"

namespace assay {
namespace {

struct Case {
  Attributes attributes;
  TensorSet inputs;
};

Case make_case(const std::map<std::string, std::string>& given, std::uint64_t seed) {
  Case c{Attributes::complete(kAttention.attributes, given), {}};
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  kAttention.indices(c.attributes, seed, c.inputs);
  for (const TensorSpec& spec : kAttention.tensors(c.attributes)) {
    if (spec.role != TensorRole::data) continue;
    std::vector<float> values(static_cast<std::size_t>(element_count(spec.shape)));
    for (float& x : values) x = normal(random);
    c.inputs.insert_or_assign(spec.name, encode_tensor(format(spec.format), spec.shape, values));
  }
  return c;
}

// What a correct kernel of this contract gives for row (0, i, head); per-tensor scales stay outside.
std::vector<float> kernel_row(const AttentionProblem& problem, const AttentionArithmetic& how, std::int64_t i,
                              std::int64_t head, std::string_view k_format, double k_scale, double v_scale,
                              double scale_factor = 1) {
  const AttentionGeometry& g = problem.geometry();
  const std::int64_t keys = problem.length(0);
  std::vector<double> k(static_cast<std::size_t>(keys * g.d)), v(static_cast<std::size_t>(keys * g.dv));
  problem.decode_k(0, problem.kv_head(head), 0, keys, k.data());
  problem.decode_v(0, problem.kv_head(head), 0, keys, v.data());
  std::vector<float> kf, vf, q;
  for (const double x : k) kf.push_back(static_cast<float>(x / k_scale));
  for (const double x : v) vf.push_back(static_cast<float>(x / v_scale));
  for (const double x : problem.q(0, i, head)) q.push_back(static_cast<float>(x));
  std::vector<std::uint8_t> visible(static_cast<std::size_t>(keys));
  for (std::int64_t j = 0; j < keys; ++j) visible[j] = problem.visible(0, i, j);
  QueryRow row;
  row.q = q, row.q_format = g.dtype, row.visible = visible;
  row.scale = g.scale * k_scale * scale_factor, row.v_scale = v_scale, row.softcap = g.softcap;
  if (g.sinks) row.sink = static_cast<float>(problem.sink(head));
  std::vector<float> out(static_cast<std::size_t>(g.dv));
  AttentionEmulator(how, {keys, g.d, g.dv, kf, vf, std::string(k_format), std::string(k_format)})
      .run(row, out);
  return out;
}

struct Seen {
  std::int64_t outputs = 0, outside = 0;
};
Seen judge_case(const Case& c, const std::string& text, std::string_view k_format, double scale_factor = 1) {
  const Contract contract = Contract::parse(text, kAttention.contract);
  const AttentionProblem problem(c.attributes, c.inputs);
  const std::vector<Truth> truth = kAttention.truth(c.attributes, c.inputs, contract);
  const AttentionGeometry& g = problem.geometry();
  const AttentionArithmetic how = AttentionArithmetic::from(contract, g.dtype);
  const auto scale_of = [](const Encoded& tensor) {
    float scale = 1;
    for (const Plane& plane : tensor.planes) {
      if (plane.spec.suffix == ".scale") std::memcpy(&scale, plane.bytes.data(), sizeof scale);
    }
    return static_cast<double>(scale);
  };
  Seen seen;
  for (std::int64_t i = 0; i < g.rows; ++i) {
    for (std::int64_t head = 0; head < g.heads; ++head) {
      const std::vector<float> out = kernel_row(problem, how, i, head, k_format, scale_of(problem.k()),
                                                scale_of(problem.v()), scale_factor);
      const auto at = static_cast<std::size_t>(problem.out_index(0, i, head));
      for (std::size_t e = 0; e < out.size(); ++e) {
        seen.outside +=
            !judge(static_cast<double>(out[e]), truth[0].value[at + e], truth[0].limit[at + e]).ok;
        ++seen.outputs;
      }
    }
  }
  return seen;
}

TEST(
    AttentionLevels,
    a_kernel_that_keeps_its_contract_passes_through_the_op_at_every_level_and_a_scale_one_percent_off_does_not) {
  const Case f16 = make_case({{"heads", "4"},
                              {"kv_heads", "2"},
                              {"d", "64"},
                              {"q", "3"},
                              {"len", "300"},
                              {"mask", "causal"},
                              {"sinks", "yes"}},
                             3);
  const Case fp8 = make_case({{"heads", "2"},
                              {"d", "64"},
                              {"len", "500"},
                              {"kv", "e4m3fn_tensor"},
                              {"dtype", "bf16"},
                              {"page", "16"}},
                             4);
  for (const std::string level : {"detap", "detord", "ca", "emu"}) {
    const std::string tail = " order=sequential scaling=scores sink=last tiles=aligned merge=" +
                             std::string(std::string_view(level) == "emu" ? "any" : "once") +
                             " level=" + level;
    const std::string unit = "qk=hopper_f16 p=f16 pv=hopper_f16" + tail;
    const Seen good = judge_case(f16, unit, "f16");
    EXPECT_EQ(good.outputs, 3 * 4 * 64);
    EXPECT_EQ(good.outside, 0) << level;
    const std::string scalar = "qk=f32 p=bf16 pv=f32 split=2" + tail;
    EXPECT_EQ(judge_case(fp8, scalar, "e4m3fn").outside, 0) << level;
    const std::string shifted = "qk=f32 p=e4m3fn p_shift=8 pv=hopper_fp8 promote=64" + tail;
    EXPECT_EQ(judge_case(fp8, shifted, "e4m3fn").outside, 0) << level;
    if (level == "ca" || level == "emu") {
      EXPECT_GT(judge_case(f16, unit, "f16", 1.01).outside, 0) << level;
      EXPECT_GT(judge_case(fp8, scalar, "e4m3fn", 1.01).outside, 0) << level;
    }
  }
}

// bounds.cpp sums in plain doubles; the op's value comes from certified.cpp. A row's 64 products and
// additions reach its weights multiplied by the size of a logit, here below 8, twice (numerator and row sum);
// then 300 keys are summed.
TEST(AttentionLevels, the_value_of_the_direct_form_is_the_certified_value) {
  const Case c = make_case(
      {{"heads", "4"}, {"kv_heads", "2"}, {"d", "64"}, {"q", "3"}, {"len", "300"}, {"softcap", "3"}}, 6);
  const auto truth = [&](const char* text) {
    return kAttention.truth(c.attributes, c.inputs, Contract::parse(text, kAttention.contract))[0];
  };
  const Truth direct = truth("order=sequential scaling=scores tiles=aligned level=detord"),
              certified = truth("level=detap");
  for (std::size_t i = 0; i < direct.value.size(); ++i)
    EXPECT_LE(std::fabs(direct.value[i] - certified.value[i]), gamma_n(2 * 8 * 64 + 300, 0x1p-53)) << i;
}

// Two derivations of the order-free limit, by moments (detap.cpp) and key by key, agree within a factor of
// two: a term forgotten in one of them would show.
TEST(AttentionLevels, the_order_free_limits_by_moments_and_key_by_key_agree_within_a_factor_of_two) {
  for (const char* text :
       {"qk=hopper_f16 p=f16 pv=hopper_f16", "qk=f32 p=f32 pv=f32", "qk=a100_f16 p=f16 pv=a100_f16"}) {
    const Case c = make_case({{"heads", "1"}, {"d", "64"}, {"len", "1000"}}, 8);
    const Contract contract = Contract::parse(text, kAttention.contract);
    const Truth by_moments = kAttention.truth(c.attributes, c.inputs, contract)[0];
    const AttentionProblem problem(c.attributes, c.inputs);
    std::vector<double> k(64000), v(64000);
    problem.decode_k(0, 0, 0, 1000, k.data());
    problem.decode_v(0, 0, 0, 1000, v.data());
    const std::vector<float> kf(k.begin(), k.end()), vf(v.begin(), v.end());
    const std::vector<float> q(problem.q(0, 0, 0).begin(), problem.q(0, 0, 0).end());
    QueryRow row;
    row.q = q, row.q_format = "f16", row.scale = problem.geometry().scale;
    const AttentionBounds bounds(AttentionArithmetic::from(contract, "f16"),
                                 {1000, 64, 64, kf, vf, "f16", "f16"});
    const RowBounds direct = bounds.row(row, AttentionLevel::detap);
    for (std::size_t e = 0; e < direct.limit.size(); ++e) {
      EXPECT_GE(by_moments.limit[e], 0.5 * direct.limit[e]) << text;
      EXPECT_LE(by_moments.limit[e], 2 * direct.limit[e]) << text;
    }
  }
}

// 1000 keys in tiles of 16 are 63 tiles: four parts have at most 16 of them.
TEST(AttentionLevels, a_declared_part_lowers_the_limit_and_a_correct_kernel_keeps_it) {
  const Case c = make_case({{"heads", "2"}, {"d", "64"}, {"len", "1000"}, {"dtype", "f32"}}, 9);
  const std::string any = "qk=f32 tile=16 pv=f32 split=4 order=sequential level=detap",
                    parts = any + " part=256";
  EXPECT_EQ(judge_case(c, parts, "f16").outside, 0);
  const auto limit = [&](const std::string& text) {
    return kAttention.truth(c.attributes, c.inputs, Contract::parse(text, kAttention.contract))[0].limit;
  };
  const std::vector<double> loose = limit(any), sharp = limit(parts);
  for (std::size_t i = 0; i < sharp.size(); ++i) EXPECT_LT(sharp[i], loose[i]);
  EXPECT_EQ(limit(any + " part=1000"), loose);
}

TEST(AttentionLevels, what_no_accumulator_takes_is_a_named_error) {
  const auto truth = [](const Case& c, const char* text) {
    return kAttention.truth(c.attributes, c.inputs, Contract::parse(text, kAttention.contract));
  };
  const Case tokens = make_case({{"heads", "1"}, {"d", "32"}, {"len", "50"}, {"kv", "e4m3fn_tok"}}, 5);
  EXPECT_THROW(truth(tokens, "order=sequential level=emu p=f16"), InputError);
  EXPECT_NO_THROW(truth(tokens, "order=sequential level=ca p=f16 convert=f16"));
  EXPECT_NO_THROW(truth(tokens, "order=sequential level=ca p=f16 convert=f16 p_shift=0.5"));  // by detap
  const std::string emu = "order=sequential level=emu p=f16 convert=f16 ";
  for (const char* other : {"p_shift=0.5", "lag=1", "weights=shares", "scaling=q"})
    EXPECT_THROW(truth(tokens, (emu + other).c_str()), InputError) << other;
  EXPECT_THROW(truth(tokens, "order=any level=emu p=f16 convert=f16"), InputError);
}

}  // namespace
}  // namespace assay
