// Fused multiply-add and the error-free transformations for Highway vectors of double; conditions as in
// eft.hpp. Include inside a HWY foreach_target translation unit.
#if defined(ASSAY_REFERENCE_REAL_FMA_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_REFERENCE_REAL_FMA_INL_HPP_
#undef ASSAY_REFERENCE_REAL_FMA_INL_HPP_
#else
#define ASSAY_REFERENCE_REAL_FMA_INL_HPP_
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

/// a b + c with one rounding on every target. Targets without an FMA instruction take the C library's exact
/// fma lane by lane: slow, but the same bits.
template <class D, class V>
HWY_INLINE V fused_mul_add(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hwy::HWY_NAMESPACE::MulAdd(a, b, c);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  HWY_ALIGN double la[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN double lb[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN double lc[HWY_MAX_BYTES / sizeof(double)];
  hn::Store(a, d, la);
  hn::Store(b, d, lb);
  hn::Store(c, d, lc);
  for (size_t i = 0; i < hn::Lanes(d); ++i) la[i] = std::fma(la[i], lb[i], lc[i]);
  return hn::Load(d, la);
#endif
}

/// sum = fl(a + b) and error with sum + error = a + b.
template <class V>
HWY_INLINE V two_sum(V a, V b, V& error) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V sum = hn::Add(a, b);
  const V b_seen = hn::Sub(sum, a);
  error = hn::Add(hn::Sub(a, hn::Sub(sum, b_seen)), hn::Sub(b, b_seen));
  return sum;
}

/// product = fl(a b) and error with product + error = a b.
template <class D, class V>
HWY_INLINE V two_prod(D d, V a, V b, V& error) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V product = hn::Mul(a, b);
#if HWY_NATIVE_FMA
  (void)d;
  error = hn::MulSub(a, b, product);
#else
  error = fused_mul_add(d, a, b, hn::Neg(product));
#endif
  return product;
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#endif  // include guard, once per target
