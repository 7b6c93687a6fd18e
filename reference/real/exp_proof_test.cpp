// The proof of kExpRelativeError: steps (2) to (4) of exp.hpp's docstring, evaluated with outward-rounded
// MPFR intervals. Everything on the way is an enclosure; no sampling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "reference/real/exp.hpp"
#include "reference/real/mp.hpp"

namespace assay {
namespace {

using mp::Interval;

constexpr int kSubintervals = 4096;

/// An upper bound of the rounding error of a double operation whose exact result lies in x: half an ulp of
/// the largest magnitude (and of the next double above it, so that a carry into the next binade is covered).
double half_ulp(const Interval& x) {
  const double top = std::nextafter(x.magnitude(), INFINITY);
  return std::ldexp(1.0, std::max(std::ilogb(top), -1022) - 53);
}

Interval symmetric(double magnitude) { return Interval(-magnitude, magnitude); }

/// A computed quantity: an enclosure of the exact value of the formula, and a bound on |computed - exact|.
struct Computed {
  Interval exact;
  Interval error = Interval(0.0);

  Interval computed() const { return exact + symmetric(error.magnitude()); }
};

/// fma(a, b, c): exact value a b + c; the errors of the arguments carry over, one rounding is added.
Computed fused(const Computed& a, const Computed& b, const Computed& c) {
  Computed r{a.exact * b.exact + c.exact};
  r.error = abs(a.computed()) * abs(b.error) + abs(b.exact) * abs(a.error) + abs(c.error);
  r.error = r.error + Interval(half_ulp(a.computed() * b.computed() + c.computed()));
  return r;
}

Computed constant(double c) { return {Interval(c)}; }

/// The constants of one argument reduction, step (2): `low` bounds both lo - k (ln 2 - L) and lo - k M,
/// `low_error` the distance of the computed rl from the former.
struct Reduction {
  Interval rest = abs(mp::ln2() - Interval(exp_detail::kLn2High));
  Interval missing = abs(mp::ln2() - Interval(exp_detail::kLn2High) - Interval(exp_detail::kLn2Low));
  Interval low = Interval(kExpLowMax) + Interval(1023.0) * (rest + missing);
  Interval low_error = Interval(half_ulp(low)) + Interval(1023.0) * missing;
};

/// |1 + r + r^2 q(r) - exp(r)| on [a, b] with the coefficients q: the difference D to the Taylor polynomial
/// of degree n is a polynomial with small coefficients, bounded by |D(m)| + max |D'| (b - a)/2; the remainder
/// of the Taylor polynomial is below |r|^(n+1)/(n+1)! e^|r|.
Interval approximation_error(double a, double b, std::span<const double> q) {
  constexpr int kDegree = 24;
  Interval difference[kDegree + 1];
  Interval factorial(1.0);
  for (int i = 1; i <= kDegree; ++i) {
    factorial = factorial * Interval(static_cast<double>(i));
    if (i < 2) continue;
    const auto j = static_cast<std::size_t>(i - 2);
    difference[i] = Interval(j < q.size() ? q[j] : 0.0) - Interval(1.0) / factorial;
  }
  const double middle = 0.5 * (a + b);
  const Interval box(a, b);
  Interval at_middle(0.0);
  Interval slope(0.0);
  for (int i = kDegree; i >= 0; --i) at_middle = at_middle * Interval(middle) + difference[i];
  for (int i = kDegree; i >= 1; --i) slope = slope * box + Interval(static_cast<double>(i)) * difference[i];
  const Interval reach = abs(box);
  Interval remainder = exp(reach) / (factorial * Interval(kDegree + 1.0));
  for (int i = 0; i <= kDegree; ++i) remainder = remainder * reach;
  return abs(at_middle) + abs(slope) * (abs(box - Interval(middle))) + abs(remainder);
}

/// The relative error of certified_exp for reduced arguments rh in [a, b], everything included.
double relative_error(double a, double b, std::span<const double> c) {
  const Reduction reduction;
  const double low = reduction.low.magnitude();
  const Interval rh(a, b);
  const Computed rl{symmetric(low), reduction.low_error};
  // r = rh + rl, rounded; taken as exact from here on, its distance e1 from R is paid for at the end.
  const Interval e1 = Interval(half_ulp(rh + symmetric(low))) + reduction.low_error;
  const Interval r = rh + symmetric(low) + symmetric(e1.magnitude());
  const Computed rc{r};
  Computed z{r * r};
  z.error = Interval(half_ulp(z.exact));

  Computed q = fused(constant(c[9]), rc, constant(c[8]));
  for (std::size_t i = 8; i >= 2; i -= 2) q = fused(q, z, fused(constant(c[i - 1]), rc, constant(c[i - 2])));
  const Computed tail = fused(q, z, rl);
  const Interval y_minus_1 = rh + tail.computed();
  const Interval e_s = tail.error + Interval(half_ulp(y_minus_1));

  const Interval exp_of_r = exp(r);
  const Interval middle = abs(e1) * abs(exp_of_r - Interval(1.0)) + e1 * e1;
  const double reach = std::max(std::abs(r.lower()), std::abs(r.upper()));
  const Interval approximation =
      approximation_error(std::max(r.lower(), -reach), std::min(r.upper(), reach), c);
  const Interval before_last = abs(approximation) + middle + abs(e_s);
  const Interval y = Interval(1.0) + y_minus_1;
  const Interval total = before_last + Interval(half_ulp(y));
  return (abs(total) / exp(rh + symmetric(low))).magnitude();
}

/// The maximum over the whole reduced range.
double worst_relative_error(std::span<const double> c) {
  double worst = 0;
  double previous = -exp_detail::kReducedMax;
  for (int i = 1; i <= kSubintervals; ++i) {
    const double next = i == kSubintervals ? exp_detail::kReducedMax
                                           : exp_detail::kReducedMax * (2.0 * i / kSubintervals - 1.0);
    worst = std::max(worst, relative_error(previous, next, c));
    previous = next;
  }
  return worst;
}

TEST(exp_proof, the_constants_of_the_reduction_are_what_the_proof_says) {
  const Interval rest = mp::ln2() - Interval(exp_detail::kLn2High);
  EXPECT_LE((rest - Interval(exp_detail::kLn2Low)).magnitude(), 0x1p-109);  // half a unit in its last place
  EXPECT_LE((Interval(exp_detail::kLog2E) * mp::ln2() - Interval(1.0)).magnitude(), 0x1p-54);
  // (1): the reduced argument stays inside the range that is proven, and below 1/2.
  const Interval reach = mp::ln2() * Interval(0.5) * Interval(1 + 0x1p-43) + Interval(0x1p-45);
  EXPECT_LT(reach.upper(), exp_detail::kReducedMax);
  EXPECT_LE(Reduction{}.low.upper(), 0x1p-41);
  // (4): k >= -1022 at kExpMin, with half a unit and more to spare; k <= 1023 at kExpMax.
  EXPECT_GT((Interval(kExpMin) / mp::ln2()).lower(), -1022.4);
  EXPECT_LT((Interval(kExpMax) / mp::ln2()).upper(), 1023.4);
  EXPECT_LE(exp(Interval(kExpMin) + Interval(kExpLowMax)).upper(), kExpFlushError);
}

TEST(exp_proof, the_error_of_certified_exp_is_at_most_its_constant_everywhere) {
  const double worst = worst_relative_error(exp_detail::kQ);
  RecordProperty("log2_proven_error", std::to_string(std::log2(worst)));
  EXPECT_LE(worst, kExpRelativeError) << "proven 2^" << std::log2(worst);
  // The constant is not slack either: a bound twice as sharp would be false for the last rounding alone.
  EXPECT_GE(worst, 0x1p-53);
}

TEST(exp_proof, a_coefficient_wrong_by_one_part_in_2_to_the_36_is_refuted) {
  double c[10];
  std::copy(std::begin(exp_detail::kQ), std::end(exp_detail::kQ), c);
  c[2] *= 1 + 0x1p-36;
  EXPECT_FALSE(worst_relative_error(c) <= kExpRelativeError);
}

}  // namespace
}  // namespace assay
