// The Highway engines. This file is compiled once per instruction set by foreach_target.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/engine_simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <limits>
#include <vector>

#include "backends/cpu/engine.hpp"
#include "backends/cpu/engine_codes-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay_cpu {
namespace HWY_NAMESPACE {
namespace {

// The sum of the lanes, by halves as the schedules declare it: lane i and lane i + n/2 first. Highway's own
// order is that of each target, and NEON's adds neighbours.
template <class D>
HWY_INLINE float sum_of_lanes([[maybe_unused]] D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(v);
#elif HWY_HAVE_SCALABLE
  HWY_ALIGN float lane[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lane);
  for (std::size_t n = hn::Lanes(d) / 2; n > 0; n /= 2)
    for (std::size_t i = 0; i < n; ++i) lane[i] += lane[i + n];
  return lane[0];
#else
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return sum_of_lanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    v = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
  }
#endif
}

// e^x, relative error below kExpUlp ulp for x in [-104, 0] (checked there on every float); 0 below, NaN for
// NaN. x = n ln 2 + r, |r| <= ln 2 / 2: the polynomial is Taylor's to r^7 (remainder r^8 / 8! < 6e-9
// relative), and 2^n is applied as two factors so that a subnormal result is rounded once.
HWY_INLINE V exp_lanes(F f, V x) {
  const V held = hn::Min(hn::Max(x, hn::Set(f, -105.0F)), hn::Set(f, 90.0F));
  const V n = hn::Round(hn::Mul(held, hn::Set(f, 1.44269504F)));
  V r = hn::NegMulAdd(n, hn::Set(f, 0.693359375F), held);  // 10 bits: the product is exact
  r = hn::NegMulAdd(n, hn::Set(f, -2.12194440e-4F), r);
  V p = hn::Set(f, 1.0F / 5040);
  p = hn::MulAdd(p, r, hn::Set(f, 1.0F / 720));
  p = hn::MulAdd(p, r, hn::Set(f, 1.0F / 120));
  p = hn::MulAdd(p, r, hn::Set(f, 1.0F / 24));
  p = hn::MulAdd(p, r, hn::Set(f, 1.0F / 6));
  p = hn::MulAdd(p, r, hn::Set(f, 0.5F));
  p = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(f, 1.0F));
  const I i;
  const auto exponent = hn::ConvertTo(i, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto power = [&](auto e)
                         HWY_ATTR { return hn::BitCast(f, hn::ShiftLeft<23>(hn::Add(e, hn::Set(i, 127)))); };
  const V scaled = hn::Mul(hn::Mul(p, power(half)), power(hn::Sub(exponent, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, scaled);
}

float dot(const float* a, const float* b, std::size_t n) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  V s0 = hn::Zero(f), s1 = hn::Zero(f), s2 = hn::Zero(f), s3 = hn::Zero(f);
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(f, a + i), hn::LoadU(f, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(f, a + i + lanes), hn::LoadU(f, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(f, a + i + 2 * lanes), hn::LoadU(f, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(f, a + i + 3 * lanes), hn::LoadU(f, b + i + 3 * lanes), s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::MulAdd(hn::LoadU(f, a + i), hn::LoadU(f, b + i), s0);
  if (i < n) s1 = hn::MulAdd(load_tail(f, a + i, n - i), load_tail(f, b + i, n - i), s1);
  return sum_of_lanes(f, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

void dot_rows(const float* a, const float* rows, std::size_t stride, std::size_t count, std::size_t n,
              float* scores) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  std::size_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const float* b = rows + j * stride;
    V s0 = hn::Zero(f), s1 = hn::Zero(f), s2 = hn::Zero(f), s3 = hn::Zero(f);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      const V x = hn::LoadU(f, a + i);
      s0 = hn::MulAdd(x, hn::LoadU(f, b + i), s0);
      s1 = hn::MulAdd(x, hn::LoadU(f, b + stride + i), s1);
      s2 = hn::MulAdd(x, hn::LoadU(f, b + 2 * stride + i), s2);
      s3 = hn::MulAdd(x, hn::LoadU(f, b + 3 * stride + i), s3);
    }
    if (i < n) {
      const V x = load_tail(f, a + i, n - i);
      s0 = hn::MulAdd(x, load_tail(f, b + i, n - i), s0);
      s1 = hn::MulAdd(x, load_tail(f, b + stride + i, n - i), s1);
      s2 = hn::MulAdd(x, load_tail(f, b + 2 * stride + i, n - i), s2);
      s3 = hn::MulAdd(x, load_tail(f, b + 3 * stride + i, n - i), s3);
    }
    scores[j] = sum_of_lanes(f, s0);
    scores[j + 1] = sum_of_lanes(f, s1);
    scores[j + 2] = sum_of_lanes(f, s2);
    scores[j + 3] = sum_of_lanes(f, s3);
  }
  for (; j < count; ++j) scores[j] = dot(a, rows + j * stride, n);
}

void add_rows(const float* weights, const float* rows, std::size_t stride, std::size_t count, std::size_t n,
              float* y) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    V y0 = hn::LoadU(f, y + i), y1 = hn::LoadU(f, y + i + lanes);
    V y2 = hn::LoadU(f, y + i + 2 * lanes), y3 = hn::LoadU(f, y + i + 3 * lanes);
    for (std::size_t j = 0; j < count; ++j) {
      const V w = hn::Set(f, weights[j]);
      const float* row = rows + j * stride + i;
      y0 = hn::MulAdd(w, hn::LoadU(f, row), y0);
      y1 = hn::MulAdd(w, hn::LoadU(f, row + lanes), y1);
      y2 = hn::MulAdd(w, hn::LoadU(f, row + 2 * lanes), y2);
      y3 = hn::MulAdd(w, hn::LoadU(f, row + 3 * lanes), y3);
    }
    hn::StoreU(y0, f, y + i);
    hn::StoreU(y1, f, y + i + lanes);
    hn::StoreU(y2, f, y + i + 2 * lanes);
    hn::StoreU(y3, f, y + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) {
    V y0 = hn::LoadU(f, y + i);
    for (std::size_t j = 0; j < count; ++j) {
      y0 = hn::MulAdd(hn::Set(f, weights[j]), hn::LoadU(f, rows + j * stride + i), y0);
    }
    hn::StoreU(y0, f, y + i);
  }
  if (i < n) {
    V y0 = load_tail(f, y + i, n - i);
    for (std::size_t j = 0; j < count; ++j) {
      y0 = hn::MulAdd(hn::Set(f, weights[j]), load_tail(f, rows + j * stride + i, n - i), y0);
    }
    store_tail(y0, f, y + i, n - i);
  }
}

void scale(float factor, float* y, std::size_t n) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  const V w = hn::Set(f, factor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(f, y + i), w), f, y + i);
  for (; i < n; ++i) y[i] *= factor;
}

float max(const float* x, std::size_t n) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  V best = hn::Set(f, -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) best = hn::Max(hn::LoadU(f, x + i), best);
  float top = hn::GetLane(hn::MaxOfLanes(f, best));
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

float sum(const float* x, std::size_t n) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  V s0 = hn::Zero(f), s1 = hn::Zero(f);
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(f, x + i));
    s1 = hn::Add(s1, hn::LoadU(f, x + i + lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, hn::LoadU(f, x + i));
  if (i < n) s1 = hn::Add(s1, load_tail(f, x + i, n - i));
  return sum_of_lanes(f, hn::Add(s0, s1));
}

float sum_squares(const float* x, float shift, std::size_t n) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  const V c = hn::Set(f, shift);
  V s0 = hn::Zero(f), s1 = hn::Zero(f);
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = hn::Sub(hn::LoadU(f, x + i), c);
    const V b = hn::Sub(hn::LoadU(f, x + i + lanes), c);
    s0 = hn::MulAdd(a, a, s0);
    s1 = hn::MulAdd(b, b, s1);
  }
  for (; i + lanes <= n; i += lanes) {
    const V a = hn::Sub(hn::LoadU(f, x + i), c);
    s0 = hn::MulAdd(a, a, s0);
  }
  if (i < n) {
    const V a = hn::Sub(load_tail(f, x + i, n - i, shift), c);
    s1 = hn::MulAdd(a, a, s1);
  }
  return sum_of_lanes(f, hn::Add(s0, s1));
}

float exp_shift(const float* x, float shift, float* y, std::size_t n) {
  const F f;
  const std::size_t lanes = hn::Lanes(f);
  const V c = hn::Set(f, shift);
  V total = hn::Zero(f);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V e = exp_lanes(f, hn::Sub(hn::LoadU(f, x + i), c));
    hn::StoreU(e, f, y + i);
    total = hn::Add(total, e);
  }
  if (i < n) {
    const V e = exp_lanes(f, hn::Sub(load_tail(f, x + i, n - i, -std::numeric_limits<float>::infinity()), c));
    store_tail(e, f, y + i, n - i);
    total = hn::Add(total, load_tail(f, y + i, n - i));
  }
  return sum_of_lanes(f, total);
}

std::int32_t dot_int8(const std::int8_t* a, const std::int8_t* b, std::size_t n) {
  const hn::ScalableTag<std::int32_t> i32;
  const hn::Rebind<std::int8_t, decltype(i32)> i8;
  const std::size_t lanes = hn::Lanes(i32);
  auto total = hn::Zero(i32);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::PromoteTo(i32, hn::LoadU(i8, a + i));
    const auto y = hn::PromoteTo(i32, hn::LoadU(i8, b + i));
    total = hn::Add(total, hn::Mul(x, y));
  }
  std::int32_t result = hn::GetLane(hn::SumOfLanes(i32, total));
  for (; i < n; ++i) result += std::int32_t{a[i]} * b[i];
  return result;
}

#if HWY_TARGET == HWY_AVX3_SPR
#define ASSAY_TARGET_NAME "avx3_spr"
#elif HWY_TARGET == HWY_AVX3_ZEN4
#define ASSAY_TARGET_NAME "avx3_zen4"
#elif HWY_TARGET == HWY_AVX3_DL
#define ASSAY_TARGET_NAME "avx3_dl"
#elif HWY_TARGET == HWY_AVX3
#define ASSAY_TARGET_NAME "avx3"
#elif HWY_TARGET == HWY_AVX2
#define ASSAY_TARGET_NAME "avx2"
#elif HWY_TARGET == HWY_SSE4
#define ASSAY_TARGET_NAME "sse4"
#elif HWY_TARGET == HWY_SSSE3
#define ASSAY_TARGET_NAME "ssse3"
#elif HWY_TARGET == HWY_SSE2
#define ASSAY_TARGET_NAME "sse2"
#elif HWY_TARGET == HWY_NEON
#define ASSAY_TARGET_NAME "neon"
#elif HWY_TARGET == HWY_NEON_WITHOUT_AES
#define ASSAY_TARGET_NAME "neon_without_aes"
#elif HWY_TARGET == HWY_NEON_BF16
#define ASSAY_TARGET_NAME "neon_bf16"
#elif HWY_TARGET == HWY_SVE
#define ASSAY_TARGET_NAME "sve"
#elif HWY_TARGET == HWY_SVE2
#define ASSAY_TARGET_NAME "sve2"
#elif HWY_TARGET == HWY_SVE_256
#define ASSAY_TARGET_NAME "sve_256"
#elif HWY_TARGET == HWY_SVE2_128
#define ASSAY_TARGET_NAME "sve2_128"
#elif HWY_TARGET == HWY_EMU128
#define ASSAY_TARGET_NAME "emu128"
#else
#define ASSAY_TARGET_NAME "hwy_scalar"
#endif
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE2 || \
    HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
constexpr bool kFma = false;
#else
constexpr bool kFma = true;
#endif

}  // namespace

const Engine* engine() {
  static const Engine table = {
      .name = ASSAY_TARGET_NAME,
      .fma = kFma,
      .sum_lanes = static_cast<int>(2 * hn::Lanes(F())),
      .exp_lanes = static_cast<int>(hn::Lanes(F())),
      .exp_ulp = 2,
      .dot_lanes = hn::Lanes(F()),
      .dot = dot,
      .dot_rows = dot_rows,
      .add_rows = add_rows,
      .scale = scale,
      .max = max,
      .sum = sum,
      .sum_squares = sum_squares,
      .exp_shift = exp_shift,
      .dot_int8 = dot_int8,
      .from_f16 = from_f16,
      .from_bf16 = from_bf16,
      .from_e4m3fn = from_e4m3fn,
      .from_e4m3fnuz = from_e4m3fnuz,
      .from_e5m2 = from_e5m2,
      .from_int8 = from_int8,
      .to_f16 = to_f16,
      .to_bf16 = to_bf16,
  };
  return &table;
}
#undef ASSAY_TARGET_NAME

}  // namespace HWY_NAMESPACE
}  // namespace assay_cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay_cpu {

HWY_EXPORT(engine);

std::span<const Engine* const> simd_engines() {
  static const std::vector<const Engine*> engines = [] {
    std::vector<const Engine*> found;
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
    found.push_back(HWY_STATIC_DISPATCH(engine)());
#else
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {  // best first
      hwy::ChosenTarget one;
      one.Update(target);
      found.push_back(HWY_DISPATCH_TABLE(engine)[one.GetIndex()]());
    }
#endif
    return found;
  }();
  return engines;
}

}  // namespace assay_cpu
#endif
