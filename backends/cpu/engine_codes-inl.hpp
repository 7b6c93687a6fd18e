// Lanes, tails and number formats of one Highway target: codes to f32 and back. Included once per target.
#if defined(ASSAY_CPU_ENGINE_CODES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_CPU_ENGINE_CODES_INL
#undef ASSAY_CPU_ENGINE_CODES_INL
#else
#define ASSAY_CPU_ENGINE_CODES_INL
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/codecs.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay_cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F = hn::ScalableTag<float>;
using I = hn::RebindToSigned<F>;
using U = hn::RebindToUnsigned<F>;
using V = hn::Vec<F>;

// The last n < Lanes elements, `rest` beyond them; reads nothing behind them.
HWY_INLINE V load_tail(F f, const float* p, std::size_t n, float rest = 0) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(hn::Set(f, rest), f, lanes);
  std::memcpy(lanes, p, n * sizeof(float));
  return hn::Load(f, lanes);
}

HWY_INLINE void store_tail(V v, F f, float* p, std::size_t n) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, f, lanes);
  std::memcpy(p, lanes, n * sizeof(float));
}

// A code's fields moved to an f32's stand for its value times 2^-kRebias, subnormals included.
template <class Code, int kBits, int kShift, int kRebias, int kNanFrom>
HWY_INLINE V small_lanes(F f, hn::Vec<hn::Rebind<Code, F>> codes) {
  const U u;
  const auto bits = hn::PromoteTo(u, codes);
  const auto magnitude = hn::And(bits, hn::Set(u, (1U << (kBits - 1)) - 1));
  const auto sign = hn::ShiftLeft<32 - kBits>(hn::AndNot(hn::Set(u, (1U << (kBits - 1)) - 1), bits));
  const V factor = hn::BitCast(f, hn::Set(u, static_cast<std::uint32_t>(127 + kRebias) << 23));
  V value = hn::Mul(hn::BitCast(f, hn::ShiftLeft<kShift>(magnitude)), factor);
  if constexpr (kNanFrom > 0) {  // from this magnitude on: Inf (fraction 0) and NaN keep their fraction
    const V special = hn::BitCast(f, hn::Or(hn::ShiftLeft<kShift>(magnitude), hn::Set(u, 0x7F800000U)));
    const I i;
    const auto high = hn::Gt(hn::BitCast(i, magnitude), hn::Set(i, kNanFrom - 1));
    value = hn::IfThenElse(hn::RebindMask(f, high), special, value);
  }
  value = hn::BitCast(f, hn::Or(hn::BitCast(u, value), sign));
  if constexpr (kNanFrom < 0) {  // the code of -0 is NaN
    const V nan = hn::BitCast(f, hn::Set(u, 0x7FC00000U));
    value = hn::IfThenElse(hn::RebindMask(f, hn::Eq(bits, hn::Set(u, 1U << (kBits - 1)))), nan, value);
  }
  return value;
}

template <class Code, class Lanes>
HWY_INLINE void widen(const void* codes, float* y, std::size_t n, const Lanes& decode) {
  const F f;
  const hn::Rebind<Code, F> narrow;
  const std::size_t lanes = hn::Lanes(f);
  const Code* from = static_cast<const Code*>(codes);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(decode(f, hn::LoadU(narrow, from + i)), f, y + i);
  if (i < n) {
    HWY_ALIGN Code tail[HWY_MAX_BYTES / sizeof(Code)] = {};
    std::memcpy(tail, from + i, (n - i) * sizeof(Code));
    store_tail(decode(f, hn::Load(narrow, tail)), f, y + i, n - i);
  }
}

void from_f16(const void* codes, float* y, std::size_t n) {
  widen<std::uint16_t>(codes, y, n, [](F f, auto v) HWY_ATTR {
    return small_lanes<std::uint16_t, 16, 13, 112, 0x7C00>(f, v);
  });
}
void from_bf16(const void* codes, float* y, std::size_t n) {
  widen<std::uint16_t>(codes, y, n, [](F f, auto v) HWY_ATTR {
    return hn::BitCast(f, hn::ShiftLeft<16>(hn::PromoteTo(U(), v)));
  });
}
void from_e4m3fn(const void* codes, float* y, std::size_t n) {
  widen<std::uint8_t>(codes, y, n,
                      [](F f, auto v) HWY_ATTR { return small_lanes<std::uint8_t, 8, 20, 120, 0x7F>(f, v); });
}
void from_e4m3fnuz(const void* codes, float* y, std::size_t n) {
  widen<std::uint8_t>(codes, y, n,
                      [](F f, auto v) HWY_ATTR { return small_lanes<std::uint8_t, 8, 20, 119, -1>(f, v); });
}
void from_e5m2(const void* codes, float* y, std::size_t n) {
  widen<std::uint8_t>(codes, y, n,
                      [](F f, auto v) HWY_ATTR { return small_lanes<std::uint8_t, 8, 21, 112, 0x7C>(f, v); });
}
void from_int8(const void* codes, float* y, std::size_t n) {
  widen<std::int8_t>(codes, y, n,
                     [](F f, auto v) HWY_ATTR { return hn::ConvertTo(f, hn::PromoteTo(I(), v)); });
}

void to_f16(const float* x, void* codes, std::size_t n) {
  const F f;
  const U u;
  const hn::Rebind<std::uint16_t, F> narrow;
  const std::size_t lanes = hn::Lanes(f);
  std::uint16_t* to = static_cast<std::uint16_t*>(codes);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::BitCast(u, hn::LoadU(f, x + i));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 0x8000U));
    const auto magnitude = hn::And(bits, hn::Set(u, 0x7FFFFFFFU));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u, 1U));
    auto code = hn::ShiftRight<13>(
        hn::Sub(hn::Add(hn::Add(magnitude, hn::Set(u, 0xFFFU)), odd), hn::Set(u, 0x38000000U)));
    const auto small = hn::Sub(hn::BitCast(u, hn::Add(hn::BitCast(f, magnitude), hn::Set(f, 0.5F))),
                               hn::Set(u, 0x3F000000U));
    code = hn::IfThenElse(hn::Lt(magnitude, hn::Set(u, 0x38800000U)), small, code);
    code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u, 0x477FEFFFU)), hn::Set(u, 0x7C00U), code);
    code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(u, 0x7F800000U)), hn::Set(u, 0x7E00U), code);
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(I(), hn::Or(code, sign))), narrow, to + i);
  }
  for (; i < n; ++i) to[i] = f16_code(x[i]);
}

void to_bf16(const float* x, void* codes, std::size_t n) {
  const F f;
  const U u;
  const hn::Rebind<std::uint16_t, F> narrow;
  const std::size_t lanes = hn::Lanes(f);
  std::uint16_t* to = static_cast<std::uint16_t*>(codes);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::BitCast(u, hn::LoadU(f, x + i));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1U));
    auto code = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(u, 0x7FFFU)), odd));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(u, 0x40U));
    code =
        hn::IfThenElse(hn::Gt(hn::And(bits, hn::Set(u, 0x7FFFFFFFU)), hn::Set(u, 0x7F800000U)), quiet, code);
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(I(), code)), narrow, to + i);
  }
  for (; i < n; ++i) to[i] = bf16_code(x[i]);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay_cpu
HWY_AFTER_NAMESPACE();
#endif
