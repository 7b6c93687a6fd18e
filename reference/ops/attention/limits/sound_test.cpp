// False accusations that were made, each with its correct kernel, which must pass, and a faulty twin, which
// must not: transient overflow of PV and of the row sum, tanh of the hardware, a conversion of what needs
// none, infinite sinks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reference/ops/attention/attention.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"
#include "reference/ops/judged.hpp"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kInfF = std::numeric_limits<float>::infinity();

// One head of one query row: q = 1 in each of d components, key j all of one number, so that its logit is d
// k_j scale.
struct Inputs {
  std::int64_t keys = 0, d = 16;
  std::vector<float> k, v;  // of a key: one number for all components, one for all columns
  double softcap = 0;
  float sink = 0;
  bool sinks = false;
  std::string kv = "f16", dtype = "f32";
};

Inputs keys_of(std::int64_t n, const std::function<float(std::int64_t)>& k,
               const std::function<float(std::int64_t)>& v) {
  Inputs in;
  in.keys = n;
  for (std::int64_t j = 0; j < n; ++j) in.k.push_back(k(j)), in.v.push_back(v(j));
  return in;
}

Truth truth_of(const Inputs& in, const std::string& contract) {
  const Attributes attributes =
      Attributes::complete(kAttention.attributes, {{"heads", "1"},
                                                   {"d", fmt::format("{}", in.d)},
                                                   {"dv", "4"},
                                                   {"len", fmt::format("{}", in.keys)},
                                                   {"kv", in.kv},
                                                   {"dtype", in.dtype},
                                                   {"scale", "1"},
                                                   {"softcap", fmt::format("{}", in.softcap)},
                                                   {"sinks", in.sinks ? "yes" : "no"}});
  TensorSet inputs;
  kAttention.indices(attributes, 1, inputs);
  for (const TensorSpec& spec : kAttention.tensors(attributes)) {
    if (spec.role != TensorRole::data) continue;
    std::vector<float> values(static_cast<std::size_t>(element_count(spec.shape)), 1.0F);
    const std::size_t width = spec.name == "v" ? 4 : static_cast<std::size_t>(in.d);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (spec.name == "k") values[i] = in.k[i / width];
      if (spec.name == "v") values[i] = in.v[i / width];
      if (spec.name == "sinks") values[i] = in.sink;
    }
    inputs.insert_or_assign(spec.name, encode_tensor(format(spec.format), spec.shape, values));
    if (spec.format == "f32")  // as it is: an encoder saturates
      std::memcpy(inputs.at(spec.name).planes[0].bytes.data(), values.data(), values.size() * sizeof(float));
  }
  // The emulated kernel's own shape.
  const std::string shape = " scaling=scores tiles=aligned sink=last";
  return kAttention.truth(attributes, inputs, Contract::parse(contract + shape, kAttention.contract))[0];
}

// The kernel of `contract`, in the order of emulated.hpp; another contract than the declared one makes a
// faulty kernel.
double kernel(const Inputs& in, const std::string& contract) {
  const auto width = static_cast<std::size_t>(in.d);
  std::vector<float> q(width, 1.0F), k, v, out(4);
  for (const float x : in.k) k.insert(k.end(), width, x);
  for (const float x : in.v) v.insert(v.end(), 4, x);
  QueryRow row;
  row.q = q, row.q_format = in.dtype, row.softcap = in.softcap;
  if (in.sinks) row.sink = in.sink;
  const AttentionArithmetic how =
      AttentionArithmetic::from(Contract::parse(contract, kAttention.contract), in.dtype);
  AttentionEmulator(how, {in.keys, in.d, 4, k, v, in.kv, in.kv}).run(row, out);
  return static_cast<double>(out[0]);
}

bool passes(const Truth& t, double got) {
  if (t.limit[0] == kInf) return true;  // nothing is claimed
  return judge(got, t.value[0], t.limit[0]).ok;
}

float needle_last(std::int64_t j, std::int64_t n) { return j + 1 == n ? 0.625F : 0.0F; }  // logit 10

TEST(AttentionSound, partial_sums_that_overflow_before_the_needle_claim_nothing) {
  const auto input = [](std::int64_t n, float v) {
    return keys_of(n, [n](std::int64_t j) { return needle_last(j, n); }, [v](std::int64_t) { return v; });
  };
  for (const std::string order :
       {"order=any level=detap", "order=sequential level=detord", "order=sequential level=ca"}) {
    const std::string contract = "qk=f32 p=f32 pv=f16 tile=64 " + order;
    const Inputs in = input(1000, 100);
    EXPECT_FALSE(std::isfinite(kernel(in, contract)));
    EXPECT_TRUE(passes(truth_of(in, contract), kernel(in, contract))) << order;
    const Inputs few =
        input(100, 100);  // nothing can overflow: the correct kernel passes, one without its needle not
    EXPECT_TRUE(passes(truth_of(few, contract), kernel(few, contract))) << order;
    Inputs without = few;
    without.v.back() = 0;
    EXPECT_FALSE(passes(truth_of(few, contract), kernel(without, contract))) << order;
  }
  // With p_shift the sums are 2^15 times as large: three keys of V = 1 overflow.
  const std::string shifted = "qk=f32 p=f16 p_shift=15 pv=f16 tile=1 order=";
  const Inputs three = input(3, 1);
  EXPECT_EQ(kernel(three, shifted + "sequential"), kInf);
  EXPECT_TRUE(passes(truth_of(three, shifted + "any"), kInf));
}

// A unit that adds two halves of its products, each rounded to f16: one half overflows, though the sum of
// both would not. By a softcap the level emu becomes ca.
TEST(AttentionSound, a_half_of_16_bits_that_overflows_claims_nothing) {
  const std::string contract =
      "qk=f32 p=e4m3fn p_shift=8 pv=blackwell_fp8_mma_sync_f16out tile=64 order=sequential level=emu";
  const auto input = [](float v) {
    // Keys 0 and 2 lie in different halves.
    Inputs in = keys_of(
        64, [](std::int64_t j) { return j == 0 || j == 2 ? 0.625F : 0.0F; },
        [v](std::int64_t j) { return j == 0   ? v
                                     : j == 2 ? -v
                                              : 0.5F; });
    in.d = 32, in.kv = "e4m3fn", in.softcap = 30;
    return in;
  };
  const Inputs beyond = input(448), inside = input(96);
  EXPECT_FALSE(std::isfinite(kernel(beyond, contract)));
  EXPECT_TRUE(passes(truth_of(beyond, contract), kernel(beyond, contract)));
  EXPECT_TRUE(passes(truth_of(inside, contract), kernel(inside, contract)));
  EXPECT_FALSE(passes(truth_of(inside, contract), kInf));
}

TEST(AttentionSound, keys_that_are_all_nan_are_no_hidden_keys) {
  const Inputs in =
      keys_of(100, [](std::int64_t) { return std::nanf(""); }, [](std::int64_t) { return 1.0F; });
  for (const std::string contract :
       {"qk=f32 p=f32 pv=f32 tile=32 split=1", "qk=f32 p=f32 pv=f32 tile=32 split=2"}) {
    EXPECT_TRUE(std::isnan(kernel(in, contract)));
    EXPECT_TRUE(passes(truth_of(in, contract), kernel(in, contract)));
    EXPECT_FALSE(passes(truth_of(in, contract), 0.0));  // what a maximum that passes NaN over makes of it
  }
}

// infinities.hpp: an infinity of V is claimed where no declared weight of its key is 0.
TEST(AttentionSound, infinities_of_v_are_claimed_where_their_weight_is_sure) {
  const auto input = [](float logit) {
    Inputs in = keys_of(
        100, [logit](std::int64_t j) { return j == 40 ? logit / 16 : 0.0F; },
        [](std::int64_t j) { return j == 40 ? kInfF : 1.0F; });
    in.kv = "f32";
    return in;
  };
  const std::string plain = "qk=f32 p=f32 pv=f32 tile=32", narrow = "qk=f32 p=e4m3fn pv=f32 tile=32";
  EXPECT_EQ(kernel(input(0), plain), kInf);
  EXPECT_TRUE(passes(truth_of(input(0), plain), kInf));
  EXPECT_FALSE(passes(truth_of(input(0), plain), 57344.0));
  EXPECT_FALSE(passes(truth_of(input(0), plain), std::nan("")));
  EXPECT_EQ(truth_of(input(0), plain).limit[0], 0);
  EXPECT_EQ(truth_of(input(-60), plain).limit[0], kInf);  // e^-60 < 2^-56
  // 8 bits make 0 of e^-8: NaN, of which nothing is claimed.
  EXPECT_TRUE(std::isnan(kernel(input(-8), narrow)));
  EXPECT_TRUE(passes(truth_of(input(-8), narrow), kernel(input(-8), narrow)));
  EXPECT_EQ(truth_of(input(4), narrow).limit[0], 0);  // a share of 0.36
}

TEST(AttentionSound, a_row_sum_that_overflows_or_stalls_is_inside_the_limit) {
  for (const std::string order : {"any level=detap", "sequential level=detord", "sequential level=ca"}) {
    const std::string contract = "qk=f32 p=f32 pv=f32 rowsum=f16 tile=66560 order=" + order;
    const Inputs in = keys_of(66560, [](std::int64_t) { return 0.0F; }, [](std::int64_t) { return 1.0F; });
    // Weights of 1 in lanes that do not stall: the sum is Inf, the output 0; added one by one it stalls at
    // 2048.
    EXPECT_TRUE(passes(truth_of(in, contract), 0.0)) << order;
    EXPECT_TRUE(passes(truth_of(in, contract), kernel(in, contract))) << order;
  }
  const std::string contract = "qk=f32 p=f32 pv=f32 rowsum=f16 tile=64 order=any";
  const Inputs few = keys_of(200, [](std::int64_t) { return 0.0F; }, [](std::int64_t) { return 1.0F; });
  EXPECT_TRUE(passes(truth_of(few, contract), kernel(few, contract)));
  EXPECT_FALSE(passes(truth_of(few, contract), 0.0));
}

// Scores of f16 overflow at 65504; a logit of 70000 that wins would be Inf - Inf.
TEST(AttentionSound, scores_that_overflow_claim_nothing) {
  const Inputs in = keys_of(
      8, [](std::int64_t j) { return j == 3 ? 4375.0F : 0.0F; },
      [](std::int64_t j) { return j == 3 ? 1.0F : 2.0F; });
  for (const std::string order : {"any", "sequential level=ca"}) {
    EXPECT_TRUE(passes(truth_of(in, "scores=f16 order=" + order), std::nan(""))) << order;
    EXPECT_FALSE(passes(truth_of(in, "scores=f32 order=" + order), 2.0)) << order;
  }
}

// tanh.approx errs by 2^-10.987 of itself: 4134 ulps of f32.
TEST(AttentionSound, tanh_of_the_hardware_is_declared_by_tanh_ulp) {
  std::mt19937_64 random(4);
  std::normal_distribution<float> normal;
  double worst_default = 0;
  for (int round = 0; round < 40; ++round) {
    Inputs in = keys_of(
        48, [&](std::int64_t) { return std::ldexp(std::round(normal(random) * 256), -9); },
        [&](std::int64_t j) { return j % 2 == 0 ? 1.0F : -1.0F; });
    in.softcap = 30;
    for (const std::string order :
         {"any level=detap", "sequential level=detord", "sequential level=ca", "sequential level=emu"}) {
      const std::string tail = " qk=f32 p=f32 pv=f32 exp_ulp=1 order=" + order;
      const double got = kernel(in, "tanh_ulp=4134" + tail);
      EXPECT_TRUE(passes(truth_of(in, "tanh_ulp=4134" + tail), got)) << order;
      const Truth t = truth_of(in, "tanh_ulp=1" + tail);
      worst_default = std::max(worst_default, judge(got, t.value[0], t.limit[0]).ratio);
    }
  }
  EXPECT_GT(worst_default, 3);  // what it was accused of, and still is where it is not declared
}

TEST(AttentionSound, a_conversion_of_what_has_the_format_already_does_not_loosen_the_limit) {
  const Inputs in = keys_of(
      100, [](std::int64_t j) { return 0.01F * static_cast<float>(j % 7); },
      [](std::int64_t j) { return static_cast<float>(j % 5) - 1.5F; });
  EXPECT_EQ(truth_of(in, "convert=f16").limit, truth_of(in, "").limit);
  EXPECT_NE(truth_of(in, "convert=bf16").value,
            truth_of(in, "").value);  // what is converted is judged as such
}

TEST(AttentionSound, an_infinite_sink_claims_nothing_and_a_finite_one_does) {
  Inputs in = keys_of(20, [](std::int64_t) { return 0.0F; }, [](std::int64_t) { return 1.0F; });
  in.sinks = true;
  for (const std::string order : {"any", "sequential level=ca"}) {
    in.sink = std::numeric_limits<float>::infinity();
    EXPECT_EQ(truth_of(in, "order=" + order).limit[0], kInf);
    for (const float none :
         {-std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::max(), -1e4F}) {
      in.sink = none;
      EXPECT_TRUE(passes(truth_of(in, "order=" + order), 1.0));
      EXPECT_FALSE(passes(truth_of(in, "order=" + order), 0.999));
    }
    in.sink = 3;
    EXPECT_FALSE(passes(truth_of(in, "order=" + order), 1.0));
  }
}

}  // namespace
}  // namespace assay
