// The soft cap of a pair of doubles: softcap * tanh((x + e) / softcap) as a pair again. Include inside a HWY
// foreach_target translation unit. The table is in tanh_table.hpp.
//
// With y = |x + e| / softcap, t = tanh(n / 64) for the nearest n, r = y - n / 64, |r| <= 1/128:
//   tanh(y) = t + (1 - t^2) tanh(r) / (1 + t tanh(r))
//   tanh(r) = r - r^3/3 + 2 r^5/15 - 17 r^7/315
// t is a pair, 1 - t^2 is rounded once. Only the second term, below 1.016/128, is computed with roundings:
//   r                                                             1
//   the series (its remainder 62/2835 r^9 is below 2^-68)         2
//   the table and the product                                     2
//   the denominator                                               2
//   the quotient                                                  1
//   added to the low part of t                                    1
// together 9 u 1.016/128 < 0.072 u, then times softcap with one more rounding of a term below softcap/128. So
// the error is below 0.08 u softcap < kCapError softcap; tanh is a contraction, so errors of x pass on
// undiminished at most. y >= 22 is taken as 22: tanh differs by less than 2e-19 = 0.002 u.
#if defined(ASSAY_ATTENTION_TANH_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_ATTENTION_TANH_INL_HPP_
#undef ASSAY_ATTENTION_TANH_INL_HPP_
#else
#define ASSAY_ATTENTION_TANH_INL_HPP_
#endif

#include "hwy/highway.h"
#include "reference/ops/attention/value/tanh_table.hpp"
#include "reference/real/fma-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE void soft_cap(D d, double softcap, V& x, V& e) {
  const TanhTable& table = tanh_table();
  const V cap = hn::Set(d, softcap), zero = hn::Zero(d), one = hn::Set(d, 1.0);
  const auto negative = hn::Lt(x, zero);
  const V a = hn::Abs(x);
  const V a_low = hn::IfThenElse(negative, hn::Neg(e), e);
  const V y_full = hn::Div(a, cap);
  const V y_low = hn::Div(hn::Add(fused_mul_add(d, hn::Neg(y_full), cap, a), a_low), cap);
  const auto beyond = hn::Gt(y_full, hn::Set(d, 22.0));
  const V y = hn::IfThenElse(beyond, hn::Set(d, 22.0), y_full);
  const V n = hn::Round(hn::Mul(y, hn::Set(d, 64.0)));
  const V r = hn::IfThenZeroElse(beyond, hn::Add(hn::Sub(y, hn::Mul(n, hn::Set(d, 1.0 / 64))), y_low));
  const hn::RebindToSigned<D> di;
  const auto index = hn::ConvertTo(di, n);
  const V t = hn::GatherIndex(d, table.high, index);
  const V t_low = hn::GatherIndex(d, table.low, index);
  const V gap = hn::GatherIndex(d, table.one_minus_square, index);
  const V z = hn::Mul(r, r);
  V series = hn::MulAdd(z, hn::Set(d, -17.0 / 315), hn::Set(d, 2.0 / 15));
  series = hn::MulAdd(z, series, hn::Set(d, -1.0 / 3));
  const V th = hn::MulAdd(hn::Mul(r, z), series, r);
  const V rest = hn::Add(t_low, hn::Div(hn::Mul(gap, th), hn::MulAdd(t, th, one)));
  V p_low, s_low;
  const V p = two_prod(d, cap, t, p_low);
  const V s = two_sum(p, hn::Mul(cap, rest), s_low);
  const V low = hn::Add(p_low, s_low);
  x = hn::IfThenElse(negative, hn::Neg(s), s);
  e = hn::IfThenElse(negative, hn::Neg(low), low);
}

}  // namespace assay::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
