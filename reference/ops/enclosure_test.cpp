// The calculus of the limits, number by number: what it is made of must not change unnoticed. The exact
// figures are functions of IEEE double arithmetic alone; their derivations stand in enclosure.cpp.
#include "reference/ops/enclosure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/formats/scalar.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr Machine kExact{0, 0, 0, 0, 1e300};
const std::vector<Enclosure> kCancelling = {{1e16, 0}, {1, 0}, {-1e16, 0}};

TEST(Summed, keeps_what_a_plain_sum_loses) {
  EXPECT_EQ(summed(kCancelling, Order::any, kExact).value, 1);
  const std::vector<Enclosure> ascending = {{1, 0}, {1e16, 0}, {-1e16, 0}};
  EXPECT_EQ(summed(ascending, Order::any, kExact).value, 1);
  const std::vector<Enclosure> odd = {
      {1e16, 0}, {1000001, 0}, {-1e16, 0}};  // the larger term comes first in Fast2Sum
  EXPECT_EQ(summed(odd, Order::any, kExact).value, 1000001);
  const std::vector<Enclosure> odd_first = {{1000001, 0}, {1e16, 0}, {-1e16, 0}};
  EXPECT_EQ(summed(odd_first, Order::any, kExact).value, 1000001);
  EXPECT_EQ(summed({}, Order::any, {0x1p-11, 0, 0x1p-30, 0, 65504}).error, 0);
}

TEST(Summed, its_own_error_is_that_of_the_compensated_sum) {
  const std::vector<Enclosure> nothing_left = {{1, 0}, {-1, 0}};
  EXPECT_EQ(summed(nothing_left, Order::any, kExact).error, 0);  // by inspection
  const double absolute = 2e16 + 1, h = gamma_n(3, kUnit64);
  EXPECT_EQ(summed(kCancelling, Order::any, kExact).error, up(kUnit64 * 1 * 2 + h * h * absolute));
}

TEST(Summed, order_decides_how_often_a_term_is_rounded) {
  const Machine m{0x1p-11, 0, 0x1p-30, 0, 65504};
  const std::vector<Enclosure> terms = {{1, 0x1p-12}, {-1, 0}, {0x1p-8, 0}, {0x1p-8, 0x1p-14}};
  const double inflate = 1 + 16 * kUnit64, absolute = 2 + 0x1p-7 + 0x1p-12 + 0x1p-14;
  const double errors = 0x1p-12 + 0x1p-14, g = gamma_n(4, kUnit64);
  const double own = kUnit64 * 0x1p-7 * 2 + g * g * absolute;
  const double any = errors + 3 * 0x1p-11 * absolute * inflate + 3 * 0x1p-30;
  EXPECT_EQ(summed(terms, Order::any, m).error, up(any * inflate + own));
  const double tree = errors + gamma_n(2, 0x1p-11) * absolute * inflate + 3 * 0x1p-30;
  EXPECT_EQ(summed(terms, Order::tree, m).error, up(tree * inflate + own));
  double running = 0x1p-12, partial = 1;
  for (std::size_t i = 1; i < terms.size(); ++i) {
    partial += terms[i].value, running += terms[i].error;
    running += m.unit * (std::fabs(partial) + running) + m.tiny_add;
  }
  const double sequential = (running + 4 * m.unit * 4 * kUnit64 * absolute) * inflate;
  ASSERT_LT(sequential, any);  // the partial sums cancel
  EXPECT_EQ(summed(terms, Order::sequential, m).error, up(sequential * inflate + own));
}

TEST(Summed, of_multiples_of_one_unit_is_exact_while_the_sum_fits_into_the_format) {
  const Machine f32 = machine("f32", true), f16 = machine("f16", false);
  const std::vector<Enclosure> thousands(4096, Enclosure{1000, 0});  // 8 * 125
  for (const Order order : {Order(Order::any), Order(Order::tree), Order(Order::sequential)}) {
    EXPECT_EQ(summed(thousands, order, f32).error, 0);
    EXPECT_EQ(summed(thousands, order, f32).value, 4096000);
  }
  const std::vector<Enclosure> odd = {{2047, 0}, {1, 0}, {1, 0}};
  EXPECT_GT(summed(odd, Order::any, f16).error, 0);  // 2049 is no number of f16
  EXPECT_EQ(summed(std::span(odd).first(2), Order::any, f16).error, 0);
  // A partial sum that is exact may be flushed.
  const std::vector<Enclosure> tiny = {{0x1p-13, 0}, {-0x1.8p-14, 0}, {0x1p-13, 0}};
  EXPECT_EQ(summed(tiny, Order::any, f16).error, 0);
  EXPECT_GE(summed(tiny, Order::any, machine("f16", true)).error, 0x1p-15);  // 2^-13 - 1.5 2^-14
  const std::vector<Enclosure> off = {{1, 0x1p-40}, {1, 0}};
  EXPECT_GT(summed(off, Order::any, f32).error, off[0].error);
}

TEST(Summed, pays_for_flushed_sums_only_where_there_may_be_one) {
  const Machine plain = machine("f16", false), flush = machine("f16", true);
  const auto flushes = [&](const std::vector<Enclosure>& terms) {
    return summed(terms, Order::any, flush).error > summed(terms, Order::any, plain).error;
  };
  EXPECT_FALSE(
      flushes({{3, 0x1p-12}, {0, 0}, {0x1p-13, 0x0.ffp-14}}));  // none is negative, each is 0 or normal
  EXPECT_TRUE(flushes({{3, 0x1p-12}, {0, 0}, {0x1p-13, 0x1.1p-14}}));  // the last may be subnormal
  EXPECT_FALSE(flushes({{1.5, 0}, {-1, 0}, {2047 * 0x1p-14, 0}}));     // multiples of 2^-14
  EXPECT_TRUE(flushes({{1.5, 0}, {-1.125, 0}, {2047 * 0x1p-15, 0}}));  // 2^-15 may be left
  EXPECT_TRUE(flushes({{1.5, 0x1p-12}, {-1.125, 0}, {2047 * 0x1p-14, 0}}));
}

TEST(LastBit, is_that_of_the_number) {
  EXPECT_EQ(last_bit(1000), 8);
  EXPECT_EQ(last_bit(-0.75), 0.25);
  EXPECT_EQ(last_bit(0x1.8p-1073), 0x1p-1074);
  EXPECT_EQ(last_bit(0), kInfinity);
  const Machine f16 = machine("f16", false);
  EXPECT_TRUE(is_representable(2048, f16) && is_representable(20000, f16) && is_representable(0, f16));
  EXPECT_FALSE(is_representable(2049, f16));
}

TEST(Divided, is_a_quotient_or_a_reciprocal_and_a_product) {
  const Machine plain = machine("f16", false), flush = machine("f16", true);
  EXPECT_EQ(divided({4096, 0}, {4096, 0}, plain, 0.5, 1).error, 0);  // a scaling
  EXPECT_GT(divided({4096, 0}, {4096, 0}, plain, 1, 1).error, 0);
  EXPECT_GT(divided({3, 0}, {3, 0}, plain, 0.5, 1).error, 0);  // fl(1 / 3) * 3
  // 1 / 20000 is 838.86 steps of 2^-24: rounded it is off by 0.14 of them, and at most by 1/2; flushed by
  // all.
  const Enclosure most = divided({20000, 0}, {20000, 0}, plain, 0.5, 1);
  EXPECT_GE(most.error, 20000 * 0x1p-25);
  EXPECT_LT(most.error, 20000 * 0x1p-25 * 1.001 + 0x1p-9);
  EXPECT_GE(divided({20000, 0}, {20000, 0}, flush, 0.5, 1).error, 1);
  // A subnormal quotient of k ulps errs by k steps.
  EXPECT_GE(divided({0x1p-16, 0}, {2, 0}, plain, 4).error, 4 * 0x1p-24);
  EXPECT_LT(divided({0x1p-16, 0}, {2, 0}, plain, 4).error, 5 * 0x1p-24);
  EXPECT_EQ(divided({1, 0}, {0x1p-17, 0}, plain, 0.5).error, kInfinity);  // 1 / b
}

TEST(Summed, nothing_is_claimed_where_a_partial_sum_may_overflow) {
  Machine m = kExact;
  m.max_finite = 1;
  const auto error = [&](double x) { return summed(std::vector<Enclosure>{{x, 0}}, Order::any, m).error; };
  EXPECT_LT(error(1 - 0x1p-48), kInfinity);
  EXPECT_EQ(error(1 - 0x1p-51), kInfinity);  // 1 with the slack: not below the largest
  EXPECT_EQ(error(1 - 0x1p-53), kInfinity);  // 1 + 4 u of slack for the sum of the magnitudes
  m.unit = 0x1p-4;
  const std::vector<Enclosure> two = {{0.5, 0}, {0.46, 0}};
  EXPECT_EQ(summed(two, Order::any, m).error, kInfinity);  // 0.96 (1 + 1/16)
}

TEST(InverseSqrt, covers_both_ends_and_claims_nothing_at_zero) {
  const auto [value, error] = inverse_sqrt({4, 0.25}, kExact, 0);
  const double low = Enclosure{4, 0.25}.low(), high = Enclosure{4, 0.25}.high(), own = 3 * kUnit64;
  EXPECT_EQ(value, 0.5);
  const double spread =
      std::max((1 / std::sqrt(low)) * (1 + own) - 0.5, 0.5 - (1 / std::sqrt(high)) * (1 - own));
  EXPECT_EQ(error, rounded({0.5, up(spread + 2 * own * (1 / std::sqrt(low)))}, kExact, 0).error);
  EXPECT_EQ(inverse_sqrt({1, 1}, kExact, 0).error, kInfinity);
  EXPECT_EQ(inverse_sqrt({1, 2}, kExact, 0).error, kInfinity);
  // An interval to the right of its middle value is bounded from the other side.
  EXPECT_GE(inverse_sqrt({1, 0.5}, kExact, 0).error, 1 / std::sqrt(0.5) - 1);
}

TEST(Machine, f64_and_the_formats_have_their_own_numbers) {
  const Machine f64 = machine("f64", true), plain = machine("f64", false), f16 = machine("f16", true);
  EXPECT_EQ(f64.tiny_add, 0x1p-1022);
  EXPECT_EQ(f64.flushed, 0x1p-1022);
  EXPECT_EQ(f64.tiny, 0x1p-1022);
  EXPECT_EQ(plain.tiny, 0x1p-1074);
  EXPECT_EQ(f64.normal, 0x1p-1022);
  EXPECT_EQ(f16.normal, 0x1p-14);
  EXPECT_EQ(f64.max_finite, 0x1.fffffffffffffp1023);
  EXPECT_EQ(plain.tiny_add, 0);
  EXPECT_EQ(plain.flushed, 0);
  EXPECT_EQ(f16.unit, 0x1p-11);
  EXPECT_EQ(f16.tiny, 0x1p-14);
  EXPECT_EQ(machine("f16", false).tiny, 0x1p-25);
}

// A limit that must reach to 0 where a flushing kernel may store 0: of a number that is stored as itself.
double stored_limit(double z, const char* through, bool flush) {
  Truth t{"y", {0}, {0}, ""};
  Store store{through != nullptr ? &scalar_format(through) : nullptr, &scalar_format("bf16"), {}, flush};
  set_truth(t, 0, {z, 0}, store);
  return t.limit[0];
}

TEST(SetTruth, flushed_results_may_be_zero_up_to_the_larger_smallest_normal) {
  const double bf16 = 0x1p-126, f16 = 0x1p-14;
  EXPECT_GE(stored_limit(bf16 * 0.9921875, nullptr, true), bf16 * 0.9921875);
  EXPECT_LT(stored_limit(bf16 * 1.0078125, nullptr, true), bf16 / 64);
  EXPECT_LT(stored_limit(bf16 * 0.9921875, nullptr, false), bf16 / 64);
  EXPECT_GE(stored_limit(f16 * 0.995, "f16", true), f16 * 0.995);
  EXPECT_LT(stored_limit(f16 * 1.0078125, "f16", true), f16 / 64);
}

TEST(SetTruth, adds_the_certificate_and_claims_nothing_of_an_unbounded_error) {
  Truth t{"y", {0, 0, 0}, {0, 0, 0}, ""};
  const Store store{nullptr, &scalar_format("f32"), {}, false};
  set_truth_around(t, 0, 1, 0.25, {1, 0}, store);
  EXPECT_GE(t.limit[0], 0.25);
  EXPECT_LT(t.limit[0], 0.2500001);
  set_truth(t, 1, {1, kInfinity}, store);
  EXPECT_EQ(t.limit[1], kInfinity);
  EXPECT_EQ(t.value[1], 1);
  set_truth(t, 2, {kInfinity, 0}, store);
  EXPECT_EQ(t.limit[2], kInfinity);
}

TEST(Stored, through_a_narrower_format_rounds_twice) {
  const auto contract = [](const char* text) { return Contract::parse(text, op("softmax").contract); };
  const Store twice = store_of(contract("acc=f32 out=f16"), "f32");
  ASSERT_NE(twice.through, nullptr);
  EXPECT_EQ(twice.through->name, "f16");
  EXPECT_EQ(stored(twice, 1 + 0x1p-12), 1);
  for (const char* same : {"acc=f32", "acc=f32 out=f32"}) {
    const Store once = store_of(contract(same), "f32");
    EXPECT_EQ(once.through, nullptr);
    EXPECT_EQ(stored(once, 1 + 0x1p-12), 1 + 0x1p-12);
  }
}

TEST(IndexDraw, a_permutation_holds_each_index_once_in_an_order_that_the_seed_decides) {
  IndexDraw draw(7), again(7), other(8);
  const std::vector<std::int64_t> list = draw.permutation(9);
  EXPECT_EQ(list, again.permutation(9));
  EXPECT_NE(list, other.permutation(9));
  EXPECT_EQ(list, (std::vector<std::int64_t>{2, 6, 5, 1, 7, 8, 0, 4, 3}));
  IndexDraw one(7), untouched(7);
  one.permutation(1);  // nothing to draw
  EXPECT_EQ(one.next(), untouched.next());
  std::vector<std::int64_t> sorted = list;
  std::ranges::sort(sorted);
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
}

TEST(Softmax, a_nan_sink_leaves_nothing_else_and_an_infinite_one_nothing_to_claim) {
  const Op& softmax = op("softmax");
  const Attributes a =
      Attributes::complete(softmax.attributes, {{"rows", "3"}, {"cols", "2"}, {"sinks", "yes"}});
  TensorSet set;
  set["x"] = encode_tensor(format("f32"), {3, 2}, std::vector<float>{1, 2, 1, 2, 1, 2});
  EncodePolicy keep;
  keep.overflow = Overflow::ieee;
  set["sinks"] = encode_tensor(format("f32"), {3}, std::vector<float>{INFINITY, 0, NAN}, keep);
  const Truth t = softmax.truth(a, set, Contract::parse("acc=f32", softmax.contract)).front();
  for (const std::size_t i : {0, 1, 4, 5}) {
    EXPECT_TRUE(std::isnan(t.value[i])) << i;
    // NaN is demanded of a NaN, and merely allowed of Inf, which may divide to 0 as well.
    EXPECT_EQ(t.limit[i], i < 2 ? kInfinity : 0) << i;
  }
  EXPECT_TRUE(std::isfinite(t.value[2]) && std::isfinite(t.value[3]));
}

TEST(Indices, of_a_mask_have_rows_that_see_nothing_and_rows_that_see_all) {
  const Op& softmax = op("softmax");
  const Attributes a =
      Attributes::complete(softmax.attributes, {{"rows", "16"}, {"cols", "12"}, {"mask", "random"}});
  TensorSet set;
  softmax.indices(a, 3, set);
  const std::vector<double> mask = decode_tensor(set.at("mask"));
  for (std::size_t r = 0; r < 16; ++r) {
    const auto seen = std::ranges::count(mask.begin() + static_cast<std::ptrdiff_t>(12 * r),
                                         mask.begin() + static_cast<std::ptrdiff_t>(12 * r + 12), 1.0);
    if (r % 8 == 3) {
      EXPECT_EQ(seen, 0) << r;
    } else if (r % 8 == 5) {
      EXPECT_EQ(seen, 12) << r;
    } else {
      EXPECT_TRUE(0 < seen && seen < 12) << r;
    }
  }
  TensorSet none;
  softmax.indices(Attributes::complete(softmax.attributes, {{"rows", "2"}, {"cols", "2"}}), 3, none);
  EXPECT_TRUE(none.empty());
}

TEST(Decided, is_the_rounded_number_inside_a_cell_and_a_step_across_its_boundary) {
  const ScalarFormat& bf16 = scalar_format("bf16");
  const Enclosure inside = decided({1.002, 1e-3}, bf16);
  EXPECT_EQ(inside.value, 1);
  EXPECT_EQ(inside.error, 0);
  const Enclosure across = decided({1.004, 1e-3}, bf16);
  EXPECT_EQ(across.value, 1 + 0x1p-8);
  EXPECT_EQ(across.error, up(0x1p-8));
  EXPECT_EQ(decided({1 + 0x1p-8, 0}, bf16).error, 0) << "a tie without an error is decided";
  EXPECT_EQ(decided({1 + 0x1p-8, 0}, bf16).value, 1);
  EXPECT_GT(decided({1 + 0x1p-8, 1e-12}, bf16).error, 0);
}

TEST(Decided, claims_nothing_of_an_end_that_overflows_and_admits_zero_where_results_are_flushed) {
  const ScalarFormat& f16 = scalar_format("f16");
  EXPECT_EQ(decided({65519, 2}, f16).error, kInfinity);
  EXPECT_EQ(decided({65519, 2}, f16, false, {.overflow = Overflow::saturate}).value, 65504);
  EXPECT_EQ(decided({0, kInfinity}, f16).error, kInfinity);
  EXPECT_EQ(decided({464.5, 1}, scalar_format("e4m3fn")).error, kInfinity) << "NaN";
  for (const double sign : {-1.0, 1.0}) {
    const double subnormal = sign * std::ldexp(1.0, -f16.bias), little = std::ldexp(1.0, -2 * f16.bias);
    const Enclosure flushed = decided({subnormal, little}, f16, true);
    EXPECT_LE(flushed.low(), std::min(0.0, subnormal));
    EXPECT_GE(flushed.high(), std::max(0.0, subnormal));
    EXPECT_EQ(decided({subnormal, little}, f16).error, 0);
  }
}

TEST(Decided, contains_the_rounding_of_every_number_of_the_interval) {
  std::uint64_t state = 3;
  for (const char* name : {"bf16", "f16", "f32", "e4m3fn", "int8"}) {
    const ScalarFormat& to = scalar_format(name);
    const EncodePolicy policy{.overflow = Overflow::saturate};
    for (int i = 0; i < 100000; ++i) {
      const auto uniform = [&] { return std::ldexp(static_cast<double>(next_mixed(state) >> 11), -53); };
      const double value = (uniform() - 0.5) * std::ldexp(1.0, static_cast<int>(uniform() * 40) - 20);
      const Enclosure z{value, std::fabs(value) * std::ldexp(uniform(), -static_cast<int>(uniform() * 12))};
      const Enclosure got = decided(z, to, false, policy);
      const double inside = round_number(to, z.value + (2 * uniform() - 1) * z.error, policy);
      ASSERT_LE(got.low(), inside) << name << " " << value;
      ASSERT_GE(got.high(), inside) << name << " " << value;
    }
  }
}

}  // namespace
}  // namespace assay
