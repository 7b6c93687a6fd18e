// What becomes of an enclosure as it is stored, against an enumeration: of drawn intervals the numbers that a
// kernel may store are collected, and the truth must hold each of them (sound) and reach no further than the
// outermost two (sharp).
#include "reference/ops/op_io.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/error.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {
namespace {

double uniform(IndexDraw& draw) { return static_cast<double>(draw.next() >> 11) * 0x1p-53; }

// Numbers from below the least subnormal to beyond the largest, and intervals from nothing to across zero.
Enclosure drawn(IndexDraw& draw, const ScalarFormat& f) {
  const double lowest = 1 - f.bias - f.fraction_bits - 3, highest = std::log2(f.max_finite) + 1.5;
  const double size = std::exp2(lowest + (highest - lowest) * uniform(draw));
  const double value = draw.below(2) == 0 ? size : -size;
  const auto width = static_cast<int>(draw.below(static_cast<std::uint64_t>(f.fraction_bits) + 6));
  return {value, width == 0 ? 0 : size * std::exp2(2 - width) * uniform(draw)};
}

// All that a kernel may store whose number before that is anywhere in z. e4m3fn has a NaN beyond its largest
// number.
struct Admitted {
  double least = kInfinity, most = -kInfinity;
  bool nan = false;
  void add(double x) { least = std::min(least, x), most = std::max(most, x), nan |= std::isnan(x); }
  bool infinite() const { return !nan && std::isinf(least) && least == most; }
  bool finite() const { return !nan && std::isfinite(least) && std::isfinite(most); }
};
Admitted admitted(IndexDraw& draw, Enclosure z, const Store& store) {
  std::vector<double> numbers = {z.value};
  if (z.error > 0) {
    numbers.insert(numbers.end(), {z.low(), z.high()});
    for (int i = 0; i < 4; ++i)
      numbers.push_back(std::clamp(z.low() + 2 * z.error * uniform(draw), z.low(), z.high()));
  }
  Admitted all;
  for (const double x : numbers) {
    const double way =
        store.through == nullptr ? x : round_number(*store.through, x, {.overflow = Overflow::ieee});
    const double at_rest = round_to(*store.output, way, store.policy);
    all.add(at_rest);
    if (store.through != nullptr && store.policy.overflow == Overflow::saturate && std::isinf(way))
      all.nan = true;  // it may stay, or saturate: nothing is to be claimed
    // Tiny before a rounding, or after it.
    const auto is_tiny = [](double number, const ScalarFormat& f) {
      return std::fabs(number) < smallest_normal(f);
    };
    if (store.flush &&
        (is_tiny(at_rest, *store.output) || is_tiny(way, *store.output) ||
         (store.through != nullptr && (is_tiny(way, *store.through) || is_tiny(x, *store.through)))))
      all.add(0);
  }
  return all;
}

// Of every output, format on the way, rounding, overflow and flush.
template <typename Check>
void with_every_store(const Check& check) {
  IndexDraw draw(7);
  for (const char* output : {"f32", "f16", "bf16", "e4m3fn", "e5m2"})
    for (const char* through : {"", "f32", "f16", "bf16"})
      for (const Rounding rounding : {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero})
        for (const Overflow overflow : {Overflow::ieee, Overflow::saturate})
          for (const bool flush : {false, true}) {
            const Store store{*through == '\0' ? nullptr : &scalar_format(through),
                              &scalar_format(output),
                              {.rounding = rounding, .overflow = overflow},
                              flush};
            for (int i = 0; i < 100; ++i) check(draw, drawn(draw, *store.output), store);
          }
}

// `limit` covers `needed` and is larger by what up() adds alone.
bool is_sharp(double limit, double needed) { return limit >= needed && limit <= up(needed); }

TEST(SetTruthWithin, admits_what_a_kernel_may_store_and_nothing_beyond) {
  std::int64_t claimed = 0, unclaimed = 0;
  with_every_store([&](IndexDraw& draw, Enclosure z, const Store& store) {
    Truth t = make_truth("y", 1, "");
    set_truth_within(t, 0, z, store);
    const Admitted all = admitted(draw, z, store);
    if (all.infinite()) {
      ASSERT_EQ(t.value[0], all.least);
      ASSERT_EQ(t.limit[0], 0);
    } else if (!all.finite()) {
      ASSERT_EQ(t.limit[0], kInfinity);
      ++unclaimed;
    } else {
      ASSERT_EQ(t.value[0], all.least == all.most ? all.least : all.least / 2 + all.most / 2);
      ASSERT_TRUE(is_sharp(t.limit[0], std::max(all.most - t.value[0], t.value[0] - all.least)))
          << z.value << " +- " << z.error << " stored as " << store.output->name << ": " << t.limit[0];
      ++claimed;
    }
  });
  EXPECT_GT(claimed, 9 * unclaimed);
  EXPECT_GT(unclaimed, 0);
}

TEST(SetTruth, admits_what_a_kernel_may_store_and_nothing_beyond) {
  with_every_store([](IndexDraw& draw, Enclosure z, const Store& store) {
    Truth t = make_truth("y", 1, "");
    set_truth(t, 0, z, store);
    const Admitted all = admitted(draw, z, store);
    if (all.infinite()) {
      ASSERT_EQ(t.value[0], all.least);
      ASSERT_EQ(t.limit[0], 0);
      return;
    }
    if (!all.finite()) {
      ASSERT_EQ(t.limit[0], kInfinity);
      return;
    }
    const bool declared =
        store.through != nullptr && store.through->fraction_bits < store.output->fraction_bits;
    const double needed = std::max(all.most - t.value[0], t.value[0] - all.least);
    ASSERT_GE(t.limit[0], needed);
    if (!declared && z.error > 0) {
      ASSERT_EQ(t.value[0], z.value);
    }
    if (z.error == 0 && !store.flush && all.least == all.most) {
      ASSERT_EQ(t.value[0], all.least);
      ASSERT_EQ(t.limit[0], 0);
    }
    // Without zeros in place of what is flushed, both stored ends are reached.
    if (!store.flush && z.error > 0) {
      ASSERT_TRUE(is_sharp(t.limit[0], needed));
      ASSERT_TRUE(!declared || t.value[0] == all.least / 2 + all.most / 2);
    }
  });
}

TEST(SetTruth, claims_nothing_where_nothing_is_known) {
  const Store store{nullptr, &scalar_format("f16"), {.overflow = Overflow::ieee}, false};
  for (const auto set : {set_truth, set_truth_within})
    for (const Enclosure z : {Enclosure{1, kInfinity}, Enclosure{kInfinity, 0}, Enclosure{NAN, 0}}) {
      Truth t = make_truth("y", 1, "");
      t.limit[0] = 0;
      set(t, 0, z, store);
      EXPECT_EQ(t.limit[0], kInfinity);
      if (!std::isnan(z.value)) {
        EXPECT_EQ(t.value[0], z.value);
      }
    }
}

TEST(SetSpecial, claims_an_infinity_unless_it_may_saturate) {
  Store store{nullptr, &scalar_format("f16"), {.overflow = Overflow::ieee}, false};
  Truth t = make_truth("y", 1, "");
  set_special(t, 0, kInfinity, store);
  EXPECT_EQ(t.value[0], kInfinity);
  EXPECT_EQ(t.limit[0], 0);
  store.policy.overflow = Overflow::saturate;
  set_special(t, 0, kInfinity, store);
  EXPECT_TRUE(std::isnan(t.value[0]));
  EXPECT_EQ(t.limit[0], kInfinity);
  set_special(t, 0, NAN, store);
  EXPECT_TRUE(std::isnan(t.value[0]));
  EXPECT_EQ(t.limit[0], 0);
}

TEST(OpInputs, says_which_tensor_is_missing_or_has_another_shape_or_format) {
  const std::vector<TensorSpec> specs = {
      {.name = "x", .role = TensorRole::data, .format = "f32", .shape = {2, 3}},
      {.name = "y", .role = TensorRole::output, .format = "f32", .shape = {2}}};
  const auto reason = [&](const TensorSet& set) -> std::string {
    try {
      OpInputs in(specs, set);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  const std::vector<float> six(6);
  EXPECT_EQ(reason({{"x", encode_tensor(format("f32"), {2, 3}, six)}}), "");
  EXPECT_NE(reason({}).find("input x is missing: it is f32[2,3]"), std::string::npos) << reason({});
  EXPECT_NE(reason({{"x", encode_tensor(format("f16"), {2, 3}, six)}}).find("input x is f16[2,3]"),
            std::string::npos);
  EXPECT_NE(
      reason({{"x", encode_tensor(format("f32"), {3, 2}, six)}}).find("the attributes make it f32[2,3]"),
      std::string::npos);
}

TEST(IntegerTensor, holds_its_numbers_of_either_sign) {
  const std::vector<std::int64_t> numbers = {-2147483648, 1, 0, -1, 2147483647};
  const TensorSet set = {{"page", integer_tensor("int32", {5}, numbers)}};
  const std::vector<TensorSpec> specs = {
      {.name = "page", .role = TensorRole::index, .format = "int32", .shape = {5}}};
  EXPECT_EQ(OpInputs(specs, set).integers("page"), numbers);
}

TEST(IndexDraw, a_permutation_holds_every_number_once_and_is_not_the_identity) {
  IndexDraw draw(3);
  std::vector<std::int64_t> list = draw.permutation(100), identity(100);
  for (std::size_t i = 0; i < identity.size(); ++i) identity[i] = static_cast<std::int64_t>(i);
  EXPECT_NE(list, identity);
  std::ranges::sort(list);
  EXPECT_EQ(list, identity);
}

}  // namespace
}  // namespace assay
