// Conversions that a contract declares: any correct quantiser or cast stays within the limit, and what is not
// that conversion does not, none at all included.
#include "reference/ops/attention/conversions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "reference/ops/attention/test_problem.hpp"
#include "reference/ops/judged.hpp"

namespace assay {
namespace {

using Change = std::function<void(std::vector<double>&)>;
const Change kNothing = [](std::vector<double>&) {};

// Attention in f64 on operands that `q`, `kv` have changed, each a whole tensor; stored in f32.
// `more` is added to q.k of a head and a key.
using More = std::function<double(const std::vector<double>& queries, std::int64_t head, std::int64_t key)>;
std::vector<double> kernel(const AttentionCase& c, const Change& q, const Change& kv = kNothing,
                           const More& more = {}) {
  const AttentionProblem& p = *c.problem;
  const AttentionGeometry& g = p.geometry();
  std::vector<double> queries = p.all_q(), keys = decode_tensor(p.k()), values = decode_tensor(p.v());
  q(queries), kv(keys), kv(values);
  std::vector<double> out(static_cast<std::size_t>(p.out_size()));
  for (std::int64_t h = 0; h < g.heads; ++h) {
    std::vector<double> sum(static_cast<std::size_t>(g.dv));
    double weights = 0;
    for (std::int64_t j = 0; j < g.length; ++j) {
      const std::int64_t at = j * g.kv_heads + p.kv_head(h);
      double s = 0;
      for (std::int64_t i = 0; i < g.d; ++i)
        s += queries[static_cast<std::size_t>(h * g.d + i)] * keys[static_cast<std::size_t>(at * g.d + i)];
      if (more) s += more(queries, h, j);
      const double w = std::exp(g.scale * s);
      weights += w;
      for (std::int64_t i = 0; i < g.dv; ++i)
        sum[static_cast<std::size_t>(i)] += w * values[static_cast<std::size_t>(at * g.dv + i)];
    }
    for (std::int64_t i = 0; i < g.dv; ++i)
      out[static_cast<std::size_t>(h * g.dv + i)] =
          static_cast<double>(static_cast<float>(sum[static_cast<std::size_t>(i)] / weights));
  }
  return out;
}

// q8_0 in f32, as round(x * inverse) with a rounding and an inverse of the caller's.
Change q8_0(float (*inverse)(float largest), float (*rounded)(float)) {
  return [=](std::vector<double>& x) {
    for (std::size_t b = 0; b < x.size(); b += 32) {
      float a = 0;
      for (std::size_t i = b; i < b + 32; ++i) a = std::max(a, static_cast<float>(std::fabs(x[i])));
      const double s = round_to(scalar_format("f16"), static_cast<double>(a / 127.0F));
      for (std::size_t i = b; i < b + 32; ++i)
        x[i] = s * static_cast<double>(rounded(static_cast<float>(x[i]) * inverse(a)));
    }
  };
}
float by_scale(float a) { return 1.0F / (a / 127.0F); }
float by_largest(float a) { return 127.0F / a; }
float to_away(float x) { return std::round(x); }
float to_even(float x) { return std::nearbyintf(x); }
float to_zero(float x) { return std::trunc(x); }

Change cast(const char* name, Rounding rounding) {
  return [=](std::vector<double>& x) {
    EncodePolicy policy;
    policy.rounding = rounding;
    for (double& e : x) e = round_to(scalar_format(name), e, policy);
  };
}

struct Judgement {
  std::size_t bad = 0, zeros_seen = 0, elements = 0;
};
Judgement judge(const AttentionCase& c, const char* contract, const std::vector<double>& got) {
  const auto truth =
      kAttention.truth(c.attributes, c.inputs, Contract::parse(contract, kAttention.contract)).front();
  Judgement r;
  for (std::size_t i = 0; i < got.size(); ++i) {
    r.bad += assay::judge(got[i], truth.value[i], truth.limit[i]).ok ? 0 : 1;
    r.zeros_seen += assay::judge(0, truth.value[i], truth.limit[i]).ok ? 0 : 1;
    ++r.elements;
  }
  return r;
}

AttentionCase a_case(const char* kv, std::uint64_t seed) {
  return attention_case(
      {{"heads", "4"}, {"kv_heads", "2"}, {"d", "64"}, {"len", "150"}, {"kv", kv}, {"dtype", "f32"}},
      Design::gaussian, seed);
}

TEST(Conversions, every_correct_quantiser_of_q_is_within_the_limit_and_zeros_are_not) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    const AttentionCase c = a_case("q8_0", seed);
    for (const auto& q : {q8_0(by_scale, to_away), q8_0(by_largest, to_even), q8_0(by_largest, to_away)}) {
      const Judgement r = judge(c, "q=q8_0", kernel(c, q));
      EXPECT_EQ(r.bad, 0u) << seed;
      EXPECT_GT(r.zeros_seen, r.elements * 9 / 10) << seed;
    }
  }
}

TEST(Conversions, a_quantiser_that_truncates_or_none_at_all_is_beyond_the_limit) {
  const AttentionCase c = a_case("q8_0", 1);
  EXPECT_GT(judge(c, "q=q8_0", kernel(c, q8_0(by_scale, to_zero))).bad, 100u);
  EXPECT_GT(judge(c, "q=q8_0", kernel(c, kNothing)).bad, 100u);
  EXPECT_EQ(judge(c, "", kernel(c, kNothing)).bad, 0u);
}

// ggml's product with K in q4_1 or q5_1: sum_b d_k s sum c n + m s_b, which is q.k and m (s_b - s sum n) for
// each block. `sum` makes the s_b of a block of q, of its d and the sum of its codes.
More block_sums(const AttentionCase& c, double (*stored)(double d, double codes)) {
  return [&c, stored](const std::vector<double>& queries, std::int64_t h, std::int64_t j) {
    const AttentionProblem& p = *c.problem;
    const Encoded& k = p.k();
    const std::size_t bytes = k.format == "q4_1" ? 20 : 24;
    const ScalarFormat& f16 = scalar_format("f16");
    double added = 0;
    for (std::size_t block = 0; block < 2; ++block) {
      std::uint16_t code = 0;
      std::memcpy(&code, &k.planes[0].bytes[((j * 2 + p.kv_head(h)) * 2 + block) * bytes + 2], sizeof code);
      float a = 0;
      double sum = 0;
      for (std::size_t i = h * 64 + block * 32; i < h * 64 + block * 32 + 32; ++i) {
        a = std::max(a, static_cast<float>(std::fabs(p.all_q()[i])));
        sum += queries[i];
      }
      const float d = a / 127.0F;
      added += decode(f16, code) * (stored(d, sum / round_to(f16, double(d))) - sum);
    }
    return added;
  };
}

TEST(Conversions, sums_of_blocks_in_f16_are_allowed_where_declared_and_forgotten_ones_nowhere) {
  const auto in_f16 = [](double d, double codes) { return round_to(scalar_format("f16"), d * codes); };
  const auto forgotten = [](double, double) { return 0.0; };
  for (const char* kv : {"q4_1", "q5_1"}) {
    const AttentionCase c = a_case(kv, 3);
    const Change q = q8_0(by_largest, to_even);
    const Judgement good = judge(c, "q=q8_1", kernel(c, q, kNothing, block_sums(c, in_f16)));
    EXPECT_EQ(good.bad, 0u) << kv;
    EXPECT_GT(good.zeros_seen, good.elements * 9 / 10) << kv;
    EXPECT_EQ(judge(c, "q=q8_1", kernel(c, q)).bad, 0u) << kv;
    EXPECT_GT(judge(c, "q=q8_0", kernel(c, q, kNothing, block_sums(c, in_f16))).bad, 0u) << kv;
    EXPECT_GT(judge(c, "q=q8_1", kernel(c, q, kNothing, block_sums(c, forgotten))).bad, 100u) << kv;
  }
}

TEST(Conversions, ties_may_go_either_way_and_only_ties) {
  AttentionCase c = a_case("q8_0", 2);
  std::vector<float> q(static_cast<std::size_t>(4 * 64));
  // The largest of each block is 127/64: odd multiples of 1/128 are ties.
  for (std::size_t i = 0; i < q.size(); ++i)
    q[i] = i % 32 == 0 ? 127.0F / 64 : static_cast<float>(static_cast<int>(i * 37 % 201) - 100) / 128;
  c.inputs["q"] = encode_tensor(format("f32"), {1, 1, 4, 64}, q);
  c.problem = std::make_unique<AttentionProblem>(c.attributes, c.inputs);
  const auto away = kernel(c, q8_0(by_largest, to_away)), even = kernel(c, q8_0(by_largest, to_even));
  EXPECT_NE(away, even) << "no tie among the inputs";
  EXPECT_EQ(judge(c, "q=q8_0", away).bad, 0u);
  EXPECT_EQ(judge(c, "q=q8_0", even).bad, 0u);
  AttentionProblem problem = *c.problem;
  const Conversions ties = apply_conversions(problem, Contract::parse("q=q8_0", kAttention.contract));
  EXPECT_GT(ties.uncertainty(0), 0);
  const AttentionCase gaussian = a_case("q8_0", 2);
  AttentionProblem other = *gaussian.problem;
  const Conversions none = apply_conversions(other, Contract::parse("q=q8_0", kAttention.contract));
  EXPECT_EQ(none.uncertainty(0), 0);
}

// Rows of 64 as FP8 codes with one scale each.
Change fp8(const char* name, float (*multiplied)(float x, float largest, float top), Rounding rounding) {
  return [=](std::vector<double>& x) {
    const ScalarFormat& f = scalar_format(name);
    const auto top = static_cast<float>(f.max_finite);
    EncodePolicy policy;
    policy.rounding = rounding;
    for (std::size_t row = 0; row < x.size(); row += 64) {
      float a = 0;
      for (std::size_t i = row; i < row + 64; ++i) a = std::max(a, static_cast<float>(std::fabs(x[i])));
      for (std::size_t i = row; i < row + 64; ++i)
        x[i] = round_to(f, static_cast<double>(multiplied(static_cast<float>(x[i]), a, top)), policy) *
               static_cast<double>(a / top);
    }
  };
}
float divided(float x, float a, float top) { return x / (a / top); }
float by_inverse(float x, float a, float top) { return x * (1.0F / (a / top)); }
float by_quotient(float x, float a, float top) { return x * (top / a); }

TEST(Conversions, q_in_fp8_with_a_scale_per_row_is_told_from_none_and_from_truncation) {
  for (const char* name : {"e4m3fn", "e4m3fnuz", "e5m2"}) {
    const std::string contract = std::string("q=") + name;
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      const AttentionCase c = a_case("e4m3fn_head", seed);
      for (const auto& how : {divided, by_inverse, by_quotient}) {
        const Judgement r = judge(c, contract.c_str(), kernel(c, fp8(name, how, Rounding::nearest_even)));
        EXPECT_EQ(r.bad, 0u) << name << ' ' << seed;
        EXPECT_GT(r.zeros_seen, r.elements * 9 / 10) << name << ' ' << seed;
      }
      const Judgement cut = judge(c, contract.c_str(), kernel(c, fp8(name, divided, Rounding::toward_zero)));
      EXPECT_GT(cut.bad, 100u) << name;
      EXPECT_GT(judge(c, contract.c_str(), kernel(c, kNothing)).bad, 100u) << name;
    }
  }
}

TEST(Conversions, casts_of_k_and_v_are_exact) {
  for (const char* to : {"f16", "bf16"}) {
    const AttentionCase c = a_case("f32", 3);
    const std::string contract = std::string("convert=") + to;
    const Judgement nearest =
        judge(c, contract.c_str(), kernel(c, kNothing, cast(to, Rounding::nearest_even)));
    EXPECT_EQ(nearest.bad, 0u) << to;
    EXPECT_GT(judge(c, contract.c_str(), kernel(c, kNothing, cast(to, Rounding::toward_zero))).bad, 50u)
        << to;
    EXPECT_GT(judge(c, contract.c_str(), kernel(c, kNothing)).bad, 0u) << to;
  }
}

TEST(Conversions, what_may_overflow_or_is_rounded_in_f32_first_is_bounded_instead) {
  AttentionCase large = a_case("f32", 4);
  std::vector<float> k(static_cast<std::size_t>(150 * 2 * 64), 1.0F);
  k[77] = 1e6F;
  large.inputs["k"] = encode_tensor(format("f32"), {1, 150, 2, 64}, k);
  AttentionProblem problem(large.attributes, large.inputs);
  EXPECT_FALSE(apply_conversions(problem, Contract::parse("convert=f16", kAttention.contract)).kv);
  EXPECT_TRUE(apply_conversions(problem, Contract::parse("convert=bf16", kAttention.contract)).kv);
  const AttentionCase scaled = a_case("e4m3fn_tok", 5);
  AttentionProblem products = *scaled.problem;
  // One product is rounded to f32 by every decoder alike, several are not.
  EXPECT_TRUE(apply_conversions(products, Contract::parse("convert=f16", kAttention.contract)).kv);
  const AttentionCase blocks = a_case("tq3_0_c2s1", 5);
  AttentionProblem several = *blocks.problem;
  EXPECT_FALSE(apply_conversions(several, Contract::parse("convert=f16", kAttention.contract)).kv);
}

// A scale of Inf meets the sum of its block's products, or each element: 0 times Inf is NaN for the one, and
// nothing for the other.
TEST(Conversions, what_an_infinite_scale_gives_is_claimed_of_elements_and_not_of_blocks) {
  const auto limits = [](std::uint16_t scale, const char* contract) {
    AttentionCase c = a_case("q8_0", 2);
    auto& block = c.inputs["k"].planes[0].bytes;  // key 0 of the first head of K
    std::memcpy(block.data(), &scale, sizeof scale);
    block[sizeof scale] = std::byte{0}, block[sizeof scale + 1] = std::byte{1};
    const Truth t =
        kAttention.truth(c.attributes, c.inputs, Contract::parse(contract, kAttention.contract)).at(0);
    EXPECT_TRUE(std::isnan(t.value.front())) << contract;  // a row of the first head of K
    EXPECT_TRUE(std::isfinite(t.value.back())) << contract;
    EXPECT_TRUE(std::isfinite(t.limit.back())) << contract;
    return t.limit.front();
  };
  constexpr std::uint16_t kInf = 0x7c00, kNan = 0x7e00;
  EXPECT_TRUE(std::isinf(limits(kInf, "q=q8_0")));
  EXPECT_FALSE(std::isinf(limits(kInf, "")));
  EXPECT_FALSE(std::isinf(limits(kNan, "q=q8_0")));
}

}  // namespace
}  // namespace assay
