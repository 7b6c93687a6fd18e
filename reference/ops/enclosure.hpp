// The calculus of the limits: a real number together with an error that covers both the exact value of an
// op's definition and whatever a kernel of the declared arithmetic holds in its place.
//
// Invariant of every function here: if each argument's interval [value - error, value + error] contains the
// exact number AND the kernel's number, then so does the result's. A limit is therefore a running error
// analysis, evaluated on the case's own data; each op's docstring only has to say which operations its kernel
// performs. The reference's own roundings (double, u64 = 2^-53) are added to `error`, so a limit includes its
// certificate.
//
// Rounding model of a format with unit roundoff u (to nearest): fl(z) = z (1 + d) + t, |d| <= u, |t| <= tiny,
// where t is not 0 only below the smallest normal: half a subnormal step, or the smallest normal where the
// contract declares ftz=yes. So tiny is charged where z's interval reaches below the smallest normal, and
// nowhere else. Sums and differences are exact in the subnormal range unless flushed (Hauser 1996; Higham
// 2002, ch. 2). A result that may reach the format's overflow threshold has error +Inf: nothing is claimed of
// it.
//
// A function value or a quotient within k ulps, where an ulp is the step of the format at the exact value:
// relative 2 k u, and below the smallest normal k steps, which is max(1, 2 k) tiny, since no result is off by
// less than half a step; flushed after that under ftz=yes, (1 + 2 k u) times the smallest normal. With
// numbers: exp(-100) is 26.55 steps of f32; within 2 ulps stand 25 to 28.
//
// A division by b may be a quotient, or a reciprocal and a product: fl(a fl(1 / b)). Where 1 / b is subnormal
// it is itself off by k steps, and by all of itself where it is flushed: |a| times that. In f16, 1 / 20000 =
// 5.0e-5 lies below 6.1e-5. Where 1 / b overflows nothing is claimed: a b that is that small makes Inf, or
// NaN, of a product that the quotient has not.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "reference/arithmetic/gamma.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/arithmetic/rule.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kUnit64 = 0x1p-53;

// The arithmetic that a kernel computes in.
struct Machine {
  double unit;      // unit roundoff, round to nearest
  double tiny;      // absolute error of a product, quotient or function value that underflows
  double tiny_add;  // the same of a sum: 0 with gradual underflow
  double flushed;   // inputs below this may be read as 0: the smallest normal under ftz=yes, else 0
  double max_finite;
  double normal = kInfinity;  // the smallest normal; +Inf: unknown, whatever is rounded may underflow
};

double smallest_normal(const ScalarFormat& f);  // 1 of integers
// `name`: f64, or a floating row of scalar_formats(). Throws InputError unknown_name or bad_value.
Machine machine(std::string_view name, bool flush);

// An error computed in double by a handful of operations on non-negative numbers, moved above its exact
// value.
inline double up(double error) { return error * (1 + 0x1p-48); }

struct Enclosure {
  double value = 0;
  double error = 0;
  double magnitude() const { return up(std::fabs(value) + error); }
  double low() const { return value - up(error + kUnit64 * std::fabs(value)); }
  double high() const { return value + up(error + kUnit64 * std::fabs(value)); }
};

// An input as the kernel reads it: exact, or 0 where inputs are flushed.
inline Enclosure read(double x, const Machine& m) {
  return {x, std::fabs(x) < m.flushed ? rule(Rule::operand_flush, std::fabs(x)) : 0.0};
}

// Real operations, no rounding of a kernel.
inline Enclosure sum(Enclosure a, Enclosure b) {
  const double value = a.value + b.value;
  return {value, up(a.error + b.error + kUnit64 * std::fabs(value))};
}
inline Enclosure negated(Enclosure a) { return {-a.value, a.error}; }
// Whether the number is 0 in every arithmetic.
inline bool is_zero(Enclosure z) { return z.value == 0 && z.error == 0; }
inline Enclosure product(Enclosure a, Enclosure b) {
  const double value = a.value * b.value;
  if ((is_zero(a) && b.magnitude() < kInfinity) || (is_zero(b) && a.magnitude() < kInfinity))
    return {value, 0};
  return {value, up(std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error +
                    kUnit64 * std::fabs(value) + 0x1p-1074)};
}
// a / b for b away from 0; error +Inf when b's interval reaches 0.
inline Enclosure quotient(Enclosure a, Enclosure b) {
  const double least = std::fabs(b.value) - up(b.error);
  const double value = a.value / b.value;
  if (!(least > 0)) return {value, kInfinity};
  if (is_zero(a)) return {value, 0};
  return {value,
          up((a.error + std::fabs(value) * b.error) / least + 2 * kUnit64 * std::fabs(value) + 0x1p-1073)};
}

// Whether a number of z's interval, off by a relative error more, may lie below the smallest normal without
// being 0 always.
inline bool may_underflow(Enclosure z, const Machine& m, double relative = 0) {
  if (is_zero(z)) return false;
  const double least = std::fabs(z.value) - z.error;  // both this and 1 - relative may be below 0
  return !(relative < 1 && least * (1 - relative) * (1 - 0x1p-48) >= m.normal);
}
// What a result of k ulps is off by in the subnormal range.
inline double underflow_of(const Machine& m, double ulp) {
  return m.flushed > 0 ? m.tiny * (1 + 2 * ulp * m.unit) : std::fmax(1.0, 2 * ulp) * m.tiny;
}

// The result of one step of a kernel; it is not claimed where it may overflow.
inline Enclosure within_range(double value, double error, const Machine& m) {
  const bool fits = claims(Rule::step_overflow, std::fabs(value) + error < m.max_finite);
  return {value, fits ? error : kInfinity};
}

// What a kernel's `roundings` successive roundings make of z (each relative u; one tiny for each that may
// underflow).
inline Enclosure rounded(Enclosure z, const Machine& m, double roundings = 1) {
  const double g = gamma_n(roundings, m.unit);
  const double tiny = may_underflow(z, m, g) ? std::ceil(roundings) * m.tiny : 0;
  const double error =
      up(z.error + rule(Rule::product_rounding, g * z.magnitude()) + rule(Rule::product_underflow, tiny));
  return within_range(z.value, error, m);
}
// 2^e, e the exponent of the last bit of x that is not 0; +Inf of 0.
double last_bit(double x);
// Whether x, an operand that is wider than the arithmetic (f32 in f16), has bits below the smallest subnormal
// number.
inline bool has_finer_bits(double x, const Machine& m) { return last_bit(x) < 2 * m.unit * m.normal; }

// Whether x is a number of m's precision; its range apart.
inline bool is_representable(double x, const Machine& m) { return std::fabs(x) * m.unit <= last_bit(x); }
// What an operand x is off by that is held in the arithmetic alone, as the first term of a sum or as a
// maximum: nothing, unless it is wider than that; all, where it is beyond its largest number.
inline double held_error(double x, const Machine& m) {
  if (!claims(Rule::step_overflow, std::fabs(x) * (1 + m.unit) < m.max_finite * (1 + m.unit / 2)))
    return kInfinity;
  const double relative = is_representable(x, m) ? 0 : m.unit * std::fabs(x);
  return rule(Rule::operand_rounding, relative + (has_finer_bits(x, m) ? m.tiny : 0));
}

// The same for a sum or difference. `finer`: of an operand that has_finer_bits, so that the sum is not exact
// below the smallest normal either.
inline Enclosure rounded_sum(Enclosure z, const Machine& m, bool finer = false) {
  const double tiny = may_underflow(z, m, m.unit) ? (finer ? m.tiny : m.tiny_add) : 0;
  const double error =
      up(z.error + rule(Rule::sum_rounding, m.unit * z.magnitude()) + rule(Rule::sum_flush, tiny));
  return within_range(z.value, error, m);
}

// What a kernel's function of `ulp` units in the last place makes of its exact value z. `ulps`, `subnormal`:
// the rules' names.
inline Enclosure evaluated(Enclosure z, const Machine& m, double ulp, Rule ulps, Rule subnormal) {
  const double g = gamma_n(2 * ulp, m.unit);
  const double tiny = may_underflow(z, m, g) ? underflow_of(m, ulp) : 0;
  const double relative = rule(ulps, g * z.magnitude()), steps = rule(subnormal, tiny);
  // An ulp is one of a normal number or a subnormal step, and so is an error of ulps; what is flushed may
  // have erred before.
  const double error = up(z.error + (m.flushed > 0 ? relative + steps : std::fmax(relative, steps)));
  return within_range(z.value, error, m);
}

// The absolute error of a kernel's division beyond its relative one: of the quotient, where it (z) may be
// subnormal, and of the reciprocal, where 1 / divisor may be; `most` is the largest |dividend|. +Inf where
// the reciprocal may overflow.
double division_underflow(Enclosure z, double most, Enclosure divisor, const Machine& m, double ulp);
// A kernel's a / b: a quotient, or a reciprocal and a product, of `ulp`, and `more` roundings of the product
// which `ulp` does not include. Exact where it is so by inspection: ulp <= 1/2, nothing of a or b errs, b is
// a power of 2.
Enclosure divided(Enclosure a, Enclosure b, const Machine& m, double ulp, double more = 0);

// The least last bit of a product of two numbers of m's precision that is at least `least`; 0 unless that is
// above 0.
inline double last_bit_of_product(double least, const Machine& m) {
  least = std::fabs(least);
  return least > 0 ? std::ldexp(m.unit * m.unit, std::ilogb(least) + 1) : 0;
}
// n, a count, as a kernel divides by it: rounded where it has more bits than the format.
Enclosure count(double n, const Machine& m);

// What a kernel that rounds to `to` makes of any number in z's interval. Rounding is monotone, so with low
// and high the ends of that interval the result lies in [rd(low), rd(high)]: an interval inside one rounding
// cell is the rounded number, with error 0, and any other costs a step where it straddles a boundary, not
// half a step always. Two things follow: no kernel loses by a rounding that is decided, and one that skips it
// stands outside of the enclosure. The result holds the KERNEL'S number only, not the exact one: what it ends
// in is stored by set_truth_around (op_io.hpp). An error of 0 says that z.value is the number itself, so that
// a tie is decided too. flush: a result below the smallest normal, before or after it is rounded, may be 0.
// An end that is rounded to Inf or NaN has error +Inf. With numbers: {1.004, 1e-3} in bf16, whose steps there
// are 2^-7, lies below the boundary 1 + 2^-8 = 1.0039 at its low end alone: [1, 1.0078]. {1.002, 1e-3} is 1,
// error 0.
Enclosure decided(Enclosure z, const ScalarFormat& to, bool flush = false,
                  const EncodePolicy& policy = {.overflow = Overflow::ieee});

// A sum of n terms in the declared order.
//   any         |e| <= (n - 1) u sum |t_i|              (Jeannerod and Rump 2013: every order, no restriction
//                                                       on n)
//   tree, lanes, blocks, depth
//               |e| <= gamma_h sum |t_i|,  h = Order::height(n)                           (Higham 2002,
//                                          section 4.2)
//   sequential  |e| <= u sum_k |s_k|,  s_k the kernel's partial sums, each within its own running error of
//                                      the exact
//               one; the smaller of this and `any`
// plus one rounding of each term, or under `sequential` of the first, that is wider than the arithmetic: a
// sum begins as that term alone (held_error), and so does each part of it;
// plus the terms' own errors, which are carried through the additions: sum e_i (1 + (n - 1) u).
// Two things are known of the partial sums by inspection. Let q be the smallest last bit of any term: of a
// term without error its own, of another the step of the format at the least it can be. Every partial sum,
// rounded or not, is a multiple of q, so
//   sum |t_i| <= q / u   and no term errs: every partial sum is a number of the format, e = 0 but for those
//                        that are flushed: 4096 times 1000 in f32, q = 8;
//   q >= the smallest normal, or no term is negative and each is 0 or a normal number: no partial sum is
//   flushed.
// Terms that are wider than the arithmetic (has_finer_bits) have sums that are rounded below the smallest
// normal: tiny each.
Enclosure summed(std::span<const Enclosure> terms, Order order, const Machine& m);

// 1 / sqrt(a) for a > 0, with a kernel's rsqrt of `ulp` units in the last place (1 ulp <= 2 u relative).
// Monotone, so the ends of a's interval decide; error +Inf when that interval reaches 0. It is normal in
// every format.
Enclosure inverse_sqrt(Enclosure a, const Machine& m, double ulp);

}  // namespace assay
