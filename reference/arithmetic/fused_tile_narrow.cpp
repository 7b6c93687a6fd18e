// The float lanes of fused_gemm: FP8 into e8m13, and CDNA2. See fused_tile_wide.cpp for the method.
#include <limits>

#include "reference/arithmetic/fused_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/arithmetic/fused_tile_narrow.cpp"
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)  // whose vectors make no array
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Vec = hn::Vec<D>;

using DF = hn::CappedTag<float, kPanel>;

// 2^bits / power, power a power of two.
HWY_INLINE Vec<DF> over_power(DF d, int bits, Vec<DF> power) {
  const hn::RebindToUnsigned<DF> du;
  return hn::BitCast(
      d, hn::Sub(hn::Set(du, static_cast<std::uint32_t>(254 + bits) << 23), hn::BitCast(du, power)));
}
template <class D>
HWY_INLINE auto is_finite(D d, Vec<D> x) {
  return hn::Eq(hn::Sub(x, x), hn::Zero(d));  // Inf - Inf and NaN - NaN are NaN
}

// A non-finite accumulator stays what it is when every product is finite.
template <class D>
HWY_INLINE Vec<D> keep_special(D d, Vec<D> c, Vec<D> result) {
  return hn::IfThenElse(is_finite(d, c), result, c);
}

// FP8 into e8m13. Non-zero products have powers from 2^-28 to 2^30, so no scale leaves the float range; where
// all products are zero, T(13, g) cuts an f32 c to its 14 leading bits (to a multiple of 2^-139 below
// 2^-126). kRows rows share the loads of B.
template <std::size_t kRows>
HWY_INLINE void narrow_rows(const Tile<float>& tile, const TileRule& rule, std::size_t i, std::size_t j) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  const auto exponent_mask = hn::Set(du, 0x7f800000u);
  Vec<DF> c[kRows], m[kRows], scale[kRows], sum[kRows];
  const float* a[kRows];
  const float* ap[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    c[r] = hn::LoadU(d, tile.c + (i + r) * kPanel + j);
    a[r] = tile.a + (i + r) * tile.a_stride;
    ap[r] = tile.a_power + (i + r) * tile.a_stride;
  }
  const float* b = tile.b + j;
  const float* bp = tile.b_power + j;
  for (std::size_t block = 0; block < tile.depth; block += rule.group) {
    for (std::size_t r = 0; r < kRows; ++r) m[r] = sum[r] = hn::Zero(d);
    for (std::size_t k = block; k < block + rule.group; ++k) {
      const auto power = hn::LoadU(d, bp + k * kPanel);
      for (std::size_t r = 0; r < kRows; ++r) m[r] = hn::Max(m[r], hn::Mul(hn::Set(d, ap[r][k]), power));
    }
    Vec<DF> products[kRows];
    for (std::size_t r = 0; r < kRows; ++r) {
      products[r] = m[r];
      const auto c_power = hn::BitCast(d, hn::And(hn::BitCast(du, c[r]), exponent_mask));
      m[r] = hn::Max(hn::Max(m[r], c_power), hn::Set(d, 0x1p-100f));
      scale[r] = over_power(d, rule.fraction_bits, m[r]);
    }
    for (std::size_t k = block; k < block + rule.group; ++k) {
      const auto value = hn::LoadU(d, b + k * kPanel);
      for (std::size_t r = 0; r < kRows; ++r) {
        sum[r] = hn::Add(sum[r], hn::Trunc(hn::Mul(hn::Mul(hn::Set(d, a[r][k]), value), scale[r])));
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto total = hn::Add(sum[r], hn::Trunc(hn::Mul(c[r], scale[r])));
      const auto exact =
          hn::Mul(total, hn::Mul(m[r], hn::Set(d, static_cast<float>(power_of_two(-rule.fraction_bits)))));
      const auto idle = hn::Eq(products[r], hn::Zero(d));
      const auto value = hn::IfThenElse(idle, c[r], exact);
      const auto cut = hn::BitCast(d, hn::And(hn::BitCast(du, value), hn::Set(du, ~0x3ffu)));
      c[r] = keep_special(d, c[r], hn::IfThenElse(idle, hn::Add(cut, hn::Zero(d)), cut));
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) hn::StoreU(c[r], d, tile.c + (i + r) * kPanel + j);
}

HWY_INLINE Vec<DF> flush(DF d, Vec<DF> x) {
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-126f)), hn::CopySign(hn::Zero(d), x), x);
}

// Operands were flushed when they were packed; c and every result are flushed here.
HWY_INLINE void pairwise_tile(const Tile<float>& tile, const TileRule& rule) {
  const DF d;
  for (std::size_t i = 0; i < tile.rows; ++i) {
    for (std::size_t j = 0; j < kPanel; j += hn::Lanes(d)) {
      auto c = hn::LoadU(d, tile.c + i * kPanel + j);
      for (std::size_t k = 0; k < tile.depth; k += rule.group) {
        const auto product = [&](std::size_t at) HWY_ATTR {
          return flush(d, hn::Mul(hn::Set(d, tile.a[i * tile.a_stride + k + at]),
                                  hn::LoadU(d, tile.b + (k + at) * kPanel + j)));
        };
        auto sum = flush(d, hn::Add(product(0), product(1)));
        if (rule.group == 4) sum = flush(d, hn::Add(sum, flush(d, hn::Add(product(2), product(3)))));
        const auto start = hn::IfThenZeroElse(hn::Lt(hn::Abs(c), hn::Set(d, 0x1p-126f)), c);
        c = flush(d, hn::Add(start, sum));
      }
      hn::StoreU(c, d, tile.c + i * kPanel + j);
    }
  }
}

void narrow_tile(const Tile<float>& tile, const TileRule& rule) {
  if (rule.combine == Combine::pairwise_flush) return pairwise_tile(tile, rule);
  constexpr std::size_t kRows = 4;
  for (std::size_t j = 0; j < kPanel; j += hn::Lanes(DF())) {
    std::size_t i = 0;
    for (; i + kRows <= tile.rows; i += kRows) narrow_rows<kRows>(tile, rule, i, j);
    for (; i < tile.rows; ++i) narrow_rows<1>(tile, rule, i, j);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(narrow_tile);

void fused_tile(const Tile<float>& tile, const TileRule& rule) {
  HWY_DYNAMIC_DISPATCH(narrow_tile)(tile, rule);
}

}  // namespace assay
#endif
