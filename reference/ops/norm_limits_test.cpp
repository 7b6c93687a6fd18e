// The limits of layernorm and rmsnorm under attack: kernels that keep their contract in every way that it
// leaves open stay within them, and the fault beside each does not.
#include "reference/ops/merged_testing.hpp"
#include "reference/ops/op_testing.hpp"
#include "reference/ops/variance.hpp"

namespace assay::testing {
namespace {

enum class Attack { step, offset, ramp, gaussian, outliers, halves };
constexpr Attack kAttacks[] = {Attack::step,     Attack::offset,   Attack::ramp,
                               Attack::gaussian, Attack::outliers, Attack::halves};

Values attack(Attack kind, std::size_t n, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  const float step = std::ldexp(1.0F, -4 - static_cast<int>(random() % 16));
  Values x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float at = static_cast<float>(i) / static_cast<float>(n), sign = i % 2 == 0 ? -1.0F : 1.0F;
    switch (kind) {
      case Attack::step:
        x[i] = sign + (at > 0.5F ? step : 0.0F);
        break;
      case Attack::offset:
        x[i] = 1000 + normal(random);
        break;
      case Attack::ramp:
        x[i] = 100 * at + step * normal(random);
        break;
      case Attack::gaussian:
        x[i] = normal(random);
        break;
      case Attack::outliers:
        x[i] = (random() % 64 == 0 ? 100.0F : 1.0F) * normal(random);
        break;
      case Attack::halves:
        x[i] = (at < 0.5F ? 1.0F : -1.0F) * (1 + step);
        break;
    }
  }
  return x;
}

// |kernel - exact| over the limit, of the mean and of the variance; the larger.
double ratio(const Moments& m, const Part& got) {
  const auto one = [](double error, double limit) { return error == 0 ? 0 : error / limit; };
  return std::max(one(std::fabs(double{got.mean} - m.mean.value), m.mean.error),
                  one(std::fabs(double{got.squares / got.n} - m.variance.value), m.variance.error));
}

Moments of(const Values& x, Order order) {
  return moments(std::vector<double>(x.begin(), x.end()), VarianceKind::welford, order, 0.5,
                 machine("f32", false));
}

TEST(MergedMoments, every_tree_and_every_formula_of_the_merge_stays_within_the_limit) {
  std::mt19937_64 random(1);
  double worst = 0, worst_of_lanes = 0;
  for (const std::size_t n : {1UL, 2UL, 7UL, 64UL, 1000UL, 16384UL})
    for (const Attack kind : kAttacks) {
      const Values x = attack(kind, n, random);
      const Moments any = of(x, Order::any);
      for (const std::size_t lanes : {1UL, 2UL, 8UL, 128UL, 1024UL}) {
        const Moments declared = of(x, Order(Order::lanes, static_cast<std::int64_t>(lanes)));
        for (const MergeTree tree : kMergeTrees)
          for (const MergeFormula formula : kMergeFormulas)
            for (const bool contiguous : {false, true})
              for (const bool empty : {false, true}) {
                const Part got = merged_moments(x, {lanes, contiguous, empty, tree, formula}, random);
                worst = std::max(worst, ratio(any, got));
                // A chunk of a contiguous lane may be longer than an n-th by less than a term.
                if (tree == MergeTree::halves)
                  worst_of_lanes = std::max(worst_of_lanes, ratio(declared, got));
              }
      }
    }
  EXPECT_LE(worst, 1);
  EXPECT_LE(worst_of_lanes, 1);
  RecordProperty("worst", std::to_string(worst));
}

// Coordinates moved one after another, whatever raises the ratio kept.
TEST(MergedMoments, a_coordinate_search_finds_no_violation) {
  std::mt19937_64 random(2);
  for (const std::size_t n : {3UL, 16UL, 100UL})
    for (const MergeFormula formula : kMergeFormulas)
      for (const MergeTree tree : kMergeTrees) {
        const MergedKernel kernel{.lanes = 1 + random() % n, .tree = tree, .formula = formula};
        Values x = attack(kAttacks[random() % 6], n, random);
        double best = 0;
        for (int round = 0; round < 300; ++round) {
          Values next = x;
          float& moved = next[random() % n];
          moved = random() % 2 == 0 ? std::nextafter(moved, moved + (random() % 2 == 0 ? 1.0F : -1.0F))
                                    : moved * (1 + std::ldexp(1.0F, -static_cast<int>(random() % 24)));
          std::mt19937_64 same(3);
          const double found = ratio(of(next, Order::any), merged_moments(next, kernel, same));
          ASSERT_LE(found, 1);
          if (found >= best) best = found, x = next;
        }
      }
}

TEST(MergedMoments, one_accumulator_is_judged_as_such_and_a_merge_without_its_term_is_caught) {
  std::mt19937_64 random(3);
  const Values x = attack(Attack::step, 16384, random);
  const MergedKernel lanes{.lanes = 128, .formula = MergeFormula::weighted};
  const Part got = merged_moments(x, lanes, random);
  EXPECT_LE(ratio(of(x, Order::sequential), merged_moments(x, {}, random)), 1);
  EXPECT_LE(ratio(of(x, Order(Order::lanes, 128)), got), 1);
  Values ramp = attack(Attack::ramp, 16384, random);
  for (const Order order : {Order(Order::any), Order(Order::lanes, 128)}) {
    EXPECT_LE(ratio(of(ramp, order), merged_moments(ramp, {.lanes = 128, .contiguous = true}, random)), 1);
    EXPECT_GT(
        ratio(of(ramp, order), merged_moments(ramp, {.lanes = 128, .contiguous = true, .fault = 0}, random)),
        1);
    EXPECT_GT(ratio(of(ramp, order),
                    merged_moments(ramp, {.lanes = 128, .contiguous = true, .fault = 0.9F}, random)),
              1);
  }
}

// The last steps of both ops on one element, one rounding of f32 an operation.
struct Steps {
  std::string_view product = "x_inv_gamma", mid = "acc", gamma = "f32";
  float operator()(float x, float inverse, float weight) const {
    const float g = Arithmetic{gamma}(weight);
    if (product == "x_gamma_inv") return x * g * inverse;
    if (product == "gamma_inv_x") return g * inverse * x;
    return Arithmetic{mid}(x * inverse) * g;
  }
};

Values rmsnorm_of(const Values& x, const Values& gamma, const Steps& steps, std::string_view out = "f32") {
  float sum = 0;
  for (const float each : x) sum += each * each;
  const float inverse = 1.0F / std::sqrt(sum / static_cast<float>(x.size()) + 1e-5F);
  Values y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(Arithmetic{out}(steps(x[i], inverse, gamma[i])));
  return y;
}

struct Case {
  OpCase c;
  Values x, gamma;
  Case(std::size_t n, std::string_view dtype, std::uint64_t seed, float size)
      : c("rmsnorm", {{"rows", "1"}, {"cols", std::to_string(n)}, {"dtype", std::string(dtype)}}) {
    x = c.put("x", draw(Shape1::gaussian, n, seed, size));
    gamma = c.put("gamma", draw(Shape1::gaussian, n, seed + 1, size));
  }
  Truth of(std::string_view more) const { return c.truth("rsqrt_ulp=1 div_ulp=0.5 " + std::string(more)); }
};

TEST(Rmsnorm, every_order_of_the_products_is_covered_where_they_underflow) {
  for (const float size : {1.0F, 1e-10F, 1e-20F, 1e-22F, 1e-38F})
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
      const Case r(64, "f32", seed, size);
      for (const char* product : {"x_inv_gamma", "x_gamma_inv", "gamma_inv_x"}) {
        const Values y = rmsnorm_of(r.x, r.gamma, {.product = product});
        expect_pass(r.of("product=any"), y);
        expect_pass(r.of(std::string("product=") + product), y);
      }
    }
  // Gamma that is multiplied first has lost its bits; who declares another order is wrong by them.
  const Case r(64, "f32", 3, 1e-22F);
  expect_caught(r.of("product=x_inv_gamma"), rmsnorm_of(r.x, r.gamma, {.product = "x_gamma_inv"}));
  const Case plain(64, "f32", 3, 1.0F);
  expect_caught(plain.of("product=any"), rmsnorm_of(plain.x, Values(64, 1), {}));
}

TEST(Rmsnorm, x_gamma_that_overflows_claims_nothing_unless_the_order_excludes_it) {
  OpCase c("rmsnorm", {{"rows", "1"}, {"cols", "2"}});
  c.put("x", {1e10F, 1e10F});
  c.put("gamma", {1e30F, 1});
  const Values overflowed = {INFINITY, 1}, right = {1e30F, 1};
  expect_pass(c.truth("product=any"), overflowed);
  expect_pass(c.truth("product=any"), right);
  expect_caught(c.truth("product=gamma_inv_x"), overflowed);
  expect_pass(c.truth("product=gamma_inv_x"), right);
  // Beside an Inf the others are 0, or what Inf * 0 is.
  c.put("x", {INFINITY, 1e30F});
  c.put("gamma", {1, 1e30F});
  expect_pass(c.truth("product=any"), Values{NAN, NAN});
  expect_caught(c.truth("product=x_inv_gamma"), Values{NAN, NAN});
  expect_caught(c.truth("product=any"), Values{0, 0});
  // An x that vanishes is 0 * Inf; one that does not is Inf of its sign.
  c.put("x", {1000, 1e-45F});
  c.put("gamma", {-INFINITY, INFINITY});
  expect_pass(c.truth(""), Values{-INFINITY, NAN});
  expect_pass(c.truth(""), Values{-INFINITY, INFINITY});
  expect_caught(c.truth(""), Values{INFINITY, INFINITY});
}

// 1 / 20000 lies below 2^-14: flushed it is 0, and the mean Inf 0.
TEST(Rmsnorm, a_mean_of_inf_by_a_reciprocal_that_may_be_0_claims_nothing) {
  for (const auto& [cols, words, keeps] : {std::tuple{20000, "acc=f16 ftz=yes", false},
                                           {20000, "acc=f16", true},
                                           {10000, "acc=f16 ftz=yes", true},
                                           {70000, "acc=f16", false}}) {
    OpCase c("rmsnorm", {{"rows", "1"}, {"cols", std::to_string(cols)}, {"dtype", "f32"}});
    Values x(static_cast<std::size_t>(cols), 1), y(x.size(), 0), lost(x.size(), NAN);
    x[0] = INFINITY, y[0] = NAN;
    c.put("x", x);
    c.put("gamma", Values(x.size(), 1));
    expect_pass(c.truth(words), y);
    keeps ? expect_caught(c.truth(words), lost) : expect_pass(c.truth(words), lost);
  }
}

TEST(Rmsnorm, a_declared_rounding_that_is_made_passes_and_one_that_is_skipped_is_wrong) {
  int rows = 0, skipped_mid = 0, skipped_gamma = 0, one_percent = 0;
  for (const char* dtype : {"f32", "bf16"})
    for (std::uint64_t seed = 1; seed < 200; ++seed) {
      const Case r(64, dtype, seed, 1.0F);
      const Truth mid = r.of("mid=bf16 order=sequential"), gamma = r.of("gamma=bf16 order=sequential");
      expect_pass(mid, rmsnorm_of(r.x, r.gamma, {.mid = "bf16"}, dtype));
      expect_pass(gamma, rmsnorm_of(r.x, r.gamma, {.gamma = "bf16"}, dtype));
      expect_pass(gamma, rmsnorm_of(r.x, r.gamma, {.product = "gamma_inv_x", .gamma = "bf16"}, dtype));
      const Values plain = rmsnorm_of(r.x, r.gamma, {}, dtype);
      expect_pass(r.of(""), plain);
      ++rows;
      skipped_mid += judge(mid, plain).bad > 0;
      skipped_gamma += judge(gamma, plain).bad > 0;
      Values more = rmsnorm_of(r.x, r.gamma, {.mid = "bf16"}, dtype);
      for (float& each : more) each *= 1.01F;
      one_percent += judge(mid, more).bad > 0;
    }
  EXPECT_EQ(skipped_mid, rows);
  EXPECT_EQ(skipped_gamma, rows);
  EXPECT_EQ(one_percent, rows);
}

TEST(Rmsnorm, a_store_through_a_coarser_format_that_is_skipped_is_wrong) {
  int rows = 0, skipped = 0;
  for (std::uint64_t seed = 1; seed < 100; ++seed, ++rows) {
    const Case r(64, "f32", seed, 1.0F);
    const Truth t = r.of("out=bf16 order=sequential");
    expect_pass(t, rmsnorm_of(r.x, r.gamma, {}, "bf16"));
    skipped += judge(t, rmsnorm_of(r.x, r.gamma, {})).bad > 0;
  }
  EXPECT_EQ(skipped, rows);
}

TEST(Rmsnorm, a_mid_between_other_products_is_a_contradiction) {
  const Case r(4, "f32", 1, 1.0F);
  EXPECT_EQ(kind_of([&] { r.of("mid=bf16 product=gamma_inv_x"); }), InputErrorKind::bad_value);
  EXPECT_EQ(r.of("mid=f32 product=gamma_inv_x").value.size(), 4U);  // no rounding of f32
}

Truth layernorm_truth(const Values& x, const Values& gamma, const Values& beta, std::string_view contract,
                      const char* dtype = "f32") {
  OpCase c("layernorm", {{"rows", "1"}, {"cols", std::to_string(x.size())}, {"dtype", dtype}});
  c.put("x", x);
  c.put("gamma", gamma);
  c.put("beta", beta);
  return c.truth(contract);
}

TEST(Layernorm, infinities_are_claimed_where_no_kernel_can_have_another_sign_or_a_nan) {
  const float inf = INFINITY;
  const Values zero(4, 0.0F);
  // The second x is the mean but for rounding: Inf * d has either sign, or is NaN.
  const Truth t = layernorm_truth({1, 2.0000002F, 3, 2}, {inf, inf, -inf, 1}, zero, "");
  expect_pass(t, Values{-inf, NAN, -inf, 0});
  expect_pass(t, Values{-inf, inf, -inf, 0});
  expect_caught(t, Values{inf, NAN, -inf, 0});
  expect_caught(t, Values{-inf, NAN, -inf, NAN});
  expect_caught(layernorm_truth({1, 2, 3, 4}, Values(4, 1), {inf, 0, NAN, 0}, ""), Values{0, 0, NAN, 0});
  // A kernel that clamps by fmax has 1 / sqrt(eps) where the variance is NaN.
  const Values infinite = {1, inf, 2, 3};
  expect_pass(layernorm_truth(infinite, Values(4, 1), zero, "variance=one_pass"),
              Values{-inf, NAN, -inf, -inf});
  expect_caught(layernorm_truth(infinite, Values(4, 1), zero, "variance=one_pass"),
                Values{-inf, 0, -inf, -inf});
  expect_caught(layernorm_truth(infinite, Values(4, 1), zero, ""), Values{-inf, NAN, -inf, -inf});
}

TEST(Layernorm, where_overflow_may_be_nothing_is_claimed_and_where_only_the_analysis_ends_a_nan_is_wrong) {
  const Values ones(64, 1), zero(64, 0);
  const Values large(64, 3e38F);
  for (const char* kind : {"variance=two_pass", "variance=one_pass", "variance=welford"})
    expect_pass(layernorm_truth(large, ones, zero, kind), Values(64, NAN));
  // gamma_n of 2^-8 has no meaning at n = 300; bf16 has the range of f32.
  const std::size_t n = 300;
  const Values x = draw(Shape1::gaussian, n, 1), one(n, 1), none(n, 0);
  for (const char* kind : {"variance=two_pass", "variance=one_pass", "variance=welford"})
    for (const char* order : {" order=any", " order=tree", " order=sequential"}) {
      const Truth t = layernorm_truth(x, one, none, std::string(kind) + order + " acc=bf16", "bf16");
      expect_caught(t, Values(n, NAN));
      expect_pass(t, t.value);
    }
}

}  // namespace
}  // namespace assay::testing
