#include "reference/formats/rotation.hpp"
#include "reference/ops/op_testing.hpp"
#include "reference/real/mp.hpp"

namespace assay::testing {
namespace {

using Real = mp::Real200;

// The butterfly of a kernel, one rounding an operation.
Values wht_kernel(const Values& x, std::size_t n, const std::vector<std::uint32_t>& signs, bool inverse,
                  std::string_view acc, double fault = 1, bool scale_levels = false) {
  const Arithmetic rd{acc};
  Values y = x;
  for (std::size_t first = 0; first < x.size(); first += n) {
    const std::span<float> g(y.data() + first, n);
    if (!inverse) apply_signs(g, signs);
    const float level = rd(std::sqrt(0.5));
    for (std::size_t half = 1; half < n; half *= 2)
      for (std::size_t block = 0; block < n; block += 2 * half)
        for (std::size_t i = block; i < block + half; ++i) {
          const float a = g[i], b = g[i + half];
          g[i] = rd(double(a) + b);
          g[i + half] = rd(double(a) - b);
          if (scale_levels) {
            g[i] = rd(double(g[i]) * level);
            g[i + half] = rd(double(g[i + half]) * level);
          }
        }
    if (inverse) apply_signs(g, signs);
    const float scale = rd(fault / std::sqrt(double(n)));
    if (!scale_levels)
      for (float& each : g) each = rd(double(each) * scale);
  }
  return y;
}

std::vector<std::uint32_t> words_of(const OpCase& c, std::size_t n) {
  std::vector<std::uint32_t> words((n + 31) / 32, 0U);
  if (c.set.contains("signs")) {
    const std::vector<double> decoded = decode_tensor(c.set.at("signs"));
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = static_cast<std::uint32_t>(static_cast<std::int64_t>(decoded[i]));
  }
  return words;
}

TEST(Wht, kernels_of_every_size_type_and_sign_mask_stay_within_the_limit_and_agree_with_mpfr) {
  for (const std::size_t n : {1UL, 2UL, 32UL, 64UL, 512UL})
    for (const char* signs : {"none", "random"})
      for (const char* inverse : {"no", "yes"})
        for (const Shape1 shape : kShapes)
          for (const std::string_view acc : {"f32", "f16"}) {
            if (acc == "f16" && (shape == Shape1::huge || shape == Shape1::offset)) continue;
            OpCase c("wht", {{"rows", "2"},
                             {"cols", "512"},
                             {"points", std::to_string(n)},
                             {"signs", signs},
                             {"inverse", inverse}});
            Values x = draw(shape, 1024, n);
            for (float& each : x) each = Arithmetic{acc}(each);
            x = c.put("x", x);
            const std::vector<std::uint32_t> words = words_of(c, n);
            const bool back = std::string_view(inverse) == "yes";
            const std::string base = "order=tree acc=" + std::string(acc);
            const Truth t = c.truth(base);
            expect_pass(t, wht_kernel(x, n, words, back, acc));
            expect_pass(c.truth(base + " scale=levels"), wht_kernel(x, n, words, back, acc, 1, true));
            const std::size_t i = 1024 - n / 2 - 1, group = i / n * n;
            Real y = 0;
            double magnitude = 0;
            for (std::size_t j = 0; j < n; ++j) {
              magnitude += std::fabs(double{x[group + j]}) / std::sqrt(static_cast<double>(n));
              const std::size_t flip = back ? i - group : j;
              const bool minus =
                  (std::popcount((i - group) & j) + (words[flip / 32] >> (flip % 32) & 1U)) % 2 != 0;
              y += minus ? -Real(x[group + j]) : Real(x[group + j]);
            }
            y /= sqrt(Real(static_cast<double>(n)));
            // log2 n additions of doubles, and the scale.
            ASSERT_LE(static_cast<double>(abs(y - Real(t.value[i]))),
                      error_of_doubles(std::log2(static_cast<double>(n)) + 4, magnitude));
          }
}

TEST(Wht, the_sign_mask_that_shipped_and_a_scale_of_one_percent_are_caught) {
  OpCase c("wht", {{"rows", "1"}, {"cols", "64"}, {"signs", "tq3"}});
  const Values x = c.put("x", draw(Shape1::gaussian, 64, 3));
  ASSERT_EQ(words_of(c, 32)[0], 0xB1A6D4B2U);
  expect_pass(c.truth(""), wht_kernel(x, 32, {0xB1A6D4B2U}, false, "f32"));
  expect_caught(c.truth(""), wht_kernel(x, 32, {0xAA6CD4B2U}, false, "f32"));
  expect_caught(c.truth(""), wht_kernel(x, 32, {0xB1A6D4B2U}, false, "f32", 1.01));
  expect_caught(c.truth(""), wht_kernel(x, 32, {0xB1A6D4B2U}, true, "f32"));
}

TEST(Wht, h_h_is_n_and_the_inverse_undoes_the_transform) {
  for (const std::size_t n : {2UL, 32UL, 256UL}) {
    std::vector<double> x(n), twice;
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<double>(i * i % 17) - 8;
    twice = x;
    hadamard(std::span<double>(twice));
    hadamard(std::span<double>(twice));
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(twice[i], static_cast<double>(n) * x[i]);
    const std::map<std::string, std::string> given = {
        {"rows", "1"}, {"cols", std::to_string(n)}, {"points", std::to_string(n)}, {"signs", "random"}};
    OpCase forward("wht", given);
    auto backward_given = given;
    backward_given["inverse"] = "yes";
    OpCase backward("wht", backward_given);
    forward.put("x", Values(x.begin(), x.end()));
    const Truth y = forward.truth("");
    backward.put("x", Values(y.value.begin(), y.value.end()));
    const Truth z = backward.truth("");
    double rounded =
        0;  // y is rounded to f32 on its way back, and the doubles are good for less than as much again
    for (const double each : y.value) rounded += 2 * 0x1p-24 * std::fabs(each);
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_LE(std::fabs(z.value[i] - x[i]), rounded / std::sqrt(static_cast<double>(n)));
  }
}

// IWHT(sum p_j v_j) = sum p_j IWHT(v_j): what lets an attention kernel leave V rotated and un-rotate one
// output.
TEST(Wht, the_deferred_inverse_equals_the_immediate_one) {
  const std::size_t n = 32, keys = 20;
  OpCase each("wht", {{"rows", "20"}, {"cols", "32"}, {"signs", "tq3"}, {"inverse", "yes"}});
  OpCase once("wht", {{"rows", "1"}, {"cols", "32"}, {"signs", "tq3"}, {"inverse", "yes"}});
  Values v = draw(Shape1::gaussian, keys * n, 6), p(keys), mixed(n, 0.0F);
  for (float& value : v) value = std::round(value * 256) / 256;
  for (std::size_t j = 0; j < keys; ++j) p[j] = static_cast<float>(1 + j % 5) / 64;
  for (std::size_t j = 0; j < keys; ++j)
    for (std::size_t i = 0; i < n; ++i) mixed[i] += p[j] * v[j * n + i];  // exact: few bits
  each.put("x", v);
  once.put("x", mixed);
  const Truth immediate = each.truth(""), deferred = once.truth("");
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0, magnitude = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      sum += static_cast<double>(p[j]) * immediate.value[j * n + i];
      for (std::size_t l = 0; l < n; ++l)
        magnitude += static_cast<double>(p[j] * std::fabs(v[j * n + l])) / std::sqrt(static_cast<double>(n));
    }
    // Either way: 5 levels of additions, the scale, and 20 products and additions.
    EXPECT_LE(std::fabs(sum - deferred.value[i]), error_of_doubles(5 + 4 + 2 * keys, magnitude));
  }
}

TEST(Wht, refuses_sizes_that_are_no_power_of_two_or_do_not_divide) {
  EXPECT_EQ(kind_of([] { OpCase("wht", {{"rows", "1"}, {"cols", "48"}, {"points", "24"}}).spec("x"); }),
            InputErrorKind::bad_value);
  EXPECT_EQ(kind_of([] { OpCase("wht", {{"rows", "1"}, {"cols", "48"}, {"points", "32"}}).spec("x"); }),
            InputErrorKind::ragged_block);
}

TEST(Logsumexp, agrees_with_mpfr_and_correct_kernels_stay_within_the_limit) {
  for (const Shape1 shape : kShapes)
    for (const std::size_t n : {1UL, 2UL, 777UL, 30000UL})
      for (const std::string_view order : {"sequential", "tree", "lanes", "reversed"}) {
        OpCase c("logsumexp", {{"rows", "1"}, {"cols", std::to_string(n)}});
        const Values x = c.put("x", draw(shape, n, n + 1));
        const Truth t = c.truth(std::string("exp_ulp=1 log_ulp=1 order=") +
                                (order == "tree" || order == "sequential" ? std::string(order) : "any"));
        const float top = *std::max_element(x.begin(), x.end());
        Values terms;
        for (const float each : x) terms.push_back(static_cast<float>(std::exp(double(each - top))));
        const float sum = sum_in({"f32"}, terms, order);
        expect_pass(t, Values{top + static_cast<float>(std::log(double(sum)))});
        if (n > 1 && shape != Shape1::huge && shape != Shape1::peaked) {
          expect_caught(t, Values{top + static_cast<float>(std::log(double(sum))) * 1.01F + 1e-4F});
          expect_caught(t, Values{-top});
        }
        if (order == "tree") {
          Real exact = 0;
          for (const float each : x) exact += exp(Real(each) - Real(top));
          exact = log(exact) + Real(top);
          // The sum's relative error is the logarithm's absolute one; then the logarithm, below 11, and one
          // addition.
          ASSERT_LE(
              static_cast<double>(abs(exact - Real(t.value[0]))),
              error_of_doubles(static_cast<double>(n) + 32, 1) + error_of_doubles(2, std::fabs(t.value[0])));
          ASSERT_LE(static_cast<double>(abs(exact - Real(t.value[0]))), t.limit[0]);
        }
      }
}

TEST(Logsumexp, specials_and_the_shift) {
  OpCase c("logsumexp", {{"rows", "4"}, {"cols", "2"}});
  c.put("x", {1, NAN, 1, INFINITY, -INFINITY, -INFINITY, -INFINITY, 3});
  const Truth t = c.truth("");
  EXPECT_TRUE(std::isnan(t.value[0]));
  EXPECT_EQ(t.value[1], INFINITY);
  EXPECT_EQ(t.value[2], -INFINITY);
  EXPECT_EQ(t.value[3], 3);
  OpCase a("logsumexp", {{"rows", "1"}, {"cols", "3"}}), b = a;
  a.put("x", {0, 1, 2});
  b.put("x", {64, 65, 66});
  const double shifted = b.truth("").value[0], plain = a.truth("").value[0];
  EXPECT_LE(std::fabs(shifted - plain - 64),
            error_of_doubles(8, shifted));  // the same logarithm, added to 66 and to 2
}

TEST(Argmax, is_the_plain_loop_and_the_checked_one_reports_a_nan) {
  const std::map<std::string, std::string> given = {{"rows", "5"}, {"cols", "3"}};
  const Values x = {1, 3, 3, NAN, 9, 9, 1, NAN, 2, NAN, NAN, NAN, -INFINITY, -INFINITY, -1};
  OpCase plain("argmax", given);
  plain.put("x", x);
  EXPECT_EQ(plain.truth("").value, (std::vector<double>{1, 0, 2, 0, 2}));
  auto checked_given = given;
  checked_given["checked"] = "yes";
  OpCase checked("argmax", checked_given);
  checked.put("x", x);
  EXPECT_EQ(checked.truth("").value, (std::vector<double>{1, -1, -2, -1, 2}));
  expect_caught(checked.truth(""), plain.truth("").value);
  expect_caught(plain.truth(""), std::vector<double>{2, 0, 2, 0, 2});  // the last of equal maxima
}

TEST(Attributes, a_default_may_be_another_attributes_value) {
  const Attributes a =
      Attributes::complete(op("matmul").attributes, {{"m", "1"}, {"n", "02"}, {"k", "3"}, {"a", "f16"}});
  EXPECT_EQ(a.text("b"), "f16");
  EXPECT_EQ(a.text("n"), "2");
  EXPECT_EQ(a.integer("n"), 2);
  EXPECT_EQ(kind_of([&] { a.integer("a"); }), InputErrorKind::bad_value);
  EXPECT_EQ(kind_of([&] { a.text("z"); }), InputErrorKind::unknown_name);
}

TEST(Ops, every_row_is_complete_and_its_contract_parses_from_nothing) {
  EXPECT_GE(ops().size(), 13U);
  for (const Op& each : ops()) {
    EXPECT_EQ(&op(each.name), &each);
    EXPECT_FALSE(each.formula.empty());
    EXPECT_NE(each.tensors, nullptr);
    EXPECT_NE(each.truth, nullptr);
    const Contract c = Contract::parse("", each.contract);
    EXPECT_EQ(Contract::parse(c.print(), each.contract), c) << each.name;
    for (const KeySpec& spec : each.attributes)
      EXPECT_FALSE(spec.meaning.empty()) << each.name << "." << spec.name;
  }
}

}  // namespace
}  // namespace assay::testing
