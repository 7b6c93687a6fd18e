#include "reference/ops/op_testing.hpp"
#include "reference/ops/variance.hpp"
#include "reference/real/mp.hpp"

namespace assay::testing {
namespace {

using Real = mp::Real200;

struct NormOptions {
  std::string_view acc = "f32", order = "lanes", out = "f32";
  VarianceKind kind = VarianceKind::two_pass;
  double fault = 1;  // of 1/sqrt
  int drop = -1;     // an element left out of the sums
};

Values layernorm_kernel(const Values& x, const Values& gain, const Values& bias, float eps,
                        const NormOptions& o) {
  const Arithmetic rd{o.acc}, out{o.out};
  const float n = static_cast<float>(x.size());
  float mean = 0, variance = 0;
  if (o.kind == VarianceKind::welford) {
    float k = 0, squares = 0;
    for (const float each : x) {
      k += 1;
      const float before = rd(double(each) - mean);
      mean = rd(double(mean) + rd(double(before) / k));
      squares = rd(double(squares) + rd(double(before) * rd(double(each) - mean)));
    }
    variance = rd(double(squares) / n);
  } else {
    Values terms = x, squares;
    if (o.drop >= 0) terms[o.drop] = 0;
    mean = rd(double(sum_in(rd, terms, o.order)) / n);
    for (const float each : x) {
      const float d = o.kind == VarianceKind::two_pass ? rd(double(each) - mean) : each;
      squares.push_back(rd(double(d) * d));
    }
    variance = rd(double(sum_in(rd, squares, o.order)) / n);
    if (o.kind == VarianceKind::one_pass)
      variance = std::max(0.0F, rd(double(variance) - rd(double(mean) * mean)));
  }
  const float inverse = rd(o.fault / std::sqrt(double(rd(double(variance) + rd(eps)))));
  Values y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float normal = rd(double(rd(double(x[i]) - mean)) * inverse);
    y.push_back(out(double(rd(double(rd(double(normal) * gain[i])) + bias[i]))));
  }
  return y;
}

std::string contract_of(const NormOptions& o) {
  const std::string kind = o.kind == VarianceKind::two_pass   ? "two_pass"
                           : o.kind == VarianceKind::one_pass ? "one_pass"
                                                              : "welford";
  return "variance=" + kind + " rsqrt_ulp=0.5 div_ulp=0.5 acc=" + std::string(o.acc) +
         (o.acc == "f32" ? "" : " mid=" + std::string(o.acc)) +
         (o.order == "tree" || o.order == "sequential" ? " order=" + std::string(o.order) : "");
}

struct Row {
  OpCase c;
  Values x, gain, bias;
  Row(std::string_view name, Shape1 shape, std::size_t n, std::string_view acc = "f32",
      const char* eps = "1e-5")
      : c(name, {{"rows", "1"}, {"cols", std::to_string(n)}, {"eps", eps}}) {
    x = draw(shape, n, n + 17);
    gain = draw(Shape1::gaussian, n, 2);
    bias = draw(Shape1::gaussian, n, 3);
    for (Values* each : {&x, &gain, &bias})
      for (float& value : *each) value = Arithmetic{acc}(value);
    x = c.put("x", x);
    gain = c.put("gamma", gain);
    if (name == "layernorm") bias = c.put("beta", bias);
  }
};

TEST(Layernorm, agrees_with_mpfr_on_rows_of_every_shape) {
  for (const Shape1 shape : kShapes)
    for (const std::size_t n : {1UL, 5UL, 1000UL, 100000UL}) {
      const Row r("layernorm", shape, n);
      const Truth t = r.c.truth("acc=f64 rsqrt_ulp=0.5 div_ulp=0.5");
      Real mean = 0, magnitude = 0, variance = 0;
      for (const float each : r.x) mean += Real(each), magnitude += abs(Real(each));
      mean /= static_cast<double>(n), magnitude /= static_cast<double>(n);
      for (const float each : r.x) variance += (Real(each) - mean) * (Real(each) - mean);
      const Real inverse = 1 / sqrt(variance / static_cast<double>(n) + Real(1e-5));
      for (std::size_t i = 0; i < n; i += 1 + n / 300) {
        const Real part = (Real(r.x[i]) - mean) * inverse * Real(r.gain[i]), y = part + Real(r.bias[i]);
        const double error = static_cast<double>(abs(y - Real(t.value[i])));
        // Two passes over n doubles: the mean is off by gamma_n of the mean magnitude, the root by half as
        // much of itself.
        const double spread =
            static_cast<double>(abs(part) + abs(inverse * Real(r.gain[i])) * magnitude + abs(y));
        // acc=f64: the limit before the store is the reference's own certificate, a few n u64.
        const Truth wide = t;
        ASSERT_LE(error, error_of_doubles(2 * static_cast<double>(n) + 16, spread)) << i;
        ASSERT_LE(error, wide.limit[i] + 0x1p-24 * std::fabs(t.value[i])) << i;
      }
    }
}

TEST(Layernorm, correct_kernels_of_every_algorithm_arithmetic_and_order_stay_within_the_limit) {
  double worst = 0;
  for (const Shape1 shape : kShapes)
    for (const std::string_view acc : {"f32", "bf16", "f16"})
      for (const VarianceKind kind : {VarianceKind::two_pass, VarianceKind::one_pass, VarianceKind::welford})
        for (const std::string_view order : {"sequential", "tree", "lanes", "reversed"})
          for (const std::size_t n : {1UL, 2UL, 40UL, 3000UL}) {
            if (acc != "f32" && n > 100) continue;
            const NormOptions o{.acc = acc, .order = order, .kind = kind};
            const Row r("layernorm", shape, n, acc);
            const Judgement j =
                judge(r.c.truth(contract_of(o)), layernorm_kernel(r.x, r.gain, r.bias, 1e-5F, o));
            if (acc == "f16" && shape == Shape1::huge)
              continue;  // squares overflow: NaN, and nothing is claimed
            ASSERT_EQ(j.bad, 0U) << acc << order << n << " shape " << int(shape) << j.first;
            worst = std::max(worst, j.worst);
          }
  EXPECT_GT(worst, 0.2) << "the limit has become loose";
}

TEST(Layernorm, one_pass_declared_as_two_pass_is_caught_and_passes_as_what_it_is) {
  const Row r("layernorm", Shape1::offset, 4096);  // kappa = 1000
  const NormOptions one{.order = "tree", .kind = VarianceKind::one_pass};
  const NormOptions two{.order = "tree", .kind = VarianceKind::two_pass};
  const Values one_pass = layernorm_kernel(r.x, r.gain, r.bias, 1e-5F, one);
  expect_caught(r.c.truth(contract_of(two)), one_pass);
  expect_pass(r.c.truth(contract_of(one)), one_pass);
  expect_pass(r.c.truth(contract_of(two)), layernorm_kernel(r.x, r.gain, r.bias, 1e-5F, two));
}

TEST(Layernorm, a_scale_of_one_percent_and_a_dropped_element_are_caught) {
  for (const VarianceKind kind : {VarianceKind::two_pass, VarianceKind::welford}) {
    const Row r("layernorm", Shape1::gaussian, 1000);
    const NormOptions good{.kind = kind};
    // The kernel's welford keeps one accumulator.
    const Truth t = r.c.truth(contract_of(good) + (kind == VarianceKind::welford ? " order=sequential" : ""));
    expect_pass(t, layernorm_kernel(r.x, r.gain, r.bias, 1e-5F, good));
    expect_caught(t, layernorm_kernel(r.x, r.gain, r.bias, 1e-5F, {.kind = kind, .fault = 1.01}));
    expect_caught(t,
                  layernorm_kernel(r.x, r.gain, r.bias, 1e-5F, {.kind = VarianceKind::two_pass, .drop = 7}));
    expect_caught(t, r.bias);
  }
}

// Link 6 of the cascade: every token of a clipped key is 448 * 0.025 = 11.2 (11.19999981 in f32).
TEST(Layernorm, the_one_pass_model_finds_a_negative_variance_where_two_pass_finds_zero) {
  const Values clipped(768, 11.2F);
  constexpr float kEps = 1e-12F;  // as in the cascade: a variance below -eps has no root
  int negative = 0;
  for (const std::size_t n : {3UL, 12UL, 64UL, 768UL}) {
    const std::span<const float> row(clipped.data(), n);
    EXPECT_GE(moments_f32(row, VarianceKind::two_pass).variance, 0);
    EXPECT_EQ(moments_f32(row, VarianceKind::welford).variance, 0);
    negative += moments_f32(row, VarianceKind::one_pass).variance < -kEps;
  }
  EXPECT_GT(negative, 0);
}

TEST(Layernorm, a_nan_from_a_negative_variance_is_wrong_under_every_contract) {
  OpCase c("layernorm", {{"rows", "1"}, {"cols", "64"}, {"eps", "1e-12"}});
  c.put("x", Values(64, 11.2F));
  c.put("gamma", Values(64, 1));
  c.put("beta", Values(64, 0));
  for (const char* kind : {"two_pass", "one_pass", "welford"}) {
    const Truth t = c.truth(std::string("variance=") + kind);
    expect_caught(t, Values(64, NAN));
    expect_pass(t, Values(64, 0));
  }
}

TEST(Layernorm, a_nan_or_inf_poisons_its_row_and_no_other) {
  OpCase c("layernorm", {{"rows", "3"}, {"cols", "4"}});
  c.put("x", {1, 2, 3, 4, 1, NAN, 3, 4, 1, 2, INFINITY, 4});
  c.put("gamma", Values(4, 1));
  c.put("beta", Values(4, 0));
  const Truth t = c.truth("");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isfinite(t.value[i]));
  for (int i = 4; i < 12; ++i) EXPECT_TRUE(std::isnan(t.value[i]));
}

Values rmsnorm_kernel(const Values& x, const Values& gain, const NormOptions& o) {
  const Arithmetic rd{o.acc};
  Values squares;
  for (const float each : x) squares.push_back(rd(double(each) * each));
  if (o.drop >= 0) squares[o.drop] = 0;
  const float mean = rd(double(sum_in(rd, squares, o.order)) / static_cast<double>(x.size()));
  const float inverse = rd(o.fault / std::sqrt(double(rd(double(mean) + rd(1e-5)))));
  Values y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(rd(double(rd(double(x[i]) * inverse)) * gain[i]));
  return y;
}

TEST(Rmsnorm, agrees_with_mpfr_and_correct_kernels_stay_within_the_limit) {
  for (const Shape1 shape : kShapes)
    for (const std::string_view acc : {"f32", "bf16"})
      for (const std::size_t n : {1UL, 33UL, 4000UL}) {
        if (acc == "bf16" && n > 100) continue;
        const Row r("rmsnorm", shape, n, acc);
        for (const std::string_view order : {"sequential", "tree", "lanes", "reversed"}) {
          const NormOptions o{.acc = acc, .order = order};
          std::string contract = contract_of(o);
          contract.erase(0, contract.find(' ') + 1);
          expect_pass(r.c.truth(contract), rmsnorm_kernel(r.x, r.gain, o));
        }
        const Truth t = r.c.truth("acc=f64 rsqrt_ulp=0.5 div_ulp=0.5");
        Real mean = 0;
        for (const float each : r.x) mean += Real(each) * Real(each);
        const Real inverse = 1 / sqrt(mean / static_cast<double>(n) + Real(1e-5));
        for (std::size_t i = 0; i < n; i += 1 + n / 200) {
          const Real y = Real(r.x[i]) * inverse * Real(r.gain[i]);
          // n squares and additions, halved by the root, and a handful of operations; 0x1p-1022 where y
          // underflows.
          ASSERT_LE(static_cast<double>(abs(y - Real(t.value[i]))),
                    error_of_doubles(static_cast<double>(n) + 8, std::fabs(t.value[i])) + 0x1p-1022);
        }
      }
}

TEST(Rmsnorm, planted_faults_are_caught) {
  const Row r("rmsnorm", Shape1::gaussian, 1000);
  const Truth t = r.c.truth("rsqrt_ulp=0.5 div_ulp=0.5");
  expect_pass(t, rmsnorm_kernel(r.x, r.gain, {}));
  expect_caught(t, rmsnorm_kernel(r.x, r.gain, {.fault = 1.01}));
  const auto largest = std::max_element(r.x.begin(), r.x.end()) - r.x.begin();
  expect_caught(t, rmsnorm_kernel(r.x, r.gain, {.drop = static_cast<int>(largest)}));
  expect_caught(t, rmsnorm_kernel(r.x, r.gain, {.acc = "bf16"}));
  expect_caught(t, rmsnorm_kernel(r.x, Values(1000, 1), {}));
}

TEST(Rmsnorm, specials_and_bad_input) {
  OpCase c("rmsnorm", {{"rows", "2"}, {"cols", "2"}});
  c.put("x", {1, INFINITY, 1, NAN});
  c.put("gamma", {1, 1});
  const Truth t = c.truth("");
  EXPECT_EQ(t.value[0], 0);
  for (int i : {1, 2, 3}) EXPECT_TRUE(std::isnan(t.value[i]));
  EXPECT_EQ(kind_of([] {
              Attributes::complete(op("rmsnorm").attributes, {{"rows", "1"}, {"cols", "1"}, {"eps", "0"}});
            }),
            InputErrorKind::bad_value);
  EXPECT_EQ(kind_of([&] { c.truth("acc=i32"); }), InputErrorKind::unknown_name);
}

}  // namespace
}  // namespace assay::testing
