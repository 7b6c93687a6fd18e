// certified_exp: exp(hi + lo) in double with a proven relative error, scalar form. exp-inl.hpp holds the
// vector form; both perform the very same sequence of operations, so that they agree in every bit on every
// target.
//
//   k  = nearest integer to hi log2(e)                 (rounded by adding 1.5 * 2^52; |k| <= 1023)
//   rh = hi - k L,  L = fl(ln 2)                       exact, see (1)
//   rl = lo - k M,  M = fl(ln 2 - L)
//   r  = rh + rl,  z = r^2
//   y  = 1 + (rh + (rl + z q(r))),  q of degree 9, 1 + r + r^2 q(r) ~ exp(r)
//   exp(hi + lo) = y 2^k, formed as fma(y - 1, 2^k, 2^k), one rounding
//
// Proof of kExpRelativeError, for -708 <= hi <= 709, |lo| <= 2^-42 (half an ulp of hi is at most 2^-44):
// (1) fma(hi, log2 e, 1.5 * 2^52) rounds hi log2(e) to an integer with an error of at most 1/2 from the
// rounding and
//     |hi| 2^-54 < 2^-44 from the constant, so
//       |rh| <= ln2/2 (1 + 2^-43) + 2^-45 < kExpReducedMax.
//     If k = 0 then rh = hi. Otherwise |hi| > 0.34, so hi is a multiple of 2^-54, L is a multiple of 2^-53,
//     and their difference, below 1/2, is a multiple of 2^-54: it is a double, and the fma delivers it
//     exactly.
// (2) |rl| <= 2^-42 + 1023 * 2^-55.2 < 2^-41.5; its error is one rounding, 2^-53 |rl|, plus |k| |ln2 - L -
// M|. (3) With R the exact reduced argument, r = R + e1, e1 one rounding and (2). The computed y - 1 is
//       R + r^2 q(r) + e_s,
//     e_s the roundings of z, of the ten fma of q and z q + rl, and of rh + (...). Hence
//       y - exp(R) = [1 + r + r^2 q(r) - exp(r)] + [exp(r) - e1 - exp(r - e1)] + e_s;
//     the middle is at most |e1| |exp(r) - 1| + e1^2.
// (4) The last fma rounds y 2^k once; k >= -1022 (hi >= -708 > -1022.5 ln 2) so the result is normal and the
// relative
//     error of that rounding does not depend on k.
// exp_proof_test.cpp evaluates (2) to (4) on 4096 subintervals of |r| <= kExpReducedMax with outward-rounded
// MPFR intervals (q against a Taylor polynomial with its remainder) and asserts that the total, everywhere,
// is at most kExpRelativeError. The coefficients came from a weighted minimax fit; the proof does not depend
// on how.
//
// Outside that range: hi < -708 gives exactly 0 (absolute error below exp(-707.9) < 4e-308); hi > 709 gives
// +inf; NaN in hi propagates; no other input gives NaN, provided lo is finite.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace assay {

/// |certified_exp(hi, lo) / exp(hi + lo) - 1| <= kExpRelativeError for -708 <= hi <= 709, |lo| <= kExpLowMax.
inline constexpr double kExpRelativeError = 0x1.7p-53;
/// For hi below kExpMin the result is 0 and the absolute error at most this.
inline constexpr double kExpFlushError = 4e-308;
inline constexpr double kExpMin = -708.0;
inline constexpr double kExpMax = 709.0;
inline constexpr double kExpLowMax = 0x1p-42;

namespace exp_detail {
inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kLn2High = 0x1.62e42fefa39efp-1;  // L, 53 bits of ln 2
inline constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;  // M, the next 53
inline constexpr double kRoundToInteger = 0x1.8p52;       // its low 12 bits are 0: the sum's low bits are k
inline constexpr double kReducedMax = 0.34658;            // > ln2/2 (1 + 2^-43) + 2^-45 + 2^-41.5
inline constexpr double kQ[10] = {0x1.0000000000000p-1,  0x1.5555555555501p-3,  0x1.55555555531e2p-5,
                                  0x1.1111111128940p-7,  0x1.6c16c17ccd936p-10, 0x1.a01a011be2944p-13,
                                  0x1.a019ab0f87f19p-16, 0x1.71df55dc499ddp-19, 0x1.289fa607ea483p-22,
                                  0x1.ad1f07c3c1e43p-26};
}  // namespace exp_detail

/// exp(hi + lo); error and domain as above. For a plain argument leave lo out.
inline double certified_exp(double hi, double lo = 0.0) {
  using namespace exp_detail;
  const double shifted = std::fma(hi, kLog2E, kRoundToInteger);
  const double k = shifted - kRoundToInteger;
  const double rh = std::fma(-k, kLn2High, hi);
  const double rl = std::fma(-k, kLn2Low, lo);
  const double r = rh + rl;
  const double z = r * r;
  double q = std::fma(kQ[9], r, kQ[8]);
  q = std::fma(q, z, std::fma(kQ[7], r, kQ[6]));
  q = std::fma(q, z, std::fma(kQ[5], r, kQ[4]));
  q = std::fma(q, z, std::fma(kQ[3], r, kQ[2]));
  q = std::fma(q, z, std::fma(kQ[1], r, kQ[0]));
  const double y_minus_1 = rh + std::fma(q, z, rl);
  const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023u) << 52);
  double result = std::fma(y_minus_1, power, power);
  result = hi < kExpMin ? 0.0 : result;
  return hi > kExpMax ? std::numeric_limits<double>::infinity() : result;
}

}  // namespace assay
