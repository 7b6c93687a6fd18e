#include "reference/ops/op_testing.hpp"
#include "reference/real/mp.hpp"

namespace assay::testing {
namespace {

using Real = mp::Real200;

struct Options {
  std::string_view acc = "f32", order = "lanes", out = "f32";
  double softcap = 0, temperature = 1;
  bool online = false, base2 = false;
  double fault_scale = 1;  // of the logits
  int drop = -1;           // an element left out of the sum
};

// A softmax kernel of one row in `acc`: every operation rounds once.
Values kernel(const Values& x, const std::vector<char>& visible, const float* sink, const Options& o) {
  const Arithmetic rd{o.acc}, out{o.out};
  const std::size_t n = x.size();
  std::vector<float> s(n), terms;
  float m = sink != nullptr ? *sink : -INFINITY;
  for (std::size_t i = 0; i < n; ++i) {
    s[i] = rd(double(x[i]) * o.fault_scale);
    if (o.temperature != 1) s[i] = rd(double(s[i]) / rd(o.temperature));
    if (o.softcap > 0)
      s[i] = rd(rd(std::tanh(double(rd(double(s[i]) / rd(o.softcap))))) * double(rd(o.softcap)));
    if (visible[i]) m = std::max(m, s[i]);
  }
  const float log2e = rd(1.4426950408889634);
  const auto weight = [&](float t, float top) {
    const float d = rd(double(t) - top);
    return o.base2 ? rd(std::exp2(double(rd(double(d) * log2e)))) : rd(std::exp(double(d)));
  };
  float sum = 0;
  if (o.online) {
    float top = -INFINITY;
    for (std::size_t i = 0; i < n; ++i) {
      if (!visible[i]) continue;
      if (s[i] > top) {
        sum = top == -INFINITY ? 0 : rd(double(sum) * weight(top, s[i]));
        top = s[i];
      }
      sum = rd(double(sum) + weight(s[i], top));
    }
  } else {
    for (std::size_t i = 0; i < n; ++i)
      if (visible[i] && static_cast<int>(i) != o.drop) terms.push_back(weight(s[i], m));
    if (sink != nullptr) terms.push_back(weight(*sink, m));
    sum = sum_in(rd, terms, o.order);
  }
  Values y(n, 0.0F);
  for (std::size_t i = 0; i < n; ++i)
    if (visible[i]) y[i] = out(double(rd(double(weight(s[i], m)) / sum)));
  return y;
}

std::string contract_of(const Options& o) {
  std::string text =
      "acc=" + std::string(o.acc) + " exp_ulp=1 div_ulp=1 tanh_ulp=1 exp=" + (o.base2 ? "base2" : "e");
  text += o.order == "tree" ? " order=tree" : o.order == "sequential" ? " order=sequential" : " order=any";
  return text;
}

TEST(Softmax, agrees_with_mpfr_on_rows_of_every_shape) {
  for (const Shape1 shape : kShapes) {
    for (const std::size_t n : {1UL, 7UL, 1000UL, 5000UL, 100000UL}) {
      if (n > 5000 && shape != Shape1::gaussian) continue;
      OpCase c("softmax", {{"rows", "1"}, {"cols", std::to_string(n)}});
      const Values x = c.put("x", draw(shape, n, n));
      const Truth t = c.truth("acc=f64 exp_ulp=0 div_ulp=0");
      Real sum = 0;
      const Real top = *std::max_element(x.begin(), x.end());
      for (const float each : x) sum += exp(Real(each) - top);
      for (std::size_t i = 0; i < n; i += 1 + n / 500) {
        const Real error = abs(exp(Real(x[i]) - top) / sum - Real(t.value[i]));
        // n additions and a handful of operations; 0x1p-1022 where the quotient underflows.
        ASSERT_LE(static_cast<double>(error),
                  error_of_doubles(static_cast<double>(n) + 8, t.value[i]) + 0x1p-1022)
            << i;
        ASSERT_LE(static_cast<double>(error), t.limit[i] + 0x1p-24 * t.value[i] + 0x1p-149);
      }
    }
  }
}

TEST(Softmax, correct_kernels_of_every_arithmetic_and_order_stay_within_the_limit) {
  double worst = 0;
  for (const Shape1 shape : kShapes)
    for (const std::string_view acc : {"f32", "f16", "bf16"})
      for (const std::string_view order : {"sequential", "tree", "lanes", "reversed"})
        for (const bool base2 : {false, true})
          for (const std::size_t n : {1UL, 2UL, 33UL, 3000UL}) {
            if (acc != "f32" && n > 100) continue;
            Options o{.acc = acc, .order = order, .out = "f32", .base2 = base2};
            OpCase c("softmax", {{"rows", "1"}, {"cols", std::to_string(n)}});
            Values x = draw(shape, n, n + 3);
            if (acc != "f32")
              for (float& each : x) each = Arithmetic{acc}(each);
            x = c.put("x", x);
            const Judgement j =
                judge(c.truth(contract_of(o)), kernel(x, std::vector<char>(n, 1), nullptr, o));
            ASSERT_EQ(j.bad, 0U) << acc << order << n << j.first;
            worst = std::max(worst, j.worst);
          }
  EXPECT_LE(worst, 1.0);
  EXPECT_GT(worst, 0.2) << "the limit has become loose";
}

TEST(Softmax, cap_temperature_sinks_masks_and_online_rescaling_stay_within_the_limit) {
  for (const double softcap : {0.0, 30.0})
    for (const double temperature : {1.0, 0.7})
      for (const std::string mask : {"none", "causal", "random"})
        for (const bool online : {false, true}) {
          const std::size_t rows = 9, cols = 64;
          OpCase c("softmax", {{"rows", "9"},
                               {"cols", "64"},
                               {"mask", mask},
                               {"sinks", online ? "no" : "yes"},
                               {"softcap", std::to_string(softcap)},
                               {"temperature", std::to_string(temperature)}});
          const Values x = c.put("x", draw(Shape1::gaussian, rows * cols, 5, 8));
          Values sinks;
          if (!online) sinks = c.put("sinks", draw(Shape1::gaussian, rows, 6, 8));
          Values mask_values;
          if (mask == "random") mask_values = c.read("mask");
          Options o{.softcap = softcap, .temperature = temperature, .online = online};
          Values got, planted;
          for (std::size_t r = 0; r < rows; ++r) {
            std::vector<char> visible(cols, 1);
            for (std::size_t i = 0; i < cols; ++i) {
              if (mask == "causal") visible[i] = i <= cols - rows + r;
              if (mask == "random") visible[i] = mask_values[r * cols + i] != 0;
            }
            const Values row(x.begin() + r * cols, x.begin() + (r + 1) * cols);
            const float* sink = online ? nullptr : &sinks[r];
            const Values y = kernel(row, visible, sink, o);
            got.insert(got.end(), y.begin(), y.end());
            const Values z = kernel(row, std::vector<char>(cols, 1), nullptr, o);  // mask and sink forgotten
            planted.insert(planted.end(), z.begin(), z.end());
          }
          const std::string contract = contract_of(o) + (online ? " rescales=64" : "");
          expect_pass(c.truth(contract), got);
          if (mask != "none" || !online) expect_caught(c.truth(contract), planted);
        }
}

TEST(Softmax, a_scale_of_one_percent_and_a_dropped_element_are_caught) {
  for (const Shape1 shape : {Shape1::gaussian, Shape1::peaked, Shape1::alternating}) {
    OpCase c("softmax", {{"rows", "1"}, {"cols", "1000"}, {"dtype", "f32"}});
    const Values x = c.put("x", draw(shape, 1000, 11));
    const Truth t = c.truth("exp_ulp=1 div_ulp=1");
    const std::vector<char> all(1000, 1);
    expect_pass(t, kernel(x, all, nullptr, {}));
    expect_caught(t, kernel(x, all, nullptr, {.fault_scale = 1.01}));
    expect_caught(t, kernel(x, all, nullptr, {.drop = 333}));
    expect_caught(t, Values(1000, 0.0F));
    expect_caught(t, kernel(x, all, nullptr, {.acc = "bf16"}));
  }
}

TEST(Softmax, specials_follow_the_definition) {
  const float nan = NAN, inf = INFINITY;
  OpCase c("softmax", {{"rows", "4"}, {"cols", "3"}});
  c.put("x", {nan, 1, 2, inf, 1, 2, -inf, 1, 2, -inf, -inf, -inf});
  const Truth t = c.truth("");
  for (int i : {0, 1, 2, 3, 4, 5, 9, 10, 11}) EXPECT_TRUE(std::isnan(t.value[i])) << i;
  EXPECT_EQ(t.value[6], 0);
  EXPECT_EQ(t.limit[6], 0);
  const double want = 1 / (1 + std::exp(-1.0));
  EXPECT_LE(std::fabs(t.value[8] - want), error_of_doubles(8, want));  // a sum and a quotient on each side
  expect_caught(t, Values(12, 0.25F));
}

TEST(Softmax, a_row_of_nothing_but_minus_inf_is_nan_or_zero_as_declared) {
  OpCase c("softmax", {{"rows", "3"}, {"cols", "4"}, {"sinks", "yes"}});
  Values x(12, -INFINITY);
  x[5] = 1;
  c.put("x", x);
  c.put("sinks", Values{-INFINITY, -INFINITY, 0});
  const Values ones{0, 1, 0, 0}, zeros(4, 0.0F), nans(4, NAN);
  const auto rows = [&](const Values& first) {
    Values y = first;
    y.insert(y.end(), ones.begin(), ones.end());
    y.insert(y.end(), zeros.begin(), zeros.end());  // all of the weight is the sink's
    return y;
  };
  expect_pass(c.truth(""), rows(nans));
  expect_caught(c.truth(""), rows(zeros));
  expect_pass(c.truth("empty=zero"), rows(zeros));
  expect_caught(c.truth("empty=zero"), rows(nans));
}

TEST(Softmax, a_masked_nan_never_shows_and_a_fully_masked_row_is_zero) {
  OpCase c("softmax", {{"rows", "9"}, {"cols", "16"}, {"mask", "random"}});
  Values x(9 * 16, 1.0F);
  const Values mask = c.read("mask");
  for (std::size_t i = 0; i < x.size(); ++i)
    if (mask[i] == 0) x[i] = NAN;
  c.put("x", x);
  const Truth t = c.truth("");
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(std::isfinite(t.value[i]));
    EXPECT_TRUE(mask[i] != 0 || t.value[i] + t.limit[i] == 0);
  }
}

TEST(Softmax, of_a_poisoned_row_the_visible_elements_are_nan_and_the_masked_ones_what_they_like) {
  OpCase c("softmax", {{"rows", "3"}, {"cols", "5"}, {"mask", "causal"}});
  Values x(15, 1.0F);
  x[0] = INFINITY, x[5] = NAN;  // rows 0 and 1 see 3 and 4 elements
  c.put("x", x);
  const Truth t = c.truth("");
  Values y(15, 0.2F);
  for (const int i : {0, 1, 2, 5, 6, 7, 8}) y[i] = NAN;
  for (const float masked : {0.0F, NAN}) {
    y[3] = y[4] = y[9] = masked;
    expect_pass(t, y);
  }
  y[1] = 0;
  expect_caught(t, y);
}

TEST(Softmax, a_shift_of_the_logits_changes_nothing) {
  OpCase a("softmax", {{"rows", "1"}, {"cols", "500"}}), b = a;
  Values x = draw(Shape1::gaussian, 500, 4);
  for (float& each : x) each = std::round(each * 64) / 64;
  a.put("x", x);
  for (float& each : x) each += 1024;  // exact: multiples of 2^-6
  b.put("x", x);
  const Truth ta = a.truth(""), tb = b.truth("");
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(ta.value[i], tb.value[i]);
}

TEST(Softmax, subnormal_results_may_vanish_only_where_the_contract_says_so) {
  OpCase c("softmax", {{"rows", "1"}, {"cols", "2"}});
  c.put("x", {0, -90});  // exp(-90) = 8.2e-40
  expect_caught(c.truth("ftz=no"), Values{1, 0});
  expect_pass(c.truth("ftz=no"), Values{1, static_cast<float>(std::exp(-90.0))});
  expect_pass(c.truth("ftz=yes"), Values{1, 0});
}

TEST(Softmax, bad_input_is_refused_by_name_and_value) {
  const auto attributes = [](const std::map<std::string, std::string>& given) {
    return [given] { Attributes::complete(op("softmax").attributes, given); };
  };
  EXPECT_EQ(kind_of(attributes({{"rows", "0"}, {"cols", "1"}})), InputErrorKind::bad_value);
  EXPECT_NE(message_of(attributes({{"rows", "-3"}, {"cols", "1"}})).find("rows=-3"), std::string::npos);
  EXPECT_EQ(kind_of(attributes({{"cols", "1"}})), InputErrorKind::bad_value);
  EXPECT_EQ(kind_of(attributes({{"rows", "1"}, {"cols", "1"}, {"mask", "diagonal"}})),
            InputErrorKind::bad_value);
  EXPECT_EQ(kind_of(attributes({{"rows", "1"}, {"cols", "1"}, {"colour", "red"}})),
            InputErrorKind::unknown_name);
  EXPECT_EQ(kind_of([] { op("sofmax"); }), InputErrorKind::unknown_name);
  EXPECT_EQ(kind_of([] { Contract::parse("precision=high", op("softmax").contract); }),
            InputErrorKind::unknown_name);
  OpCase c("softmax", {{"rows", "2"}, {"cols", "3"}});
  EXPECT_EQ(kind_of([&] { c.truth(""); }), InputErrorKind::shape_mismatch);
  c.set.insert_or_assign("x", encode_tensor(format("f32"), {3, 2}, Values(6, 1.0F)));
  EXPECT_NE(message_of([&] { c.truth(""); }).find("[3,2]"), std::string::npos);
}

}  // namespace
}  // namespace assay::testing
