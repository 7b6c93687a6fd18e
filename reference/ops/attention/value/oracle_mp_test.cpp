// The referee itself: identities that hold for any correct attention, and an independent path in binary128.
#include "reference/ops/attention/value/oracle_mp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "reference/ops/attention/test_problem.hpp"

// Of libquadmath, whose header is g++'s alone.
extern "C" {
__extension__ __float128 expq(__float128);
__extension__ __float128 tanhq(__float128);
}

namespace assay {
namespace {

using mp::Real200;

// binary128 as a number type of its own, so that exp and tanh are found.
struct Quad {
  __extension__ __float128 x = 0;
  Quad() = default;
  Quad(double v) : x(v) {}  // NOLINT: every double is one
  Quad& operator+=(Quad o) { return x += o.x, *this; }
  Quad& operator-=(Quad o) { return x -= o.x, *this; }
  Quad& operator*=(Quad o) { return x *= o.x, *this; }
  Quad& operator/=(Quad o) { return x /= o.x, *this; }
  [[maybe_unused]] friend Quad operator+(Quad a, Quad b) { return a += b; }
  friend Quad operator-(Quad a, Quad b) { return a -= b; }
  friend Quad operator*(Quad a, Quad b) { return a *= b; }
  friend Quad operator/(Quad a, Quad b) { return a /= b; }
  friend Quad operator-(Quad a) { return Quad() - a; }
  friend bool operator<(Quad a, Quad b) { return a.x < b.x; }
  friend bool operator>(Quad a, Quad b) { return a.x > b.x; }
};
Quad exp(Quad a) { return a.x = expq(a.x), a; }
Quad tanh(Quad a) { return a.x = tanhq(a.x), a; }

Real200 exactly(Quad q) {  // 113 bits as three doubles
  const double a = static_cast<double>(q.x);
  const double b = static_cast<double>(q.x - a);
  const double c = static_cast<double>(q.x - a - b);
  return Real200(a) + Real200(b) + Real200(c);
}

double distance(const Real200& a, const Real200& b) { return std::fabs(static_cast<double>(Real200(a - b))); }

TEST(AttentionOracle, agrees_with_binary128) {
  const AttributeMap variants[] = {{},
                                   {{"mask", "causal"}, {"softcap", "20"}},
                                   {{"sinks", "yes"}, {"alibi", "yes"}},
                                   {{"mask", "window"}, {"window", "9"}, {"kv", "q8_0"}}};
  std::uint64_t seed = 0;
  for (const AttributeMap& variant : variants)
    for (const Design fill : kDesigns) {
      AttributeMap a = {{"heads", "2"}, {"d", "32"}, {"q", "2"}, {"len", "90"}};
      for (const auto& [key, value] : variant) a[key] = value;
      const AttentionCase c = attention_case(a, fill, ++seed);
      const auto mpfr = attention_oracle(*c.problem, 0, 1, 1);
      const auto quad = attention_by_definition<Quad>(*c.problem, 0, 1, 1);
      for (std::size_t e = 0; e < 32; ++e) {
        // 90 keys, logits up to 1e4: a few hundred roundings of 2^-113, amplified by |x|.
        const double roundings = static_cast<double>(mpfr.absolute[e]) * 0x1p-90;
        EXPECT_LE(distance(mpfr.value[e], exactly(quad.value[e])), roundings) << fill;
        EXPECT_LE(distance(mpfr.deviation[e], exactly(quad.deviation[e])), 2 * roundings) << fill;
      }
    }
}

TEST(AttentionOracle, obeys_the_laws_of_attention) {
  const AttributeMap a = {{"heads", "1"}, {"d", "32"}, {"len", "70"}, {"dtype", "f32"}, {"kv", "f32"}};
  AttentionCase c = attention_case(a, Design::gaussian, 3);
  const auto base = attention_oracle(*c.problem, 0, 0, 0);
  const std::vector<double> k = decode_tensor(c.inputs["k"]), v = decode_tensor(c.inputs["v"]);
  const auto run = [&](const std::vector<std::size_t>& order, double shift, double factor) {
    std::vector<float> k2, v2;
    for (const std::size_t j : order)
      for (std::size_t e = 0; e < 32; ++e) {
        k2.push_back(static_cast<float>(k[j * 32 + e]));
        v2.push_back(static_cast<float>(v[j * 32 + e] * factor + shift));
      }
    c.inputs["k"] = encode_tensor(format("f32"), {1, 70, 1, 32}, k2);
    c.inputs["v"] = encode_tensor(format("f32"), {1, 70, 1, 32}, v2);
    return attention_oracle(AttentionProblem(c.attributes, c.inputs), 0, 0, 0);
  };
  std::vector<std::size_t> order(70);
  std::iota(order.begin(), order.end(), 0);
  const auto scaled = run(order, 0, 4);    // exact: a power of two
  const auto constant = run(order, 3, 0);  // V = 3
  std::reverse(order.begin(), order.end());
  const auto reversed = run(order, 0, 1);
  constexpr double kRoundings = 0x1p-190;  // some hundred roundings at 200 bits of numbers below 4
  for (std::size_t e = 0; e < 32; ++e) {
    EXPECT_LE(distance(scaled.value[e], Real200(4 * base.value[e])), kRoundings);
    EXPECT_LE(distance(constant.value[e], Real200(3)), kRoundings);
    EXPECT_LE(static_cast<double>(constant.deviation[e]), kRoundings);
    EXPECT_LE(distance(reversed.value[e], base.value[e]), kRoundings);
    EXPECT_GT(distance(scaled.value[e], base.value[e]), 0x1p-60);  // the laws say something
  }
}

}  // namespace
}  // namespace assay
