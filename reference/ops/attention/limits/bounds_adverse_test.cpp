// Kernels that err in one step as much as their contract admits, in the direction that hurts an output most,
// and are exact otherwise: each level's limit holds them, and not the kernel that errs in that step by a
// factor more. What the limit spends on one step is thereby known from both sides, with nothing else in it:
// the inputs make every inequality of the derivation nearly an equation (one component per head, so that |q
// k| is |q| |k|; one tile; logits of one magnitude).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "reference/arithmetic/gamma.hpp"
#include "reference/ops/attention/attention.hpp"
#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/bounds_problem.hpp"

namespace assay {
namespace {

struct Row {
  std::vector<double> x, w, v;  // logits, weights relative to the largest, values of one column
  double sum = 0, mass = 0, out = 0;
  Row(std::vector<double> logits, std::vector<double> values) : x(std::move(logits)), v(std::move(values)) {
    const double top = *std::max_element(x.begin(), x.end());
    for (std::size_t j = 0; j < x.size(); ++j) {
      w.push_back(std::exp(x[j] - top));
      sum += w[j], out += w[j] * v[j], mass += w[j] * std::fabs(v[j]);
    }
    out /= sum, mass /= sum;
  }
  double away(std::size_t j) const { return v[j] > out ? 1 : -1; }
  std::size_t n() const { return x.size(); }
};

// The output of a kernel whose step errs `times` what is admitted.
using Adverse = std::function<double(const Row&, double times)>;

double reweighted(const Row& r, const std::function<double(std::size_t)>& factor) {
  double num = 0, den = 0;
  for (std::size_t j = 0; j < r.n(); ++j) num += r.w[j] * factor(j) * r.v[j], den += r.w[j] * factor(j);
  return num / den;
}

struct Step {
  std::string contract;
  Adverse adverse;
  double beyond;                        // so many times what is admitted must exceed the limits
  std::vector<int> levels = {0, 1, 2};  // by moments; any order, key by key; in order
};

constexpr double kU16 = 0x1p-11;

std::vector<Step> steps(std::size_t n) {
  const auto terms = static_cast<double>(n);
  return {
      {"exp_ulp=4000",
       [](const Row& r, double t) {
         return reweighted(r, [&](std::size_t j) { return 1 + r.away(j) * t * 4000 * 0x1p-23; });
       },
       1.05},
      {"scores=f16",
       [](const Row& r, double t) {
         return reweighted(r,
                           [&](std::size_t j) { return std::exp(r.away(j) * t * kU16 * std::fabs(r.x[j])); });
       },
       1.1},
      {"exp_ulp=4000 tile=2",  // four tiles: a weight meets an exp of its own and one of each later tile
       [](const Row& r, double t) {
         return reweighted(r, [&](std::size_t j) {
           return std::pow(1 + r.away(j) * t * 4000 * 0x1p-23, 4 - static_cast<double>(j / 2));
         });
       },
       2,
       {0, 1}},
      {"qk=f16",
       [](const Row& r, double t) {
         return reweighted(r,
                           [&](std::size_t j) { return std::exp(r.away(j) * t * kU16 * std::fabs(r.x[j])); });
       },
       1.1,
       {0}},
      {"qk=f16",
       [](const Row& r, double t) {
         return reweighted(r,
                           [&](std::size_t j) { return std::exp(r.away(j) * t * kU16 * std::fabs(r.x[j])); });
       },
       2.1,  // key by key the addition to zero counts as a rounding
       {1, 2}},
      {"p=f16", [](const Row& r, double t) { return r.out + t * kU16 / (1 + kU16) * r.mass; }, 1.1},
      {"p=f16", [](const Row& r, double t) { return r.out - t * kU16 / (1 + kU16) * r.mass; }, 1.1},
      {"pv=f16",
       [=](const Row& r, double t) { return r.out + t * gamma_n(terms - 1, kU16) * r.mass; },
       1.6,
       {0, 1}},
      {"pv=f16",  // in order: a rounding of each partial sum but the first, which has nothing to be added to
       [](const Row& r, double t) {
         double partial = r.w[0] * r.v[0], error = 0;
         for (std::size_t j = 1; j < r.n(); ++j) error += kU16 * std::fabs(partial += r.w[j] * r.v[j]);
         return r.out + t * error / r.sum;
       },
       2,
       {2}},
      {"rowsum=f16", [=](const Row& r, double t) { return r.out / (1 - t * gamma_n(terms - 1, kU16)); }, 2},
  };
}

TEST(AttentionBoundsAdverse, what_a_step_may_err_at_most_is_within_every_limit_and_a_factor_more_is_not) {
  constexpr std::int64_t kKeys = 8, kColumns = 4;
  const Attributes attributes = Attributes::complete(kAttention.attributes, {{"heads", "1"},
                                                                             {"d", "1"},
                                                                             {"dv", "4"},
                                                                             {"len", "8"},
                                                                             {"kv", "f32"},
                                                                             {"dtype", "f32"},
                                                                             {"scale", "1"}});
  // No product is a number of f16.
  constexpr float kK = 1.5F + 0x1p-10F;
  const std::vector<float> q{2 + 0x1p-9F}, k{kK, -kK, kK, kK, -kK, kK, -kK, kK};
  std::vector<float> v;
  for (std::int64_t j = 0; j < kKeys;
       ++j)  // one sign per column; both; a column that the mean leaves on one side
    for (const double x : {1 + 0.25 * static_cast<double>(j), j % 3 == 0 ? 1.0 : -0.75, j == 2 ? 4.0 : 0.125,
                           -1.0 - static_cast<double>(j % 2)})
      v.push_back(static_cast<float>(x));
  TensorSet inputs;
  kAttention.indices(attributes, 1, inputs);
  for (const TensorSpec& spec : kAttention.tensors(attributes)) {
    if (spec.role != TensorRole::data) continue;
    inputs.insert_or_assign(spec.name, encode_tensor(format(spec.format), spec.shape,
                                                     spec.name == "q"   ? q
                                                     : spec.name == "k" ? k
                                                                        : v));
  }
  QueryRow query;
  query.q = q, query.q_format = "f32";
  const KeyValues kv{kKeys, 1, kColumns, k, v, "f32", "f32"};
  for (const Step& step : steps(kKeys)) {
    const std::string text = "order=sequential scaling=scores tiles=aligned " + step.contract;
    const AttentionArithmetic how =
        AttentionArithmetic::from(Contract::parse(text + " level=detord", kAttention.contract), "f32");
    const Truth moments =
        kAttention.truth(attributes, inputs,
                         Contract::parse("order=any level=detap " + step.contract, kAttention.contract))[0];
    const RowBounds any = AttentionBounds(how, kv).row(query, AttentionLevel::detap);
    const RowBounds ordered = AttentionBounds(how, kv).row(query, AttentionLevel::detord);
    double worst[3] = {0, 0, 0};  // of the kernel that errs too much: error / limit by level
    for (std::int64_t c = 0; c < kColumns; ++c) {
      std::vector<double> logits, values;
      for (std::int64_t j = 0; j < kKeys; ++j) {
        logits.push_back(static_cast<double>(q[0]) * static_cast<double>(k[static_cast<std::size_t>(j)]));
        values.push_back(v[static_cast<std::size_t>(j * kColumns + c)]);
      }
      const Row row(logits, values);
      const auto at = static_cast<std::size_t>(c);
      const double limits[3] = {moments.limit[at], any.limit[at], ordered.limit[at]};
      // Both are made of sums of kKeys terms in double, and an exp each: a few roundings more.
      ASSERT_NEAR(row.out, moments.value[at], gamma_n(2 * kKeys + 300, 0x1p-53) * row.mass);
      for (const int level : step.levels) {
        EXPECT_LE(std::fabs(step.adverse(row, 0.9999) - row.out), limits[level])
            << step.contract << " column " << c << " level " << level;
        worst[level] =
            std::max(worst[level], std::fabs(step.adverse(row, step.beyond) - row.out) / limits[level]);
      }
    }
    for (const int level : step.levels)
      EXPECT_GT(worst[level], 1) << step.contract << " times " << step.beyond << ", level " << level;
  }
}

}  // namespace
}  // namespace assay
