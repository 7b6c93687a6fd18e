// The rules of the limits of ops on rows, each with a known point: a kernel within its contract, in plain
// arithmetic of its own, that takes more than half of the limit, and is accused when that rule alone is
// dropped.
#include <functional>
#include <set>

#include "reference/ops/op_io.hpp"
#include "reference/ops/op_testing.hpp"
#include "reference/ops/variance.hpp"

namespace assay::testing {
namespace {

constexpr double kStep32 = 0x1p-149, kStep16 = 0x1p-24, kNormal16 = 0x1p-14, kUlp1 = 0x1p-23;

double f16(double x) { return round_f16(x); }
double f32(double x) { return static_cast<double>(static_cast<float>(x)); }

// What a kernel returns beside what is true of it: an element of an output, or a moment.
struct Seen {
  double got, value, limit;
};
Seen seen(const Truth& t, std::size_t i, double got) { return {got, t.value[i], t.limit[i]}; }

OpCase rows_of(const char* op, const Values& x, std::map<std::string, std::string> more = {}) {
  more.insert({{"rows", "1"}, {"cols", std::to_string(x.size())}});
  OpCase c(op, more);
  c.put("x", x);
  for (const TensorSpec& each : c.op_row->tensors(c.attributes))
    if (each.name == "gamma") c.put("gamma", Values(x.size(), 1));
  return c;
}
Moments moments_of(const std::vector<double>& x, VarianceKind kind, Order order, double div_ulp,
                   const Machine& m) {
  return moments(x, kind, order, div_ulp, m);
}

// A number x of f16 between low and high for which `score` is largest.
double best16(double low, double high, const std::function<double(double)>& score) {
  double best = low;
  for (double x = low; x <= high; x = f16(x * (1 + 0x1.8p-11)))
    if (score(x) > score(best)) best = x;
  return best;
}

struct Row {
  Rule rule;
  bool claims;  // a condition of claiming: the sound limit claims nothing
  std::function<Seen()> point;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> list = {
      {Rule::operand_flush, false,
       [] {  // 2^-127 is read as 0
         const OpCase c = rows_of("rmsnorm", {0x1p-127F}, {{"eps", "1e-30"}});
         return seen(c.truth("ftz=yes product=x_inv_gamma"), 0, 0);
       }},
      {Rule::operand_rounding, false,
       [] {  // the mean of one number, a tie of f16
         const Moments m =
             moments_of({1 + 0x1p-11}, VarianceKind::welford, Order::tree, 0.5, machine("f16", false));
         return Seen{1, m.mean.value, m.mean.error};
       }},
      {Rule::step_overflow, true,
       [] {  // 1.5 2^128 is Inf, and Inf - Inf
         const OpCase c = rows_of("softmax", {0x1.8p127F, 0x1p127F}, {{"temperature", "0.5"}});
         return seen(c.truth("div_ulp=0.5"), 0, NAN);
       }},
      {Rule::quotient_ulp, false,
       [] {  // 1 / 2 within 100 ulps
         const OpCase c = rows_of("softmax", {0, 0});
         return seen(c.truth("exp_ulp=0 div_ulp=100"), 0, 0.5 + 100 * kUlp1 / 2);
       }},
      {Rule::quotient_underflow, false,
       [] {  // exp(-100) / 2 = 13.27 steps, within 20 of them
         const OpCase c = rows_of("softmax", {0, 0, -100});
         return seen(c.truth("exp_ulp=0 div_ulp=20"), 2, 33 * kStep32);
       }},
      {Rule::reciprocal_underflow, false,
       [] {  // 1 / 20000 is subnormal in f16, and flushed: the mean is 0
         const OpCase c = rows_of("rmsnorm", Values(20000, 0.25F), {{"eps", "1e-4"}});
         return seen(c.truth("acc=f16 ftz=yes order=tree div_ulp=0.5"), 0,
                     f16(0.25 * f16(1 / std::sqrt(f16(1e-4)))));
       }},
      {Rule::reciprocal_overflow, true,
       [] {  // 1 / 1e-5 is Inf in f16, and 0 times it NaN
         const OpCase c = rows_of("softmax", {0, 0}, {{"softcap", "1e-5"}});
         return seen(c.truth("acc=f16"), 0, NAN);
       }},
      {Rule::divisor_rounding, false,
       [] {  // 70000 is Inf in f16: the mean is 0
         const OpCase c = rows_of("rmsnorm", Values(70000, 0.125F), {{"eps", "1e-4"}});
         return seen(c.truth("acc=f16 order=tree"), 0, f16(0.125 * f16(1 / std::sqrt(f16(1e-4)))));
       }},
      {Rule::rsqrt_ulp, false,
       [] {
         const OpCase c = rows_of("rmsnorm", {1}, {{"eps", "1e-30"}});
         return seen(c.truth("rsqrt_ulp=100 div_ulp=0"), 0, 1 + 100 * kUlp1);
       }},
      {Rule::tanh_ulp, false,
       [] {  // tanh = 0.50004 within 1000 ulps; the other logit is 0, so that its y moves by all of the error
         const OpCase c = rows_of("softmax", {0.5494F, 0}, {{"softcap", "1"}});
         const double s = std::tanh(double{0.5494F}) + 1000 * kUlp1 / 2;
         return seen(c.truth("exp_ulp=0 div_ulp=0 tanh_ulp=1000"), 1, 1 / (1 + std::exp(s)));
       }},
      {Rule::tanh_underflow, false,
       [] {  // 0.5 / 30000 = 280 steps of f16, within 100 of them; then times 30000
         const OpCase c = rows_of("softmax", {0.5F, 0}, {{"softcap", "30000"}});
         const double s = (std::floor(0.5 / 30000 / kStep16) + 100) * kStep16 * 30000;
         return seen(c.truth("acc=f16 exp_ulp=0 div_ulp=0 tanh_ulp=100"), 1, f16(1 / (1 + std::exp(s))));
       }},
      {Rule::exp_ulp, false,
       [] {  // 2^-30 (1 + 4e-4) up by 100 ulps, 1 down
         const OpCase c = rows_of("softmax", {0, -20.794F});
         const double w = std::exp(double{-20.794F}) + 100 * 0x1p-53, one = 1 - 100 * kUlp1;
         return seen(c.truth("exp_ulp=100 div_ulp=0"), 1, w / (one + w));
       }},
      {Rule::exp_argument, false,
       [] {  // a difference just above 64 that loses half of its last place
         float low = -63.8F, best = low;
         const auto lost = [](float x) { return std::fabs(double{x - 0.3F} - (double{x} - double{0.3F})); };
         for (int i = 0; i < 1000; ++i, low = std::nextafter(low, -100.0F))
           if (lost(low) > lost(best)) best = low;
         const OpCase c = rows_of("softmax", {0.3F, best});
         return seen(c.truth("exp_ulp=0 div_ulp=0"), 1, std::exp(double{best - 0.3F}));
       }},
      {Rule::exp_underflow, false,
       [] {  // exp(-100) = 26.55 steps, within 20
         const OpCase c = rows_of("softmax", {0, -100});
         return seen(c.truth("exp_ulp=20 div_ulp=0.5"), 1, 7 * kStep32);
       }},
      {Rule::exp_logit, false,
       [] {  // as of tanh_ulp: the error of one logit
         const OpCase c = rows_of("softmax", {0.5494F, 0}, {{"softcap", "2"}});
         const double s = 2 * (std::tanh(double{0.5494F} / 2) + 1000 * kUlp1 / 4);
         return seen(c.truth("exp_ulp=0 div_ulp=0 tanh_ulp=1000"), 1, 1 / (1 + std::exp(s)));
       }},
      {Rule::exp_base2_shift, false,
       [] {  // exp2(fma(M, c, -fl(M c))), and M is added to its logarithm
         const double c = f16(1.4426950408889634);
         const double m = best16(44.5, 46, [&](double x) { return x * c - f16(x * c); });
         const OpCase l = rows_of("logsumexp", {static_cast<float>(m)});
         const double sum = f16(std::exp2(m * c - f16(m * c)));
         return seen(l.truth("acc=f16 exp=base2 exp_ulp=0.5 log_ulp=0.5"), 0, f16(m + f16(std::log(sum))));
       }},
      {Rule::exp_rescale, false,
       [] {  // exp(0) up by 100 ulps is kept; times exp(-20.794) up by as many; over 1 down by as many
         const OpCase c = rows_of("softmax", {0, 20.794F});
         const double factor = std::exp(double{-20.794F}) + 100 * 0x1p-53;
         const double w = f32((1 + 100 * kUlp1) * factor), one = 1 - 100 * kUlp1;
         return seen(c.truth("exp_ulp=100 div_ulp=0 rescales=1"), 0, w / (one + w));
       }},
      {Rule::exp_order, false,
       [] {  // each of 64 weights is lost that is added to 1
         Values x(65, -16.64F);
         x[0] = 0;
         return seen(rows_of("softmax", x).truth("exp_ulp=0 div_ulp=0 order=sequential"), 0, 1);
       }},
      {Rule::exp_bounded, true,
       [] {  // the sum is Inf in f16
         return seen(rows_of("softmax", Values(70000, 0)).truth("acc=f16 order=tree"), 0, 0);
       }},
      {Rule::kept_rounding, false,
       [] {  // 2^-8 (1 + 2^-8), a tie of bf16, is kept before the maximum is 3
         const float x = std::nextafter(static_cast<float>(std::log(257.0 / 65536)), 0.0F);
         const OpCase c = rows_of("softmax", {0, x, 3});
         const double w = round_bf16(std::exp(double{x})) * std::exp(-3.0);
         return seen(c.truth("exp_ulp=0.5 div_ulp=0.5 rescales=1 weights=bf16"), 1,
                     w / (1 + std::exp(-3.0) + std::exp(double{x} - 3)));
       }},
      {Rule::kept_underflow, false,
       [] {  // 2.5 steps of f16
         const float x = static_cast<float>(std::log(2.501 * kStep16));
         const OpCase c = rows_of("softmax", {0, x});
         return seen(c.truth("exp_ulp=0.5 div_ulp=0.5 rescales=1 weights=f16"), 1,
                     f16(std::exp(double{x})) / (1 + std::exp(double{x})));
       }},
      {Rule::kept_overflow, true,
       [] {  // 2^(M c - fl(M c)), of which fl is a multiple of 64 in bf16, is no number of f16
         const double c = round_bf16(1.4426950408889634);
         float m = 6000;
         while (m * c - round_bf16(m * c) < 17) m = std::nextafter(m, 7000.0F) + 1;
         const OpCase one = rows_of("softmax", {static_cast<float>(round_bf16(m))}, {{"dtype", "bf16"}});
         return seen(one.truth("acc=bf16 exp=base2 weights=f16"), 0, kInfinity);
       }},
      {Rule::log_ulp, false,
       [] {  // log 8 = 2.08
         const OpCase c = rows_of("logsumexp", Values(8, 0));
         return seen(c.truth("exp_ulp=0 log_ulp=100 order=tree"), 0, f32(std::log(8.0) + 99.5 * 2 * kUlp1));
       }},
      {Rule::log_abs, false,
       [] { return seen(rows_of("logsumexp", {0}).truth("exp_ulp=0 log_abs=0.001"), 0, f32(0.00099)); }},
      {Rule::log_base, false,
       [] {  // fl(M c), c = fl(log2 e), both down
         const double log2e = 1.4426950408889634, c = f16(log2e);
         const double m = best16(22.5, 24, [&](double x) { return x * log2e - f16(x * c); });
         const OpCase l = rows_of("logsumexp", {static_cast<float>(m)});
         return seen(l.truth("acc=f16 exp_ulp=0 base=2"), 0, f16(m * c));
       }},
      {Rule::mean_shift, false,
       [] {  // 1024 / 1 within 100 ulps
         const Moments m = moments_of({1024}, VarianceKind::two_pass, Order::any, 100, machine("f32", false));
         const double shift = 1024 * 100 * kUlp1;
         return Seen{shift * shift, m.variance.value, m.variance.error};
       }},
      {Rule::square_rounding, false,
       [] {  // 2 / 2 within 100 ulps
         const Moments m =
             moments_of({1, -1}, VarianceKind::two_pass, Order::any, 100, machine("f32", false));
         return Seen{1 + 100 * kUlp1, m.variance.value, m.variance.error};
       }},
      {Rule::square_underflow, false,
       [] {  // two squares just below the smallest normal are flushed, their sum with the others is not
         const double large = f16(std::sqrt(2.2 * kNormal16)), small = f16(std::sqrt(0.99 * kNormal16));
         const Moments m = moments_of({large, -large, small, -small}, VarianceKind::two_pass,
                                      Order(Order::depth, 2), 0, machine("f16", true));
         return Seen{f16(large * large) / 2, m.variance.value, m.variance.error};
       }},
      {Rule::welford_rounding, false,
       [] {  // 1 + 2^-24, a tie
         const Moments m =
             moments_of({1, 1 + kUlp1}, VarianceKind::welford, Order::sequential, 0.5, machine("f32", false));
         return Seen{1, m.mean.value, m.mean.error};
       }},
      {Rule::welford_division, false,
       [] {  // 2 / 2 within 100 ulps
         const Moments m =
             moments_of({0, 2}, VarianceKind::welford, Order::sequential, 100, machine("f32", false));
         return Seen{1 + 100 * kUlp1, m.mean.value, m.mean.error};
       }},
      {Rule::welford_underflow, false,
       [] {  // a / 2 times a / 2 = 2.5 steps becomes 3, and 3 / 2 becomes 2
         const double a = f16(std::sqrt(2 * 2.503 * kStep16));
         const double s = f16(a * (a / 2)), v = f16(s / 2);
         const Moments m =
             moments_of({0, a}, VarianceKind::welford, Order::sequential, 0.5, machine("f16", false));
         return Seen{v, m.variance.value, m.variance.error};
       }},
      {Rule::welford_overflow, true,
       [] {  // the mean of 2^17 is Inf in f16
         const Moments m =
             moments_of({0x1p17}, VarianceKind::welford, Order::sequential, 0.5, machine("f16", false));
         return Seen{kInfinity, m.variance.value, m.variance.error};
       }},
      {Rule::merge_underflow, false,
       [] {  // of each merge (M / n) n_A + (M / n) n_B, and M / n is subnormal and up by 2 steps
         const double x = 0x1.2cp-120;
         double mean = x;
         for (double n = 2; n <= 4096; n *= 2) mean = f32(std::floor(mean / n / kStep32 + 2) * kStep32 * n);
         const Moments m = moments_of(std::vector<double>(4096, x), VarianceKind::welford, Order::tree, 2,
                                      machine("f32", false));
         return Seen{mean, m.mean.value, m.mean.error};
       }},
      {Rule::merge_rounding, false,
       [] {  // 1 / 1 of each part, and (1 + 1) / 2 of their merge, within 100 ulps
         const Moments m =
             moments_of({1, 1}, VarianceKind::welford, Order(Order::lanes, 2), 100, machine("f32", false));
         return Seen{1 + 200 * kUlp1, m.mean.value, m.mean.error};
       }},
      {Rule::merge_overflow, true,
       [] {  // 512 lanes, a tree: of its root 300 * 300 is Inf in f16
         std::vector<double> x(600, 1);
         for (std::size_t i = 0; i < x.size(); i += 2) x[i] = 1 + 0x1p-9;
         const Moments m =
             moments_of(x, VarianceKind::welford, Order(Order::lanes, 512), 0.5, machine("f16", false));
         return Seen{kInfinity, m.variance.value, m.variance.error};
       }},
      {Rule::transform_rounding, false,
       [] {  // (a + b) fl(sqrt 1/2), every step down
         const double c = f16(std::sqrt(0.5));
         double a = 1, b = 1, worst = 0;
         std::minstd_rand random(3);
         for (int i = 0; i < 20000; ++i) {
           const double x = 1 + static_cast<double>(random() % 1024) / 1024,
                        y = static_cast<double>(random() % 1024) / 8192;
           const double off = ((x + y) * std::sqrt(0.5) - f16(f16(x + y) * c)) / (x + y);
           if (off > worst) worst = off, a = x, b = y;
         }
         OpCase w("wht", {{"rows", "1"}, {"cols", "2"}, {"points", "2"}});
         w.put("x", {static_cast<float>(a), static_cast<float>(b)});
         return seen(w.truth("acc=f16 order=tree"), 0, f16(f16(a + b) * c));
       }},
      {Rule::transform_underflow, false,
       [] {  // 5 steps times fl(sqrt 1/2) = 3.535 become 4, twice
         OpCase w("wht", {{"rows", "1"}, {"cols", "2"}, {"points", "2"}});
         w.put("x", Values(2, static_cast<float>(5 * kStep16)));
         const double once = f16(5 * kStep16 * f16(std::sqrt(0.5)));
         return seen(w.truth("acc=f16 order=tree"), 0, once + once);
       }},
  };
  return list;
}

// Rules of these ops without a point here, and why.
const std::map<Rule, const char*>& unattacked() {
  static const std::map<Rule, const char*> list = {
      {Rule::exp_argument_flush, "cases/studies/adversary/rules.list has its point"},
      {Rule::exp_rescale_underflow, "cases/studies/adversary/rules.list has its point"},
      {Rule::exp_sink_overflow, "cases/studies/adversary/rules.list has its point"},
  };
  return list;
}

TEST(RowRules, each_has_a_point_that_takes_half_of_the_limit_and_is_accused_without_it) {
  for (const Row& row : rows()) {
    const std::string_view name = kRules[static_cast<std::size_t>(row.rule) - 1].name;
    const auto ratio = [&] {
      const Seen s = row.point();
      if (s.limit == kInfinity) return 0.0;
      const double error = std::fabs(s.got - s.value);
      return std::isfinite(error) ? (error == 0 ? 0 : error / s.limit) : kInfinity;
    };
    const double sound = ratio();
    double weak = 0;
    {
      const Unsound unsound(row.rule);
      weak = ratio();
    }
    RecordProperty(std::string(name), std::to_string(sound));
    EXPECT_LE(sound, 1) << name;
    EXPECT_GT(weak, 1) << name;
    EXPECT_EQ(sound > 0.5, !row.claims) << name << ": " << sound;
  }
}

TEST(RowRules, none_is_without_a_point_or_a_reason) {
  std::set<Rule> known;
  for (const Row& row : rows()) known.insert(row.rule);
  for (int r = static_cast<int>(Rule::operand_flush); r <= static_cast<int>(Rule::transform_underflow); ++r) {
    const Rule rule = static_cast<Rule>(r);
    EXPECT_NE(known.contains(rule), unattacked().contains(rule))
        << kRules[static_cast<std::size_t>(r) - 1].name;
  }
}

}  // namespace
}  // namespace assay::testing
