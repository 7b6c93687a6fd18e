// Weighted sums of a tile of V: sum_j w[r][j] v[j][c], over the keys of one tile. Include inside a HWY
// foreach_target translation unit.
#if defined(ASSAY_ATTENTION_SUMS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_ATTENTION_SUMS_INL_HPP_
#undef ASSAY_ATTENTION_SUMS_INL_HPP_
#else
#define ASSAY_ATTENTION_SUMS_INL_HPP_
#endif

#include "reference/ops/attention/value/dot-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;
inline constexpr int kLanesF = HWY_LANES(float);

// high[r][c] + low[r][c] += sum over keys of w[r][j] v[j][c], kColumns vectors of columns from v on: fused
// operations inside the tile, TwoSum into the running pair. kCertified false: high alone.
template <int kRows, int kColumns, bool kCertified>
HWY_INLINE void weighted_sum(const double* const* w, const double* v, std::size_t v_ld, int keys,
                             double* const* high, double* const* low) {
  const F64 d;
  V64 acc[kRows * kColumns];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kColumns; ++i) acc[i] = hn::Zero(d);
  for (int j = 0; j < keys; ++j) {
    V64 value[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c)
      value[c] = hn::Load(d, v + static_cast<std::size_t>(j) * v_ld + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V64 weight = hn::Set(d, w[r][j]);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c)
        acc[r * kColumns + c] = hn::MulAdd(weight, value[c], acc[r * kColumns + c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const V64 a = hn::Load(d, high[r] + c * kLanes), b = acc[r * kColumns + c];
      const V64 total = hn::Add(a, b);
      hn::Store(total, d, high[r] + c * kLanes);
      if constexpr (kCertified) {
        const V64 seen = hn::Sub(total, a);
        const V64 lost = hn::Add(hn::Sub(a, hn::Sub(total, seen)), hn::Sub(b, seen));
        hn::Store(hn::Add(hn::Load(d, low[r] + c * kLanes), lost), d, low[r] + c * kLanes);
      }
    }
  }
}

// absolute[r][c] += sum_j w[r][j] a[j][c], deviation[r][c] += sum_j w[r][j] b[j][c], all f32 and
// non-negative.
template <int kRows, int kColumns>
HWY_INLINE void moment_sum(const float* const* w, const float* a, const float* b, std::size_t ld, int keys,
                           float* const* absolute, float* const* deviation) {
  const F32 d;
  V32 one[kRows * kColumns], two[kRows * kColumns];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kColumns; ++i) one[i] = two[i] = hn::Zero(d);
  for (int j = 0; j < keys; ++j) {
    const std::size_t at = static_cast<std::size_t>(j) * ld;
    V32 first[kColumns], second[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      first[c] = hn::Load(d, a + at + c * kLanesF);
      second[c] = hn::Load(d, b + at + c * kLanesF);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V32 weight = hn::Set(d, w[r][j]);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        one[r * kColumns + c] = hn::MulAdd(weight, first[c], one[r * kColumns + c]);
        two[r * kColumns + c] = hn::MulAdd(weight, second[c], two[r * kColumns + c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      float* p = absolute[r] + c * kLanesF;
      hn::Store(hn::Add(hn::Load(d, p), one[r * kColumns + c]), d, p);
      p = deviation[r] + c * kLanesF;
      hn::Store(hn::Add(hn::Load(d, p), two[r * kColumns + c]), d, p);
    }
  }
}

template <int kRows, int kColumns, bool kCertified>
HWY_INLINE void weighted_panel(const double* const* w, const double* v, std::size_t v_ld, int keys,
                               std::size_t c, double* const* high, double* const* low) {
  double* h[kRows];
  double* l[kRows];
  for (int r = 0; r < kRows; ++r) h[r] = high[r] + c, l[r] = low[r] + c;
  weighted_sum<kRows, kColumns, kCertified>(w, v + c, v_ld, keys, h, l);
}

template <int kColumns, bool kCertified>
HWY_INLINE void weighted_rows(const double* const* w, int count, const double* v, std::size_t v_ld, int keys,
                              std::size_t c, double* const* high, double* const* low) {
  // 16 accumulators with 32 registers.
  constexpr int kMost = 2 * kLanes / kColumns < 4 ? 2 * kLanes / kColumns : 4;
  int r = 0;
  if constexpr (kMost >= 4)
    for (; r + 4 <= count; r += 4)
      weighted_panel<4, kColumns, kCertified>(w + r, v, v_ld, keys, c, high + r, low + r);
  if constexpr (kMost >= 2)
    for (; r + 2 <= count; r += 2)
      weighted_panel<2, kColumns, kCertified>(w + r, v, v_ld, keys, c, high + r, low + r);
  for (; r < count; ++r) weighted_panel<1, kColumns, kCertified>(w + r, v, v_ld, keys, c, high + r, low + r);
}

template <bool kCertified>
void weighted_tile(const double* const* w, int count, const double* v, std::size_t v_ld, int keys,
                   std::size_t width, double* const* high, double* const* low) {
  std::size_t c = 0;
  if (count == 1)
    for (; c + 8 * kLanes <= width; c += 8 * kLanes)
      weighted_rows<8, kCertified>(w, count, v, v_ld, keys, c, high, low);
  for (; c + 4 * kLanes <= width; c += 4 * kLanes)
    weighted_rows<4, kCertified>(w, count, v, v_ld, keys, c, high, low);
  for (; c < width; c += kLanes) weighted_rows<1, kCertified>(w, count, v, v_ld, keys, c, high, low);
}

template <int kColumns>
HWY_INLINE void moment_rows(const float* const* w, int count, const float* a, const float* b, std::size_t ld,
                            int keys, std::size_t c, float* const* absolute, float* const* deviation) {
  const auto panel = [&](auto rows, int r) {
    constexpr int kRows = decltype(rows)::value;
    float* x[kRows];
    float* y[kRows];
    for (int i = 0; i < kRows; ++i) x[i] = absolute[r + i] + c, y[i] = deviation[r + i] + c;
    moment_sum<kRows, kColumns>(w + r, a + c, b + c, ld, keys, x, y);
  };
  constexpr int kMost = kLanes / kColumns;
  int r = 0;
  if constexpr (kMost >= 4)
    for (; r + 4 <= count; r += 4) panel(std::integral_constant<int, 4>{}, r);
  if constexpr (kMost >= 2)
    for (; r + 2 <= count; r += 2) panel(std::integral_constant<int, 2>{}, r);
  for (; r < count; ++r) panel(std::integral_constant<int, 1>{}, r);
}

inline void moment_tile(const float* const* w, int count, const float* a, const float* b, std::size_t ld,
                        int keys, std::size_t width, float* const* absolute, float* const* deviation) {
  std::size_t c = 0;
  for (; c + 2 * kLanesF <= width; c += 2 * kLanesF)
    moment_rows<2>(w, count, a, b, ld, keys, c, absolute, deviation);
  for (; c < width; c += kLanesF) moment_rows<1>(w, count, a, b, ld, keys, c, absolute, deviation);
}

}  // namespace assay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
