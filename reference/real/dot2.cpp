#include "reference/real/dot2.hpp"

#include <fmt/format.h>

#include "reference/error.hpp"
#include "reference/real/eft.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/real/dot2.cpp"
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
  constexpr size_t kChains = 4;  // independent sums, to hide the latency of two_sum
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<decltype(d)>;
  V p0 = hn::Zero(d), p1 = p0, p2 = p0, p3 = p0;
  V s0 = p0, s1 = p0, s2 = p0, s3 = p0;
  V e0 = p0, e1 = p0, e2 = p0, e3 = p0;
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
  const auto step = [&](size_t at, V& p, V& s, V& e) HWY_ATTR {
    V r, q;
    const V h = two_prod(d, hn::LoadU(d, x + at), hn::LoadU(d, y + at), r);
    const V sum = hn::Add(p, h);  // two_sum(p, h)
    const V h_seen = hn::Sub(sum, p);
    q = add(hn::Sub(p, hn::Sub(sum, h_seen)), hn::Sub(h, h_seen));
    p = sum;
    const V t = add(q, r);
    s = add(s, t);
    e = add(hn::Abs(t), e);
  };
  size_t i = 0;
  for (; i + kChains * lanes <= n; i += kChains * lanes) {
    step(i, p0, s0, e0);
    step(i + lanes, p1, s1, e1);
    step(i + 2 * lanes, p2, s2, e2);
    step(i + 3 * lanes, p3, s3, e3);
  }
  Scalar total;
  HWY_ALIGN double p[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN double s[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN double e[HWY_MAX_BYTES / sizeof(double)];
  const auto collect = [&](V vp, V vs, V ve) HWY_ATTR {
    hn::Store(vp, d, p);
    hn::Store(vs, d, s);
    hn::Store(ve, d, e);
    for (size_t lane = 0; lane < lanes; ++lane) {
      total.sums.s += s[lane];
      total.sums.e += e[lane];
      total.add(p[lane], 0.0);
    }
  };
  collect(p0, s0, e0);
  collect(p1, s1, e1);
  collect(p2, s2, e2);
  collect(p3, s3, e3);
  for (; i < n; ++i) {
    const TwoDoubles product = assay::two_prod(x[i], y[i]);
    total.add(product.value, product.error);
  }
  // Each lane adds one remainder of p, and one more addition of its s and e.
  total.sums.extra_terms = 2 * kChains * lanes;
  return total.sums;
}

/// All targets return through the same plain numbers: a struct of this namespace cannot cross the dispatch table.
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
