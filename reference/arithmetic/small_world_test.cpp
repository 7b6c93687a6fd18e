// Small worlds: every input of a toy arithmetic, every kernel of the contract, by the sets of numbers that a
// kernel may hold. Nothing here knows a proof. Of a unit: any deal of the products to blocks and parts, by
// fused_dot, which defines the unit; of a float: every tree of every permutation, each product rounded or
// fused. A bound has to hold for all of them; the largest error / limit is printed, and has to be near 1, or
// the bound could be smaller.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "reference/arithmetic/dot_bound.hpp"
#include "reference/arithmetic/rounding.hpp"
#include "reference/arithmetic/rule.hpp"

namespace assay {
namespace {

using Set = std::set<double>;
using Values = std::vector<float>;

Values values_of(std::string_view format) {
  Set all;
  const ScalarFormat& f = scalar_format(format);
  for (std::uint32_t code = 0; code < 1U << f.bits; ++code)
    if (const double x = decode(f, code); std::isfinite(x)) all.insert(x + 0.0);
  return {all.begin(), all.end()};
}

// Every non-decreasing choice of n of the values: order is the members' business.
template <typename Each>
void multisets(const Values& values, std::size_t n, std::size_t step, Each each) {
  std::vector<std::size_t> at(n, 0);
  for (;;) {
    Values chosen;
    for (const std::size_t i : at) chosen.push_back(values[i]);
    each(chosen);
    std::size_t k = n;
    while (k > 0 && at[k - 1] + step >= values.size()) --k;
    if (k == 0) return;
    const std::size_t next = at[k - 1] + step;
    for (std::size_t i = k - 1; i < n; ++i) at[i] = next;
  }
}

struct Reach {
  std::size_t members = 0, worlds = 0, beyond = 0;
  double worst = 0;
  void judge(const Set& results, double exact, double limit) {
    ++worlds;
    for (const double x : results) {
      ++members;
      const double error = std::fabs(x - exact);
      beyond += error <= limit ? 0U : 1U;
      if (limit > 0 && std::isfinite(limit)) worst = std::max(worst, error / limit);
    }
  }
};

// What a kernel may hold of the products in `mask`, of at most `parts` parts.
class UnitWorld {
 public:
  UnitWorld(const MatrixUnit& unit, const Values& a, const Values& b, Blocking blocking)
      : unit_(unit), a_(a), b_(b), blocking_(blocking), sums_(out_precision(unit)) {}
  Set whole(std::int64_t parts) { return held((1U << a_.size()) - 1, parts); }

 private:
  // Blocks from zero; all but the last of at least `block` products.
  Set chain(unsigned mask, bool last) {
    Set results;
    for (unsigned block = mask; block != 0; block = (block - 1) & mask) {
      const int size = std::popcount(block);
      if (size > unit_.group || (!last && size < blocking_.block)) continue;
      const Set before = block == mask ? Set{0.0} : chain(mask & ~block, false);
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < a_.size(); ++i)
        if ((block >> i & 1) != 0) order.push_back(i);
      do {
        Values x, y;
        for (const std::size_t i : order) x.push_back(a_[i]), y.push_back(b_[i]);
        for (const double c : before) results.insert(fused_dot(unit_, {x, ""}, {y, ""}, c));
      } while (unit_.combine == Combine::floor_halves && std::next_permutation(order.begin(), order.end()));
    }
    return results;
  }
  Set held(unsigned mask, std::int64_t parts) {
    Set results = chain(mask, true);
    if (parts == 1) return results;
    for (unsigned left = (mask - 1) & mask; left != 0; left = (left - 1) & mask)
      for (std::int64_t p = 1; p < parts; ++p)
        for (const double x : held(left, p))
          for (const double y : held(mask & ~left, parts - p)) results.insert(round_sum(x, y, sums_));
    return results;
  }
  const MatrixUnit& unit_;
  const Values &a_, &b_;
  Blocking blocking_;
  Precision sums_;
};

struct Toy {
  Combine combine;
  std::string_view out;
  int fraction_bits, group;
  Rounding rounding;
};
// Units that floor keep 24 bits in f32, as those of CDNA3; the others 11 in f16, where narrow operands show
// every cut.
constexpr auto kToys = std::to_array<Toy>({
    {Combine::truncate, "f16", 10, 2, Rounding::toward_zero},
    {Combine::truncate, "f16", 10, 4, Rounding::toward_zero},
    {Combine::truncate, "f16", 10, 2, Rounding::nearest_even},
    {Combine::truncate, "f16", 12, 4, Rounding::nearest_even},
    {Combine::floor, "f32", 24, 2, Rounding::nearest_even},
    {Combine::floor_halves, "f32", 24, 4, Rounding::nearest_even},
    {Combine::exact, "f32", 0, 2, Rounding::nearest_even},
});

Reach unit_world(const Toy& toy, std::string_view format, std::size_t n, std::size_t step, float partner,
                 Blocking blocking) {
  const MatrixUnit unit{.name = "toy",
                        .combine = toy.combine,
                        .fraction_bits = toy.fraction_bits,
                        .group = toy.group,
                        .inputs = format,
                        .out = toy.out,
                        .rounding = toy.rounding,
                        .scales = "",
                        .scale_block = 0,
                        .standing = Standing::published,
                        .source = ""};
  const Accumulator how{"toy", Accumulator::Kind::unit, out_precision(unit), &unit};
  Reach reach;
  const Values b(n, partner);
  multisets(values_of(format), n, step, [&](const Values& a) {
    double exact = 0;
    for (std::size_t k = 0; k < n; ++k) exact += static_cast<double>(a[k]) * static_cast<double>(b[k]);
    const double limit = dot_bound(how, dot_magnitudes({a, ""}, {b, ""}, 0, how), 0, blocking);
    if (!std::isfinite(limit)) return;  // a sum may overflow
    const std::int64_t parts = blocking.split == 0 ? static_cast<std::int64_t>(n) : blocking.split;
    reach.judge(UnitWorld(unit, a, b, blocking).whole(parts), exact, limit);
  });
  return reach;
}

// e5m2 spans 2^-16 to 2^15; 1.25 makes sums of every height of it, and 1.25 2^-14 subnormal ones of f16.
Reach unit_worlds(const Toy& toy, Blocking blocking) {
  Reach all;
  for (const auto& [n, step, partner] :
       {std::tuple{2U, 1U, 1.25F}, {3U, 9U, 1.25F}, {3U, 9U, 0x1.4p-14F}, {4U, 31U, 1.75F}}) {
    const Reach each = unit_world(toy, "e5m2", n, step, partner, blocking);
    all.members += each.members, all.worlds += each.worlds, all.beyond += each.beyond;
    all.worst = std::max(all.worst, each.worst);
  }
  return all;
}

TEST(SmallWorld, of_a_unit_holds_every_deal_of_the_products_to_blocks_and_parts) {
  std::printf("unit, block, split: sets of inputs, members, largest error / limit\n");
  for (const Toy& toy : kToys)
    for (const Blocking blocking : {Blocking{1, 0}, Blocking{2, 1}, Blocking{1, 1}, Blocking{2, 2}}) {
      const Reach reach = unit_worlds(toy, blocking);
      std::printf("  %d F=%d g=%d %s, %lld %lld: %zu, %zu, %.3f\n", static_cast<int>(toy.combine),
                  toy.fraction_bits, toy.group, toy.rounding == Rounding::toward_zero ? "rz" : "rn",
                  static_cast<long long>(blocking.block), static_cast<long long>(blocking.split),
                  reach.worlds, reach.members, reach.worst);
      EXPECT_EQ(reach.beyond, 0U);
      EXPECT_GT(reach.worst, 0.14);
    }
}

// All sums of the products in `mask` in f: every tree, a product rounded, or fused with what the rest gives.
Set float_sums(const Values& a, const Values& b, unsigned mask, const Precision& f) {
  const auto product = [&](std::size_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); };
  Set results;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if ((mask & (1U << i)) == 0) continue;
    const unsigned rest = mask & ~(1U << i);
    if (rest == 0) {
      results.insert(round_to_precision(product(i), f));
      continue;
    }
    for (const double x : float_sums(a, b, rest, f)) results.insert(round_sum(x, product(i), f));
  }
  for (unsigned left = (mask - 1) & mask; left != 0; left = (left - 1) & mask)
    for (const double x : float_sums(a, b, left, f))
      for (const double y : float_sums(a, b, mask & ~left, f)) results.insert(round_sum(x, y, f));
  return results;
}

Reach float_worlds(const Precision& f, float partner) {
  const Accumulator how{"toy", Accumulator::Kind::floating, f, nullptr};
  Reach reach;
  for (const std::size_t n : {1U, 2U, 3U}) {
    if (static_cast<double>(n) * unit_roundoff(f) >= 1) continue;
    const Values b(n, partner);
    multisets(values_of("e3m2"), n, n < 3 ? 1 : 3, [&](const Values& a) {
      double exact = 0, abs_sum = 0;
      for (std::size_t k = 0; k < n; ++k) {
        const double p = static_cast<double>(a[k]) * static_cast<double>(b[k]);
        exact += p, abs_sum += std::fabs(p);
      }
      const DotMagnitudes m{.n = static_cast<std::int64_t>(n), .abs_sum = abs_sum};
      const Set all = float_sums(a, b, (1U << n) - 1, f);
      for (const double limit :
           {dot_bound(how, m), dot_bound_ordered(f, static_cast<std::int64_t>(n) - 1, m)})
        if (std::isfinite(limit)) reach.judge(all, exact, limit);
    });
  }
  return reach;
}

TEST(SmallWorld, of_a_float_holds_every_tree_and_every_fusion) {
  std::printf("p, partner: members, largest error / limit\n");
  for (const Precision f : {Precision{2, -2, 3}, Precision{3, -2, 4}, Precision{4, -3, 5}})
    for (const float partner : {1.0F, 0.625F, 0.1875F}) {
      const Reach reach = float_worlds(f, partner);
      std::printf("  %d %g: %zu, %.3f\n", f.p, static_cast<double>(partner), reach.members, reach.worst);
      EXPECT_EQ(reach.beyond, 0U) << f.p << ' ' << partner;
      EXPECT_GT(reach.worst, 0.3) << f.p << ' ' << partner;
    }
}

// The world notices each rule of these bounds when it counts less.
TEST(SmallWorld, notices_a_rule_of_a_float_that_is_made_unsound) {
  for (const double factor : {0.0, 0.2, 0.5})
    for (const Rule rule : {Rule::sum_rounding, Rule::product_underflow}) {
      const Unsound weak(rule, factor);
      EXPECT_GT(float_worlds({3, -2, 4}, 0.625F).beyond + float_worlds({4, -3, 5}, 0.1875F).beyond, 0U)
          << static_cast<int>(rule) << " x " << factor;
    }
}

}  // namespace
}  // namespace assay
