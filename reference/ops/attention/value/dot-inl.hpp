// q.k of several rows and a tile of keys, binary64: plain sums (exact when the caller has checked that they
// are), and pairs by TwoProd and TwoSum. Include inside a HWY foreach_target translation unit.
#if defined(ASSAY_ATTENTION_DOT_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_ATTENTION_DOT_INL_HPP_
#undef ASSAY_ATTENTION_DOT_INL_HPP_
#else
#define ASSAY_ATTENTION_DOT_INL_HPP_
#endif

#include "hwy/highway.h"
#include "reference/ops/attention/value/certified_tile.hpp"
#include "reference/real/eft.hpp"
#include "reference/real/fma-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::ScalableTag<double>;
using V64 = hn::Vec<F64>;
inline constexpr int kLanes = HWY_LANES(double);
inline constexpr int kPad = 8;  // leading dimensions are multiples of this and of kLanes

// A sum that rounds has kSums partial sums on every machine, of the elements i with the same i % kSums, so
// that its bits do not depend on the width of a vector: they stand in kVectors vectors.
inline constexpr int kSums = 8;
inline constexpr int kVectors = kSums / kLanes;
static_assert(kVectors * kLanes == kSums && kPad == kSums);

// Of the partial sums, in one order.
HWY_INLINE double sum_of_sums(const V64* v) {
  HWY_ALIGN double s[kSums];
  for (int i = 0; i < kVectors; ++i) hn::Store(v[i], F64(), s + i * kLanes);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

// v[n] -> lane n holds the sum of v[n]'s lanes.
HWY_INLINE V64 sums_of_lanes(const V64* v) {
  const F64 d;
#if HWY_TARGET <= HWY_AVX3
  const auto pair = [&](V64 a, V64 b) {
    return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  };
  const V64 p0 = pair(v[0], v[1]), p1 = pair(v[2], v[3]), p2 = pair(v[4], v[5]), p3 = pair(v[6], v[7]);
  const auto halves = [&](V64 a, V64 b) {  // blocks a0+a2, a1+a3, b0+b2, b1+b3
    return hn::Add(hn::ConcatLowerLower(d, a, b), hn::ConcatUpperUpper(d, a, b));
  };
  const __m512d low = halves(p1, p0).raw, high = halves(p3, p2).raw;
  return hn::Add(V64{_mm512_shuffle_f64x2(low, high, 0x88)}, V64{_mm512_shuffle_f64x2(low, high, 0xDD)});
#elif HWY_TARGET == HWY_SCALAR
  (void)d;
  return v[0];
#else
  if constexpr (kLanes == 4) {
    const auto pair = [&](V64 a, V64 b) {
      return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    };
    const V64 low = pair(v[0], v[1]), high = pair(v[2], v[3]);
    return hn::Add(hn::ConcatUpperLower(d, high, low), hn::ConcatLowerUpper(d, high, low));
  } else if constexpr (kLanes == 2) {
    return hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  } else {
    HWY_ALIGN double out[kLanes];
    for (int n = 0; n < kLanes; ++n) out[n] = hn::GetLane(hn::SumOfLanes(d, v[n]));
    return hn::Load(d, out);
  }
#endif
}

// s[r][j] = sum_i q[r][i] k[j * k_ld + i] for kRows rows and kLanes keys from k on.
template <int kRows>
HWY_INLINE void dot_keys(const double* const* q, const double* k, std::size_t k_ld, std::size_t width,
                         double* const* s) {
  const F64 d;
  V64 acc[kRows * kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kLanes; ++i) acc[i] = hn::Zero(d);
  for (std::size_t i = 0; i < width; i += kLanes) {
    V64 row[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) row[r] = hn::Load(d, q[r] + i);
#pragma GCC unroll 8
    for (int n = 0; n < kLanes; ++n) {
      const V64 key = hn::Load(d, k + n * k_ld + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[r * kLanes + n] = hn::MulAdd(row[r], key, acc[r * kLanes + n]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) hn::Store(sums_of_lanes(acc + r * kLanes), d, s[r]);
}

// s[r] + j: rows `count` of q, `keys` keys (rounded up to kLanes; the tile is padded with zeros).
inline void dot_tile(const double* const* q, double* const* s, int count, const double* k, std::size_t k_ld,
                     int keys, std::size_t width) {
  for (int j = 0; j < keys; j += kLanes) {
    const double* key = k + static_cast<std::size_t>(j) * k_ld;
    int r = 0;
    for (; r + 2 <= count; r += 2) {
      double* out[2] = {s[r] + j, s[r + 1] + j};
      dot_keys<2>(q + r, key, k_ld, width, out);
    }
    if (r < count) {
      double* out[1] = {s[r] + j};
      dot_keys<1>(q + r, key, k_ld, width, out);
    }
  }
}

// high[j] + low[j] = q.k_j with an error of at most width^2 u^2 sum |q_i k_i|.
inline void dot_pairs(const double* q, const double* k, std::size_t k_ld, int keys, std::size_t width,
                      double* high, double* low) {
  const F64 d;
  constexpr int kTogether = kVectors < 4 ? 4 / kVectors : 1;
  for (int j = 0; j < keys; j += kTogether) {  // the tile has rows for a multiple of 8 keys
    V64 sum[kTogether * kVectors], rest[kTogether * kVectors];
#pragma GCC unroll 8
    for (int n = 0; n < kTogether * kVectors; ++n) sum[n] = rest[n] = hn::Zero(d);
    for (std::size_t i = 0; i < width; i += kSums) {
#pragma GCC unroll 8
      for (int n = 0; n < kTogether * kVectors; ++n) {
        const std::size_t at = i + static_cast<std::size_t>(n % kVectors * kLanes);
        const V64 row = hn::Load(d, q + at);
        const V64 key = hn::Load(d, k + static_cast<std::size_t>(j + n / kVectors) * k_ld + at);
        const V64 product = hn::Mul(row, key);
        const V64 product_low = fused_mul_add(d, row, key, hn::Neg(product));
        const V64 total = hn::Add(sum[n], product);
        const V64 seen = hn::Sub(total, sum[n]);
        const V64 lost = hn::Add(hn::Sub(sum[n], hn::Sub(total, seen)), hn::Sub(product, seen));
        sum[n] = total;
        rest[n] = hn::Add(rest[n], hn::Add(product_low, lost));
      }
    }
    HWY_ALIGN double a[kTogether * kSums], b[kTogether * kSums];
    for (int n = 0; n < kTogether * kVectors; ++n) {
      hn::Store(sum[n], d, a + n * kLanes);
      hn::Store(rest[n], d, b + n * kLanes);
    }
    for (int n = 0; n < kTogether; ++n) {
      double h = 0, l = 0;
      for (int i = n * kSums; i < (n + 1) * kSums; ++i) {
        const TwoDoubles t = assay::two_sum(h, a[i]);
        h = t.value;
        l += t.error + b[i];
      }
      const TwoDoubles t = assay::two_sum(h, l);
      high[j + n] = t.value;
      low[j + n] = t.error;
    }
  }
}

}  // namespace assay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
