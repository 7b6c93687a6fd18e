// certified_exp for Highway vectors of double: formula, domain and proof are in exp.hpp, and so is the order
// of operations, which this repeats one for one. Include inside a HWY foreach_target translation unit.
#if defined(ASSAY_REFERENCE_REAL_EXP_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_REFERENCE_REAL_EXP_INL_HPP_
#undef ASSAY_REFERENCE_REAL_EXP_INL_HPP_
#else
#define ASSAY_REFERENCE_REAL_EXP_INL_HPP_
#endif

#include <limits>

#include "hwy/highway.h"
#include "reference/real/exp.hpp"
#include "reference/real/fma-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

/// exp(hi + lo) lane by lane, relative error at most kExpRelativeError: see exp.hpp.
template <class D, class V>
HWY_INLINE V certified_exp(D d, V hi, V lo) {
  namespace hn = hwy::HWY_NAMESPACE;
  using namespace exp_detail;
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, kRoundToInteger);
  const V shifted = fused_mul_add(d, hi, hn::Set(d, kLog2E), magic);
  const V k = hn::Sub(shifted, magic);
  const V rh = fused_mul_add(d, k, hn::Set(d, -kLn2High), hi);
  const V rl = fused_mul_add(d, k, hn::Set(d, -kLn2Low), lo);
  const V r = hn::Add(rh, rl);
  const V z = hn::Mul(r, r);
  V q = fused_mul_add(d, hn::Set(d, kQ[9]), r, hn::Set(d, kQ[8]));
  q = fused_mul_add(d, q, z, fused_mul_add(d, hn::Set(d, kQ[7]), r, hn::Set(d, kQ[6])));
  q = fused_mul_add(d, q, z, fused_mul_add(d, hn::Set(d, kQ[5]), r, hn::Set(d, kQ[4])));
  q = fused_mul_add(d, q, z, fused_mul_add(d, hn::Set(d, kQ[3]), r, hn::Set(d, kQ[2])));
  q = fused_mul_add(d, q, z, fused_mul_add(d, hn::Set(d, kQ[1]), r, hn::Set(d, kQ[0])));
  const V y_minus_1 = hn::Add(rh, fused_mul_add(d, q, z, rl));
  const auto biased = hn::Add(hn::BitCast(du, shifted), hn::Set(du, 1023u));
  const V power = hn::BitCast(d, hn::ShiftLeft<52>(biased));
  const V result = fused_mul_add(d, y_minus_1, power, power);
  const V low = hn::IfThenZeroElse(hn::Lt(hi, hn::Set(d, kExpMin)), result);
  return hn::IfThenElse(hn::Gt(hi, hn::Set(d, kExpMax)), hn::Set(d, std::numeric_limits<double>::infinity()),
                        low);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
