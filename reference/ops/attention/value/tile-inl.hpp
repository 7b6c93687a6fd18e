// Decoding a tile of K or V: codes become doubles in registers, with what the exactness check and the moments
// need gathered on the way. Include inside a HWY foreach_target translation unit.
#if defined(ASSAY_ATTENTION_TILE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_ATTENTION_TILE_INL_HPP_
#undef ASSAY_ATTENTION_TILE_INL_HPP_
#else
#define ASSAY_ATTENTION_TILE_INL_HPP_
#endif

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/ops/attention/value/dot-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using attention_detail::Codes;
using attention_detail::Source;
using attention_detail::Tile;

inline constexpr bool is_float8(Codes codes) {
  return codes == Codes::e4m3fn || codes == Codes::e4m3fnuz || codes == Codes::e5m2;
}

// What the largest code of a row tells.
struct CodeFacts {
  std::uint16_t largest = 0;  // |code|: the codes of these formats ascend with the number
  bool special = false;       // a code that is no finite number was met
};

// 8-bit floats moved into the fields of an f16 (sign, exponent and fraction keep their meaning, subnormals
// included), which scales them by 2^-8 (e4m3fn, bias 7 against 15), 2^-7 (e4m3fnuz) or 1 (e5m2). Writes whole
// vectors of 16-bit numbers from `half` on; reads exactly `width` codes.
template <Codes kCodes>
HWY_INLINE CodeFacts widen_float8(const std::byte* src, std::size_t width, std::uint16_t* half) {
  const hn::ScalableTag<std::uint16_t> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  constexpr std::size_t kStep = HWY_LANES(std::uint16_t);
  auto largest = hn::Zero(d16), minus_zero = hn::Zero(d16);
  const auto low7 = hn::Set(d16, std::uint16_t{0x7f}), sign_bit = hn::Set(d16, std::uint16_t{0x8000});
  const auto step = [&](const std::uint8_t* p, std::uint16_t* to) HWY_ATTR {
    const auto code = hn::PromoteTo(d16, hn::LoadU(d8, p));
    const auto magnitude = hn::And(code, low7);
    largest = hn::Max(largest, magnitude);
    // 0x80 ^ 0x7f = 0xff is the largest that this can be: the one NaN of fnuz formats
    if constexpr (kCodes == Codes::e4m3fnuz) minus_zero = hn::Max(minus_zero, hn::Xor(code, low7));
    const auto shifted = hn::ShiftLeft<8>(code);
    if constexpr (kCodes == Codes::e5m2)
      hn::StoreU(shifted, d16, to);
    else
      hn::StoreU(hn::Or(hn::And(shifted, sign_bit), hn::ShiftLeft<7>(magnitude)), d16, to);
  };
  const auto* codes = reinterpret_cast<const std::uint8_t*>(src);
  std::size_t i = 0;
  for (; i + kStep <= width; i += kStep) step(codes + i, half + i);
  if (i < width) {
    std::uint8_t tail[kStep] = {};
    std::copy(codes + i, codes + width, tail);
    step(tail, half + i);
  }
  CodeFacts facts;
  facts.largest = hn::GetLane(hn::MaxOfLanes(d16, largest));
  facts.special = kCodes == Codes::e4m3fn     ? facts.largest == 0x7f
                  : kCodes == Codes::e4m3fnuz ? hn::GetLane(hn::MaxOfLanes(d16, minus_zero)) == 0xff
                                              : facts.largest >= 0x7c;
  return facts;
}

// The largest |code| of 16-bit floats: their codes, too, ascend with the number; NaN above Inf above all.
HWY_INLINE std::uint16_t largest_code16(const std::byte* src, std::size_t width) {
  const hn::ScalableTag<std::uint16_t> d16;
  constexpr std::size_t kStep = HWY_LANES(std::uint16_t);
  const auto magnitude = hn::Set(d16, std::uint16_t{0x7fff});
  const auto* codes = reinterpret_cast<const std::uint16_t*>(src);
  auto largest = hn::Zero(d16);
  std::size_t i = 0;
  for (; i + kStep <= width; i += kStep)
    largest = hn::Max(largest, hn::And(hn::LoadU(d16, codes + i), magnitude));
  std::uint16_t top = hn::GetLane(hn::MaxOfLanes(d16, largest));
  for (; i < width; ++i) top = std::max(top, static_cast<std::uint16_t>(codes[i] & 0x7fff));
  return top;
}

// kLanes elements from p on; 8-bit floats have been widened.
template <Codes kCodes>
HWY_INLINE V64 load_codes(const std::byte* p) {
  const F64 d;
  const hn::Rebind<float, F64> df;
  if constexpr (kCodes == Codes::int8) {
    const hn::Rebind<std::int8_t, F64> d8;
    const hn::Rebind<std::int32_t, F64> d32;
    return hn::PromoteTo(d, hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(p))));
  } else if constexpr (kCodes == Codes::bf16) {
    const hn::Rebind<std::uint16_t, F64> d16;
    const hn::Rebind<std::uint32_t, F64> d32;
    const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p)));
    return hn::PromoteTo(d, hn::BitCast(df, hn::ShiftLeft<16>(bits)));
  } else if constexpr (kCodes == Codes::f32) {
    return hn::PromoteTo(d, hn::LoadU(df, reinterpret_cast<const float*>(p)));
  } else if constexpr (kCodes == Codes::other) {
    return hn::LoadU(d, reinterpret_cast<const double*>(p));
  } else {
    // As integers: of two f16 Highway 1.0.3 has two loads on ARM.
    const hn::Rebind<std::uint16_t, F64> d16;
    const hn::Rebind<hwy::float16_t, F64> dh;
    const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
    return hn::PromoteTo(d, hn::PromoteTo(df, hn::BitCast(dh, bits)));
  }
}

// Gathered over a row.
struct RowFacts {
  double squares = 0;  // sum x^2 (f64, relative error below 2^-40)
  double largest = 0;  // max |x|
  bool finite = true;
};

// dst[i] = number of element i * multiplier, i < width; the rest up to `padded` is 0.
template <Codes kCodes, bool kFacts, bool kScaled>
HWY_INLINE RowFacts decode_row_as(const std::byte* src, std::size_t width, std::size_t padded,
                                  double multiplier, double* dst) {
  const F64 d;
  constexpr std::size_t kBytes = kCodes == Codes::int8    ? 1
                                 : kCodes == Codes::f32   ? 4
                                 : kCodes == Codes::other ? 8
                                                          : 2;
  constexpr bool kByCode = is_float8(kCodes) || kCodes == Codes::f16 || kCodes == Codes::bf16;
  RowFacts facts;
  std::size_t at = 0;
  // 8-bit floats go through a buffer of f16 numbers, kChunk at a time.
  constexpr std::size_t kChunk = 512;
  alignas(64) std::uint16_t half[kChunk + HWY_LANES(std::uint16_t)];
  V64 squares[kVectors], largest = hn::Zero(d), bad = hn::Zero(d);
  for (V64& s : squares) s = hn::Zero(d);
  const V64 scale = hn::Set(d, multiplier);
  std::uint16_t largest_code = 0;
  while (at < width) {
    const std::size_t count = is_float8(kCodes) ? std::min(kChunk, width - at) : width;
    const std::byte* from = src + at * kBytes;
    if constexpr (is_float8(kCodes)) {
      const CodeFacts code = widen_float8<kCodes>(src + at, count, half);
      largest_code = std::max(largest_code, code.largest);
      facts.finite &= !code.special;
      from = reinterpret_cast<const std::byte*>(half);
    }
    double* to = dst + at;
    const auto step = [&](const std::byte* p, std::size_t i, [[maybe_unused]] V64& square) HWY_ATTR {
      V64 x = load_codes<kCodes>(p);
      if constexpr (kScaled) x = hn::Mul(x, scale);
      hn::Store(x, d, to + i);
      if constexpr (kFacts) square = hn::MulAdd(x, x, square);
      if constexpr (!kByCode) {
        if constexpr (kCodes != Codes::int8) bad = hn::MulAdd(x, hn::Zero(d), bad);
        largest = hn::Max(largest, hn::Abs(x));
      }
    };
    std::size_t i = 0;
    for (; i + kSums <= count; i += kSums) {
#pragma GCC unroll 8
      for (int n = 0; n < kVectors; ++n) {
        const std::size_t first = i + static_cast<std::size_t>(n * kLanes);
        step(from + first * kBytes, first, squares[n]);
      }
    }
    int n = 0;
    for (; i + kLanes <= count; i += kLanes) step(from + i * kBytes, i, squares[n++]);
    if (i < count) {
      alignas(64) std::byte tail[kLanes * 8] = {};
      std::copy(from + i * kBytes, from + count * kBytes, tail);
      step(tail, i, squares[n]);
    }
    at += count;
  }
  for (std::size_t i = (width + kLanes - 1) / kLanes * kLanes; i < padded; i += kLanes)
    hn::Store(hn::Zero(d), d, dst + i);
  if constexpr (kFacts) facts.squares = sum_of_sums(squares);
  if constexpr (kByCode) {  // the number with that magnitude
    constexpr bool kBf16 = kCodes == Codes::bf16;
    std::uint16_t bits = largest_code;
    if constexpr (is_float8(kCodes)) {
      bits = static_cast<std::uint16_t>(bits << (kCodes == Codes::e5m2 ? 8 : 7));
    } else {
      bits = largest_code16(src, width);
      facts.finite = bits < (kBf16 ? 0x7f80 : 0x7c00);
    }
    // Scalar: a vector load of what was just stored in part would stall on it, once per row.
    const auto exponent = static_cast<unsigned>(bits >> 10);
    const double f16 =
        exponent == 0
            ? bits * 0x1p-24
            : static_cast<double>(std::uint64_t{(bits & 0x3ffu) + 1024u} << (exponent - 1)) * 0x1p-24;
    facts.largest = (kBf16 ? static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16)) : f16) *
                    std::fabs(multiplier);
  } else {
    facts.largest = hn::GetLane(hn::MaxOfLanes(d, largest));
    if constexpr (kCodes != Codes::int8) facts.finite = hn::GetLane(hn::SumOfLanes(d, bad)) == 0;
  }
  return facts;
}

template <Codes kCodes, bool kFacts>
HWY_INLINE RowFacts decode_row(const std::byte* src, std::size_t width, std::size_t padded, double multiplier,
                               double* dst) {
  return multiplier == 1 ? decode_row_as<kCodes, kFacts, false>(src, width, padded, multiplier, dst)
                         : decode_row_as<kCodes, kFacts, true>(src, width, padded, multiplier, dst);
}

template <bool kFacts>
RowFacts decode_any(Codes codes, const std::byte* src, std::size_t width, std::size_t padded,
                    double multiplier, double* dst) {
  switch (codes) {
    case Codes::e4m3fn:
      return decode_row<Codes::e4m3fn, kFacts>(src, width, padded, multiplier, dst);
    case Codes::e4m3fnuz:
      return decode_row<Codes::e4m3fnuz, kFacts>(src, width, padded, multiplier, dst);
    case Codes::e5m2:
      return decode_row<Codes::e5m2, kFacts>(src, width, padded, multiplier, dst);
    case Codes::int8:
      return decode_row<Codes::int8, kFacts>(src, width, padded, multiplier, dst);
    case Codes::f16:
      return decode_row<Codes::f16, kFacts>(src, width, padded, multiplier, dst);
    case Codes::bf16:
      return decode_row<Codes::bf16, kFacts>(src, width, padded, multiplier, dst);
    case Codes::f32:
      return decode_row<Codes::f32, kFacts>(src, width, padded, multiplier, dst);
    case Codes::other:
      return decode_row<Codes::other, kFacts>(src, width, padded, multiplier, dst);
  }
  return {};
}

// Are all of x multiples of 2^lsb? |x| <= 2^(51+lsb): adding and taking away 1.5 * 2^(52+lsb) rounds to such
// multiples.
inline bool multiples_of(int lsb, const double* x, std::size_t ld, int rows, std::size_t width) {
  if (lsb < -900 || lsb > 900) return false;
  const F64 d;
  const V64 magic = hn::Set(d, std::ldexp(1.5, 52 + lsb));
  auto differs = hn::Zero(d);
  for (int r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < width; i += kLanes) {
      const V64 v = hn::Load(d, x + static_cast<std::size_t>(r) * ld + i);
      differs = hn::Or(differs, hn::Sub(hn::Sub(hn::Add(v, magic), magic), v));
    }
  return hn::AllTrue(d, hn::Eq(differs, hn::Zero(d)));
}

// v_abs, v_dev and v_sum of a tile, from v.
inline void moment_inputs(Tile& tile, const double* centre, std::size_t width) {
  const F64 d;
  const hn::Rebind<float, F64> df;
  for (std::size_t c = 0; c < width; c += kLanes) {
    const V64 middle = hn::Load(d, centre + c);
    auto sum = hn::Zero(df);
    for (int j = 0; j < tile.keys; ++j) {
      const V64 v = hn::Load(d, tile.v.get() + static_cast<std::size_t>(j) * tile.v_ld + c);
      const auto magnitude = hn::DemoteTo(df, hn::Abs(v));
      sum = hn::Add(sum, magnitude);
      hn::Store(magnitude, df, tile.v_abs.get() + static_cast<std::size_t>(j) * tile.vf_ld + c);
      hn::Store(hn::DemoteTo(df, hn::Abs(hn::Sub(v, middle))), df,
                tile.v_dev.get() + static_cast<std::size_t>(j) * tile.vf_ld + c);
    }
    hn::Store(sum, df, tile.v_sum.get() + c);
  }
}

}  // namespace assay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
