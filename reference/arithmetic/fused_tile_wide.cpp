// The double lanes of fused_gemm. Each lane is one output; all lanes walk k together. Powers of two multiply
// and divide exactly, so max over exponents is max over powers, and "truncate at M - F" is
//   Trunc(x * 2^(F-M)).
// Sums of truncated terms are integers below 2^24 (float lanes) or 2^53 (double lanes), hence exact in any
// order.
#include "reference/arithmetic/fused_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/arithmetic/fused_tile_wide.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Vec = hn::Vec<D>;

using DD = hn::CappedTag<double, kPanel>;
using DC = hn::Rebind<float, DD>;  // c beside double lanes

// 2^floor(log2 |x|) of a normal x; 0 for zero.
HWY_INLINE Vec<DD> power_of(DD d, Vec<DD> x) {
  const hn::RebindToUnsigned<DD> du;
  return hn::BitCast(d, hn::And(hn::BitCast(du, x), hn::Set(du, 0x7ff0000000000000ULL)));
}
// 2^bits / power, power a normal power of two.
HWY_INLINE Vec<DD> over_power(DD d, int bits, Vec<DD> power) {
  const hn::RebindToUnsigned<DD> du;
  return hn::BitCast(
      d, hn::Sub(hn::Set(du, static_cast<std::uint64_t>(2046 + bits) << 52), hn::BitCast(du, power)));
}
template <class D>
HWY_INLINE auto is_finite(D d, Vec<D> x) {
  return hn::Eq(hn::Sub(x, x), hn::Zero(d));  // Inf - Inf and NaN - NaN are NaN
}

// To f32, of a number that is one. (Targets without the instruction would turn Inf into the largest finite
// number.)
HWY_INLINE Vec<DC> to_f32(DC dc, Vec<DD> x) {
  const DD d;
  const auto infinite = hn::Eq(hn::Abs(x), hn::Set(d, std::numeric_limits<double>::infinity()));
  const auto mark = hn::DemoteTo(dc, hn::IfThenElseZero(infinite, hn::Set(d, 1.0)));
  const auto narrow = hn::DemoteTo(dc, x);
  const auto inf = hn::CopySign(hn::Set(dc, std::numeric_limits<float>::infinity()), narrow);
  return hn::IfThenElse(hn::Eq(mark, hn::Set(dc, 1.0f)), inf, narrow);
}

// One rounding into `out`; x = 0 gives +0; beyond the largest finite number: Inf.
HWY_INLINE Vec<DD> round_to_out(DD d, Vec<DD> x, const TileRule& rule) {
  const auto lowest = hn::Set(d, power_of_two(rule.out.emin));
  const auto power = hn::Max(power_of(d, x), lowest);
  const auto scaled = hn::Mul(x, over_power(d, rule.out.p - 1, power));
  const auto whole = rule.nearest ? hn::Round(scaled) : hn::Trunc(scaled);
  const auto r = hn::Mul(hn::Mul(hn::Abs(whole), power), hn::Set(d, power_of_two(1 - rule.out.p)));
  const auto inf = hn::Set(d, std::numeric_limits<double>::infinity());
  const auto capped = hn::IfThenElse(hn::Gt(r, hn::Set(d, largest_finite(rule.out))), inf, r);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Zero(d), hn::CopySign(capped, x));
}

// What M is at least: c's power, or 2^least where c is zero.
HWY_INLINE Vec<DD> accumulator_power(DD d, Vec<DD> c, const TileRule& rule, int least = -126) {
  const auto power = hn::Max(power_of(d, c), hn::Set(d, power_of_two(rule.out.emin)));
  const auto lowest = hn::Set(d, power_of_two(least));
  return hn::IfThenElse(hn::Eq(c, hn::Zero(d)), lowest, hn::Max(power, lowest));
}

// A non-finite accumulator stays what it is when every product is finite.
template <class D>
HWY_INLINE Vec<D> keep_special(D d, Vec<D> c, Vec<D> result) {
  return hn::IfThenElse(is_finite(d, c), result, c);
}

// Largest power and truncated sum of the products k = first, first + step, ... below `end` that `use` admits.
template <class D, class Use, class T = hn::TFromD<D>>
HWY_INLINE Vec<D> largest_power(D d, const T* a, const T* b, std::size_t end, Vec<D> least, Use use) {
  auto m = least;
  for (std::size_t k = 0; k < end; ++k) {
    if (use(k)) m = hn::Max(m, hn::Mul(hn::Set(d, a[k]), hn::LoadU(d, b + k * kPanel)));
  }
  return m;
}
template <class D, class Use, class T = hn::TFromD<D>>
HWY_INLINE Vec<D> truncated_sum(D d, const T* a, const T* b, std::size_t end, Vec<D> scale, Use use) {
  auto sum = hn::Zero(d);
  for (std::size_t k = 0; k < end; ++k) {
    if (!use(k)) continue;
    sum = hn::Add(sum, hn::Trunc(hn::Mul(hn::Mul(hn::Set(d, a[k]), hn::LoadU(d, b + k * kPanel)), scale)));
  }
  return sum;
}
struct All {
  bool operator()(std::size_t) const { return true; }
};
struct Parity {
  std::size_t odd;
  bool operator()(std::size_t k) const { return k % 2 == odd; }
};
struct PairOfFour {
  std::size_t second;
  bool operator()(std::size_t k) const { return (k % 4) / 2 == second; }
};

struct Block {
  const double* a;
  const double* ap;
  const double* b;
  const double* bp;
};

template <class Use>
HWY_INLINE Vec<DD> truncate_block(DD d, const Block& t, std::size_t count, Vec<DD> c, const TileRule& rule,
                                  Use use) {
  const auto m = largest_power(d, t.ap, t.bp, count, accumulator_power(d, c, rule, rule.least_exponent), use);
  const auto scale = over_power(d, rule.fraction_bits, m);
  const auto sum = hn::Add(truncated_sum(d, t.a, t.b, count, scale, use), hn::Trunc(hn::Mul(c, scale)));
  const auto exact = hn::Mul(sum, hn::Mul(m, hn::Set(d, power_of_two(-rule.fraction_bits))));
  return hn::Add(round_to_out(d, exact, rule), hn::Zero(d));  // a zero is +0
}

HWY_INLINE Vec<DD> group_scaled_block(DD d, const Block& t, std::size_t count, Vec<DD> c,
                                      const TileRule& rule) {
  constexpr std::size_t kGroup = 16;
  constexpr std::size_t kGroups = 4;
  HWY_ALIGN double sums[kGroups * kPanel];
  auto m = accumulator_power(d, c, rule, rule.least_exponent);
  for (std::size_t g = 0; g * kGroup < count; ++g) {
    auto sum = hn::Zero(d);
    for (std::size_t k = g * kGroup; k < (g + 1) * kGroup; ++k) {
      sum = hn::Add(sum, hn::Mul(hn::Set(d, t.a[k]), hn::LoadU(d, t.b + k * kPanel)));
    }
    hn::Store(sum, d, sums + g * kPanel);
    const std::size_t first = g * kGroup;
    const auto power = hn::Mul(hn::Set(d, t.ap[first]), hn::LoadU(d, t.bp + first * kPanel));
    m = hn::Max(m, hn::IfThenElseZero(hn::Ne(sum, hn::Zero(d)), power));
  }
  const auto scale = over_power(d, rule.fraction_bits, m);
  auto total = hn::Add(hn::Zero(d), hn::Trunc(hn::Mul(c, scale)));
  for (std::size_t g = 0; g * kGroup < count; ++g) {
    total = hn::Add(total, hn::Trunc(hn::Mul(hn::Load(d, sums + g * kPanel), scale)));
  }
  const auto exact = hn::Mul(total, hn::Mul(m, hn::Set(d, power_of_two(-rule.fraction_bits))));
  return hn::Add(round_to_out(d, exact, rule), hn::Zero(d));  // a zero is +0
}

// `sum` counts units of power * 2^-F; see Combine::floor.
HWY_INLINE Vec<DD> floor_combine(DD d, Vec<DD> sum, Vec<DD> power, Vec<DD> c, bool drop,
                                 const TileRule& rule) {
  constexpr int kSumBits = 31;
  const int f = rule.fraction_bits;
  const auto c_power = accumulator_power(d, c, rule);
  const auto e = hn::Max(power, c_power);
  const auto exact = hn::Mul(sum, hn::Mul(power, hn::Set(d, power_of_two(-f))));
  const auto whole = hn::Floor(hn::Mul(exact, over_power(d, kSumBits, e)));
  auto rest = hn::Mul(hn::Floor(hn::Mul(c, over_power(d, f, e))), hn::Set(d, power_of_two(kSumBits - f)));
  if (drop) rest = hn::IfThenElseZero(hn::Ge(c_power, hn::Mul(e, hn::Set(d, power_of_two(-f - 1)))), rest);
  return round_to_out(d, hn::Mul(hn::Add(whole, rest), hn::Mul(e, hn::Set(d, power_of_two(-kSumBits)))),
                      rule);
}

HWY_INLINE Vec<DD> floor_block(DD d, const Block& t, std::size_t count, Vec<DD> c, const TileRule& rule) {
  const auto m = largest_power(d, t.ap, t.bp, count, hn::Set(d, 0x1p-126), All{});
  const auto sum = truncated_sum(d, t.a, t.b, count, over_power(d, rule.fraction_bits, m), All{});
  return floor_combine(d, sum, m, c, false, rule);
}

HWY_INLINE Vec<DD> floor_halves_block(DD d, const Block& t, std::size_t count, Vec<DD> c,
                                      const TileRule& rule) {
  const auto least = hn::Set(d, 0x1p-126);
  const auto m0 = largest_power(d, t.ap, t.bp, count, least, Parity{0});
  const auto m1 = largest_power(d, t.ap, t.bp, count, least, Parity{1});
  const auto s0 = truncated_sum(d, t.a, t.b, count, over_power(d, rule.fraction_bits, m0), Parity{0});
  const auto s1 = truncated_sum(d, t.a, t.b, count, over_power(d, rule.fraction_bits, m1), Parity{1});
  const auto m = hn::Max(m0, m1);
  const auto inverse = over_power(d, 0, m);
  const auto sum =
      hn::Add(hn::Floor(hn::Mul(hn::Mul(s0, m0), inverse)), hn::Floor(hn::Mul(hn::Mul(s1, m1), inverse)));
  return floor_combine(d, sum, m, c, true, rule);
}

HWY_INLINE Vec<DD> unpack_split_block(DD d, const Block& t, std::size_t count, Vec<DD> c,
                                      const TileRule& rule) {
  const bool f16 = rule.out == kPrecisionF16;
  const TileRule inner{Combine::truncate, 16, rule.fraction_bits, rule.out, f16, rule.least_exponent};
  auto partial = truncate_block(d, t, count, hn::Zero(d), inner, PairOfFour{0});
  partial = keep_special(d, partial, truncate_block(d, t, count, partial, inner, PairOfFour{1}));
  if (!f16) {
    const DC dc;
    return hn::PromoteTo(d, hn::Add(to_f32(dc, partial), to_f32(dc, c)));
  }
  const auto sum = hn::Add(partial, c);  // of two f16: exact
  return keep_special(d, sum, round_to_out(d, sum, rule));
}

// The caller has made sure that every sum of products is exact in double. TwoSum with c, and the sum's last
// bit set when TwoSum leaves a rest (round to odd): one rounding to at most 51 bits then is the rounding of
// the exact value.
HWY_INLINE Vec<DD> exact_block(DD d, const Block& t, std::size_t count, Vec<DD> c, const TileRule& rule) {
  const hn::RebindToUnsigned<DD> du;
  auto sum = hn::Zero(d);
  for (std::size_t k = 0; k < count; ++k) {
    sum = hn::Add(sum, hn::Mul(hn::Set(d, t.a[k]), hn::LoadU(d, t.b + k * kPanel)));
  }
  const auto high = hn::Add(sum, c);
  const auto back = hn::Sub(high, sum);
  const auto low = hn::Add(hn::Sub(sum, hn::Sub(high, back)), hn::Sub(c, back));
  // Toward the rest: one bit away from zero when it has the sign of `high`, else one bit toward zero; only if
  // even.
  const auto bits = hn::BitCast(du, high);
  const auto one = hn::Set(du, 1);
  const auto even = hn::Eq(hn::And(bits, one), hn::Zero(du));
  const auto outward = hn::BitCast(d, hn::Add(bits, one));
  const auto inward = hn::BitCast(d, hn::Sub(bits, one));
  const auto grows =
      hn::Gt(hn::Mul(hn::CopySign(hn::Set(d, 1.0), low), hn::CopySign(hn::Set(d, 1.0), high)), hn::Zero(d));
  const auto odd = hn::IfThenElse(hn::RebindMask(d, even), hn::IfThenElse(grows, outward, inward), high);
  const auto exact = hn::Eq(low, hn::Zero(d));
  return round_to_out(d, hn::IfThenElse(exact, high, odd), rule);
}

template <class Step>
HWY_INLINE void walk(const Tile<double>& tile, const TileRule& rule, Step step) {
  const DD d;
  const DC dc;
  for (std::size_t i = 0; i < tile.rows; ++i) {
    for (std::size_t j = 0; j < kPanel; j += hn::Lanes(d)) {
      auto c = hn::PromoteTo(d, hn::LoadU(dc, tile.c + i * kPanel + j));
      for (std::size_t k = 0; k < tile.depth; k += rule.group) {
        const Block t{tile.a + i * tile.a_stride + k, tile.a_power + i * tile.a_stride + k,
                      tile.b + k * kPanel + j, tile.b_power + k * kPanel + j};
        const auto next = step(d, t, c);
        // unpack_split adds c last, with what infinities do in an addition.
        c = rule.combine == Combine::unpack_split ? next : keep_special(d, c, next);
      }
      hn::StoreU(to_f32(dc, c), dc, tile.c + i * kPanel + j);
    }
  }
}

void wide_tile(const Tile<double>& tile, const TileRule& rule) {
  switch (rule.combine) {
    case Combine::group_scaled:
      return walk(tile, rule, [&](DD d, const Block& t, Vec<DD> c) HWY_ATTR {
        return group_scaled_block(d, t, rule.group, c, rule);
      });
    case Combine::exact:
      return walk(tile, rule, [&](DD d, const Block& t, Vec<DD> c) HWY_ATTR {
        return exact_block(d, t, rule.group, c, rule);
      });
    case Combine::floor:
      return walk(tile, rule, [&](DD d, const Block& t, Vec<DD> c) HWY_ATTR {
        return floor_block(d, t, rule.group, c, rule);
      });
    case Combine::floor_halves:
      return walk(tile, rule, [&](DD d, const Block& t, Vec<DD> c) HWY_ATTR {
        return floor_halves_block(d, t, rule.group, c, rule);
      });
    case Combine::unpack_split:
      return walk(tile, rule, [&](DD d, const Block& t, Vec<DD> c) HWY_ATTR {
        return unpack_split_block(d, t, rule.group, c, rule);
      });
    default:
      return walk(tile, rule, [&](DD d, const Block& t, Vec<DD> c) HWY_ATTR {
        return truncate_block(d, t, rule.group, c, rule, All{});
      });
  }
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(wide_tile);
HWY_EXPORT(target_name);

void fused_tile(const Tile<double>& tile, const TileRule& rule) {
  HWY_DYNAMIC_DISPATCH(wide_tile)(tile, rule);
}
const char* fused_tile_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace assay
#endif
