// Counter-examples to limits of ops on rows: each is a kernel within its declared arithmetic, in plain
// arithmetic of its own, that a limit once accused; beside it a wrong kernel that is still caught.
#include "reference/ops/op_io.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

constexpr double kStep32 = 0x1p-149, kStep16 = 0x1p-24, kNormal16 = 0x1p-14;

// error / limit of one element; what is not finite beside a finite truth is +Inf.
double ratio(const Truth& t, std::size_t i, double got) {
  const double error = std::fabs(got - t.value[i]);
  if (error == 0) return 0;
  return std::isnan(error) ? kInfinity : error / t.limit[i];
}
void expect_holds(const char* what, const Truth& t, std::size_t i, double got) {
  const double found = ratio(t, i, got);
  EXPECT_LE(found, 1) << what;
  ::testing::Test::RecordProperty(what, std::to_string(found));
}
double f16(double x) { return round_f16(x); }
double flushed16(double x) { return std::fabs(round_f16(x)) < kNormal16 ? 0 : round_f16(x); }

// The number farthest from `exact` within so many steps of it.
double farthest(double exact, double steps, double step) {
  const double above = std::floor(exact / step + steps), below = std::ceil(exact / step - steps);
  return (above - exact / step > exact / step - below ? above : below) * step;
}

OpCase softmax(const Values& x, const std::map<std::string, std::string>& more = {}) {
  std::map<std::string, std::string> given = {{"rows", "1"}, {"cols", std::to_string(x.size())}};
  given.insert(more.begin(), more.end());
  OpCase c("softmax", given);
  c.put("x", x);
  return c;
}

TEST(RowBounds, an_exp_whose_result_is_subnormal_errs_by_its_declared_steps) {
  const OpCase c = softmax({0, -100});
  for (const int ulps : {2, 4, 20}) {
    const Truth t = c.truth("acc=f32 div_ulp=0.5 order=sequential exp_ulp=" + std::to_string(ulps));
    const double w = farthest(std::exp(-100.0), ulps, kStep32);  // over 1 + w, which is 1
    expect_holds(("exp f32 subnormal, ulps " + std::to_string(ulps)).c_str(), t, 1, w);
    expect_caught(t, Values{1, static_cast<float>(w < std::exp(-100.0) ? w - 3 * kStep32 : w + 3 * kStep32)});
  }
  const OpCase narrow = softmax({0, -12}, {{"dtype", "f32"}});
  const Truth t = narrow.truth("acc=f16 exp_ulp=4 div_ulp=0.5");
  expect_holds("exp f16 subnormal, 4 ulps", t, 1, farthest(std::exp(-12.0), 4, kStep16));
  expect_caught(t, Values{1, static_cast<float>(farthest(std::exp(-12.0), 9, kStep16))});
}

TEST(RowBounds, a_subnormal_quotient_errs_by_its_declared_steps) {
  const OpCase c = softmax({0, 0, -100});
  const Truth t = c.truth("exp_ulp=0.5 order=sequential");
  const double w = std::nearbyint(std::exp(-100.0) / kStep32) * kStep32;
  const double y = std::floor(w / kStep32 / 2 + 2) * kStep32;  // div_ulp=2 is the default
  expect_holds("softmax: subnormal quotient, div_ulp=2", t, 2, y);
  expect_caught(t, Values{0.5F, 0.5F, static_cast<float>(y + 4 * kStep32)});
}

TEST(RowBounds, a_subnormal_variance_errs_by_the_steps_of_its_division) {
  OpCase c("layernorm", {{"rows", "1"}, {"cols", "2"}, {"eps", "1e-6"}});
  const Values x = c.put("x", {0x1p-10F, -0x1p-10F});
  c.put("gamma", {1, 1});
  c.put("beta", {0, 0});
  const Truth t = c.truth("acc=f16 variance=two_pass rsqrt_ulp=0.5 product=x_inv_gamma");
  const auto of = [&](double steps) {  // the variance is 16 steps of 2^-24, eps 17
    return f16(0x1p-10 * f16(1 / std::sqrt((steps + 17) * kStep16)));
  };
  expect_holds("layernorm: subnormal variance, div_ulp=2", t, 0, of(14));  // div_ulp=2 is the default
  expect_caught(t, Values{static_cast<float>(of(11)), static_cast<float>(-of(11))});
}

TEST(RowBounds, a_mean_may_be_a_product_by_a_reciprocal_that_is_flushed) {
  const std::size_t n = 20000;
  OpCase c("rmsnorm", {{"rows", "1"}, {"cols", std::to_string(n)}, {"dtype", "f16"}, {"eps", "1e-4"}});
  const Values x = c.put("x", Values(n, 0.25F));
  c.put("gamma", Values(n, 1));
  const Truth t = c.truth("acc=f16 ftz=yes order=tree div_ulp=0.5");
  const double sum = f16(n / 16.0), mean = sum * flushed16(1.0 / static_cast<double>(n));
  EXPECT_EQ(mean, 0);
  expect_holds("rmsnorm: 1/n flushed, acc=f16", t, 0, f16(0.25 * f16(1 / std::sqrt(f16(mean + f16(1e-4))))));
  Values wrong(n, 1.0F);
  wrong[3] = NAN;
  expect_caught(t, wrong);
}

TEST(RowBounds, a_reciprocal_of_a_sum_may_be_subnormal) {
  const std::size_t n = 20000;
  const OpCase c = softmax(Values(n, 1), {{"dtype", "f32"}});
  const Truth t = c.truth("acc=f16 ftz=yes order=tree exp_ulp=0.5");
  expect_holds("softmax: 1/S flushed, acc=f16", t, 0, f16(1 * flushed16(1.0 / n)));
}

TEST(RowBounds, a_kernel_may_begin_with_the_sink) {
  const std::size_t n = 4096;
  OpCase c = softmax(Values(n, -17.4F), {{"sinks", "yes"}});
  c.put("sinks", {0});
  const Truth t = c.truth("order=sequential exp_ulp=0.5 div_ulp=0.5");
  float w = static_cast<float>(std::exp(-17.4)), s = 1;
  s = static_cast<float>(std::exp(double{-17.4F})), w = s, s = 1;
  for (std::size_t i = 0; i < n; ++i) s += w;
  EXPECT_EQ(s, 1);
  expect_holds("softmax: the sink first, sequential", t, 0, w / s);
  expect_caught(t, Values(n, 1.001F * w));
}

TEST(RowBounds, masked_logits_take_their_places_in_a_tree) {
  const std::size_t n = 4096;
  struct Row {
    const char* order;
    std::vector<std::size_t> visible;  // whose additions form a chain
  };
  std::vector<Row> rows = {
      {"tree", {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}}, {"lanes:64", {}}, {"blocks:64", {}}};
  for (std::size_t i = 0; i < 64; ++i) rows[1].visible.push_back(i), rows[2].visible.push_back(64 * i);
  for (std::size_t i = 1; i < 64; ++i) rows[2].visible.push_back(i);
  for (const Row& row : rows) {
    Values x(n, 0.0F);
    for (const std::size_t i : row.visible)
      x[i] = i == 0 ? 0.0F : -16.64F;  // exp is 0.996 of half a step of 1
    OpCase c("softmax", {{"rows", "1"}, {"cols", std::to_string(n)}, {"mask", "random"}});
    c.put("x", x);
    std::vector<std::int64_t> mask(n, 0);
    for (const std::size_t i : row.visible) mask[i] = 1;
    c.set.insert_or_assign("mask", integer_tensor("int8", {1, static_cast<std::int64_t>(n)}, mask));
    const Truth t = c.truth(std::string("exp_ulp=0.5 div_ulp=0.5 order=") + row.order);
    // 1 first in each chain, so that every term after it is lost.
    expect_holds((std::string("softmax: masked, ") + row.order).c_str(), t, 0, 1);
    Values wrong(n, 0.0F);
    wrong[0] = 0.99F;
    expect_caught(t, wrong);
  }
}

TEST(RowBounds, a_weight_is_kept_relative_to_the_maximum_of_its_time) {
  const OpCase c = softmax({0, 0.7F});
  const Truth t = c.truth("rescales=1 weights=bf16 order=sequential exp_ulp=0.5 div_ulp=0.5");
  // exp(0) is kept; then the maximum is 0.7, and it is multiplied by exp(-0.7).
  const float factor = static_cast<float>(std::exp(-double{0.7F})), s = factor + 1;
  expect_holds("softmax: weights kept before a rescale", t, 0, factor / s);
  expect_caught(t, Values{1.02F * factor / s, 1 / s});
  const Truth two_pass = c.truth("weights=bf16 order=sequential exp_ulp=0.5 div_ulp=0.5");
  expect_caught(two_pass, Values{factor / s, 1 / s});
}

TEST(RowBounds, exp_of_0_errs_by_its_ulps) {
  const OpCase c = softmax({0, -1, -2});
  const Truth t = c.truth("exp_ulp=16 div_ulp=0.5 order=sequential");
  const float one = 1 + 16 * 0x1p-23F, a = static_cast<float>(std::exp(-1.0)),
              b = static_cast<float>(std::exp(-2.0));
  const float s = one + a + b;
  expect_holds("softmax: exp(0) = 1 + 16 ulp", t, 0, one / s);
  expect_caught(t, Values{one * (1 + 32 * 0x1p-23F) / s, a / s, b / s});
  OpCase l("logsumexp", {{"rows", "1"}, {"cols", "3"}});
  l.put("x", {0, -1, -2});
  expect_holds("logsumexp: exp(0) = 1 + 16 ulp", l.truth("exp_ulp=16 order=sequential"), 0,
               static_cast<float>(std::log(double{s})));
}

TEST(RowBounds, sums_of_equal_numbers_are_exact) {
  for (const std::size_t n : {4096UL, 1000UL}) {
    OpCase c("layernorm", {{"rows", "1"}, {"cols", std::to_string(n)}});
    c.put("x", Values(n, 1000));
    c.put("gamma", Values(n, 1));
    c.put("beta", Values(n, 0));
    for (const char* kind : {"two_pass", "one_pass"}) {
      const Truth t = c.truth(std::string("order=any div_ulp=0.5 variance=") + kind);
      expect_pass(t, Values(n, 0));
      expect_caught(t, Values(n, 1));
      if (n == 4096) {
        EXPECT_EQ(t.limit[0], 0) << kind;  // the division is exact too
      }
      if (n == 4096) continue;
      // Two roundings of 1/n and its product, one of x - mean, one to spare, over sqrt(eps).
      const double eps = c.attributes.real("eps"), most = 1000 * gamma_n(4, 0x1p-24) / std::sqrt(eps);
      EXPECT_LT(t.limit[0], most) << kind;
    }
  }
}

TEST(RowBounds, what_cannot_be_flushed_is_not_charged) {
  for (const char* name : {"softmax", "logsumexp", "rmsnorm", "layernorm", "wht"})
    for (const char* acc : {"f32", "f16"}) {
      const std::size_t n = 1024;
      OpCase c(name, {{"rows", "1"}, {"cols", std::to_string(n)}});
      Values x = draw(Shape1::gaussian, n, 3);
      for (float& each : x) each = static_cast<float>(round_f16(each + (each < 0 ? -0.5F : 0.5F)));
      c.put("x", x);
      for (const TensorSpec& s : c.op_row->tensors(c.attributes))
        if (s.name == "gamma" || s.name == "beta") c.put(s.name, Values(n, 1));
      const auto median = [&](const char* ftz) {
        Truth t = c.truth(std::string("order=tree acc=") + acc + " ftz=" + ftz);
        std::nth_element(t.limit.begin(), t.limit.begin() + t.limit.size() / 2, t.limit.end());
        return t.limit[t.limit.size() / 2];
      };
      // In f16 some numbers of such a row may be flushed: weights, squares, sums of the transform.
      if (std::string_view(acc) == "f32")
        EXPECT_EQ(median("yes"), median("no")) << name;
      else
        EXPECT_LT(median("yes"), 2 * median("no")) << name;
    }
}

TEST(RowBounds, a_log_near_1_may_err_absolutely_where_the_contract_says_so) {
  OpCase c("logsumexp", {{"rows", "1"}, {"cols", "2"}});
  c.put("x", {0, -12});
  const double right = std::log1p(std::exp(-12.0)), fast = 0x1.7p-22;  // __logf: 2^-21.41 = 0x1.8p-22
  const Truth said = c.truth("log_ulp=3 log_abs=3.59e-07"), unsaid = c.truth("log_ulp=3");
  const Values got = {static_cast<float>(right + fast)};
  expect_pass(said, got);
  expect_caught(unsaid, got);
  expect_caught(said, Values{static_cast<float>(right + 4 * fast)});
  // Of four equal numbers the sum is 4: no absolute error.
  OpCase far("logsumexp", {{"rows", "1"}, {"cols", "4"}});
  far.put("x", Values(4, 0));
  EXPECT_EQ(far.truth("log_ulp=3 log_abs=0.001").limit[0], far.truth("log_ulp=3").limit[0]);
}

TEST(RowBounds, a_log2_that_is_stored_is_said_and_is_no_natural_one) {
  OpCase c("logsumexp", {{"rows", "1"}, {"cols", "100"}});
  const Values x = c.put("x", draw(Shape1::gaussian, 100, 4, 5));
  const float top = *std::max_element(x.begin(), x.end()), c2 = 1.4426950408889634F;
  float sum = 0;
  for (const float each : x) sum += static_cast<float>(std::exp(double{each} - top));
  const auto natural = static_cast<float>(top + static_cast<float>(std::log(double{sum})));
  const Values in_parts = {top * c2 + static_cast<float>(std::log2(double{sum}))}, whole = {natural * c2};
  for (const Values& y : {in_parts, whole}) {
    expect_pass(c.truth("base=2 exp_ulp=1"), y);
    expect_caught(c.truth("base=e exp_ulp=1"), y);
    expect_caught(c.truth("base=2 exp_ulp=1"), Values{y[0] * 1.0001F});
  }
  expect_caught(c.truth("base=2 exp_ulp=1"), Values{natural});
  expect_pass(c.truth("exp_ulp=1"), Values{natural});
}

// A division by a power of 2 is exact, and overflows as any other; so does a mean of numbers that are wider
// than its accumulator.
TEST(RowBounds, an_exact_step_that_overflows_leaves_nothing_to_claim) {
  const std::string plain = "div_ulp=0.5";
  const Truth beyond = softmax({0x1p127F, 0}, {{"temperature", "0.5"}}).truth(plain);  // Inf - Inf
  EXPECT_EQ(beyond.limit[0], kInfinity);
  EXPECT_EQ(beyond.limit[1], kInfinity);
  expect_caught(softmax({0x1p126F, 0}, {{"temperature", "0.5"}}).truth(plain), Values{NAN, NAN});
  const Truth narrow = softmax({0x1p18F, 0}, {{"temperature", "2"}}).truth(plain + " acc=f16");
  EXPECT_EQ(narrow.limit[0], kInfinity);
  for (const float x : {0x1p17F, 0x1p15F}) {
    OpCase c("layernorm", {{"rows", "1"}, {"cols", "1"}, {"eps", "1"}});
    c.put("x", {x}), c.put("gamma", {1}), c.put("beta", {0});
    const Truth t = c.truth("variance=welford acc=f16 order=sequential div_ulp=0.5");
    if (x > 0x1p16F)
      EXPECT_EQ(t.limit[0], kInfinity);
    else
      expect_caught(t, Values{NAN});
  }
}

// 142 times exp(0) up by 100 ulps, 1.098 in f16, is 5.8e5: an online sum is Inf before it is divided by.
TEST(RowBounds, factors_that_err_upward_may_take_an_online_sum_out_of_range) {
  const OpCase c = softmax({0, 0});
  EXPECT_EQ(c.truth("acc=f16 exp_ulp=100 rescales=142").limit[0], kInfinity);
  const Truth few = c.truth("acc=f16 exp_ulp=100 rescales=14");
  EXPECT_LT(few.limit[0], kInfinity);
  expect_caught(few, Values{NAN, NAN});
}

}  // namespace
}  // namespace assay::testing
