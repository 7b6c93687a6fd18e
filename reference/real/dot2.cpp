#include "reference/real/dot2.hpp"

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/real/eft.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/real/dot2.cpp"
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)  // whose vectors make no array
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "reference/real/fma-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

/// The three sums of dot2.hpp, per target; the bound is formed by the caller.
struct Sums {
  double p, s, e;
  size_t extra_terms;
};

struct Scalar {
  Sums sums{0, 0, 0, 0};

  void add_term(double t) {
    sums.s += t;
    sums.e += std::abs(t);
  }
  void add(double h, double r) {
    const TwoDoubles p = assay::two_sum(sums.p, h);
    sums.p = p.value;
    add_term(p.error + r);
  }
};

Sums dot2_sums(const double* x, const double* y, size_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t lanes = HWY_LANES(double);
  // So many partial sums on every machine, of every 16th product, whatever the width of a vector: enough to
  // hide the latency of two_sum, and no more than the registers of each target hold.
  constexpr size_t kSums = 16;
  constexpr size_t kChains = kSums / lanes;
  static_assert(kChains * lanes == kSums);
  V p[kChains], s[kChains], e[kChains];
  for (size_t c = 0; c < kChains; ++c) p[c] = s[c] = e[c] = hn::Zero(d);
  // Nine additions and two multiplications a step: cores with separate adders and multipliers are twice as
  // fast if some additions run on the multipliers, as the same rounded sum 1 a + b.
  const V one = hn::Set(d, 1.0);
  const auto add = [&](V a, V b) HWY_ATTR {
#if HWY_NATIVE_FMA
    return hn::MulAdd(a, one, b);
#else
    (void)one;
    return hn::Add(a, b);
#endif
  };
  size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
#pragma GCC unroll 16
    for (size_t c = 0; c < kChains; ++c) {
      V r;
      const V h = two_prod(d, hn::LoadU(d, x + i + c * lanes), hn::LoadU(d, y + i + c * lanes), r);
      const V sum = hn::Add(p[c], h);  // two_sum(p, h)
      const V h_seen = hn::Sub(sum, p[c]);
      const V q = add(hn::Sub(p[c], hn::Sub(sum, h_seen)), hn::Sub(h, h_seen));
      p[c] = sum;
      const V t = add(q, r);
      s[c] = add(s[c], t);
      e[c] = add(hn::Abs(t), e[c]);
    }
  }
  Scalar total;
  HWY_ALIGN double sum_p[kSums], sum_s[kSums], sum_e[kSums];
  for (size_t c = 0; c < kChains; ++c) {
    hn::Store(p[c], d, sum_p + c * lanes);
    hn::Store(s[c], d, sum_s + c * lanes);
    hn::Store(e[c], d, sum_e + c * lanes);
  }
  for (size_t l = 0; l < kSums; ++l) {
    total.sums.s += sum_s[l];
    total.sums.e += sum_e[l];
    total.add(sum_p[l], 0.0);
  }
  for (; i < n; ++i) {
    const TwoDoubles product = assay::two_prod(x[i], y[i]);
    total.add(product.value, product.error);
  }
  // Each partial sum adds one remainder of p, and one more addition of its s and e.
  total.sums.extra_terms = 2 * kSums;
  return total.sums;
}

/// All targets return through the same plain numbers: a struct of this namespace cannot cross the dispatch
/// table.
void dot2_raw(const double* x, const double* y, size_t n, double* out) {
  const Sums sums = dot2_sums(x, y, n);
  out[0] = sums.p;
  out[1] = sums.s;
  out[2] = sums.e;
  out[3] = static_cast<double>(sums.extra_terms);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(dot2_raw);

Dot2Result dot2(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size() || x.size() > (std::size_t{1} << 40)) {
    throw InputError(InputErrorKind::shape_mismatch,
                     fmt::format("dot2: rows of {} and {} elements; they must agree and have at most 2^40",
                                 x.size(), y.size()));
  }
  double sums[4];
  HWY_DYNAMIC_DISPATCH(dot2_raw)(x.data(), y.data(), x.size(), sums);
  const TwoDoubles result = two_sum(sums[0], sums[1]);
  const double n = static_cast<double>(x.size());
  const double mu = (n + sums[3]) * kUnitRoundoff;  // exact: an integer below 2^53 times a power of two
  const double shrunk = 1 - mu;
  return {result.value, result.error, outward(outward(mu * sums[2] / (shrunk * shrunk)) + n * 0x1p-1074)};
}

}  // namespace assay
#endif
