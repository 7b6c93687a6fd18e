// The referee: multiprecision reals over MPFR. Slow (about 100 ns an operation); include it in .cpp and test
// files only, and link assay_real_mp.
#pragma once

#include <mpfr.h>

#include <boost/multiprecision/mpfr.hpp>
#include <string>

#include "reference/error.hpp"
#include "reference/real/adaptive.hpp"

namespace assay::mp {

/// Round to nearest with 113 bits (the precision of binary128) or 200 bits. Fixed at compile time, so that no
/// global precision can change under a caller. digits10 is rounded up: the precision is at least what is
/// named.
using Real113 = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<34>,
                                              boost::multiprecision::et_off>;
using Real200 = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>,
                                              boost::multiprecision::et_off>;

/// A closed interval [low, high] with directed roundings at kBits: every operation returns an enclosure of
/// the exact result for all members of its arguments, so what it proves, it proves. NaN makes every
/// comparison false.
class Interval {
 public:
  static constexpr mpfr_prec_t kBits = 320;

  Interval() : Interval(0.0) {}
  Interval(double x) : Interval(x, x) {}  // NOLINT: a double is an interval of width 0, exactly
  Interval(double low, double high) {
    mpfr_init2(low_, kBits);
    mpfr_init2(high_, kBits);
    mpfr_set_d(low_, low, MPFR_RNDD);
    mpfr_set_d(high_, high, MPFR_RNDU);
  }
  /// The enclosure of a decimal number, e.g. "-1.25e-30".
  static Interval from_decimal(const std::string& text) {
    Interval r;
    const bool ok = mpfr_set_str(r.low_, text.c_str(), 10, MPFR_RNDD) == 0 &&
                    mpfr_set_str(r.high_, text.c_str(), 10, MPFR_RNDU) == 0;
    if (!ok) throw InputError(InputErrorKind::bad_value, "not a decimal number: '" + text + "'");
    return r;
  }
  /// An MPFR number (of a Real113 or Real200: x.backend().data()), exactly if it has at most kBits bits.
  static Interval from_mpfr(mpfr_srcptr x) {
    Interval r;
    mpfr_set(r.low_, x, MPFR_RNDD);
    mpfr_set(r.high_, x, MPFR_RNDU);
    return r;
  }
  Interval(const Interval& other) : Interval(0.0) { *this = other; }
  Interval& operator=(const Interval& other) {
    if (this == &other) return *this;
    mpfr_set(low_, other.low_, MPFR_RNDD);
    mpfr_set(high_, other.high_, MPFR_RNDU);
    return *this;
  }
  ~Interval() {
    mpfr_clear(low_);
    mpfr_clear(high_);
  }

  /// The hull of two intervals.
  static Interval hull(const Interval& a, const Interval& b) {
    Interval r;
    mpfr_min(r.low_, a.low_, b.low_, MPFR_RNDD);
    mpfr_max(r.high_, a.high_, b.high_, MPFR_RNDU);
    return r;
  }

  friend Interval operator+(const Interval& a, const Interval& b) {
    Interval r;
    mpfr_add(r.low_, a.low_, b.low_, MPFR_RNDD);
    mpfr_add(r.high_, a.high_, b.high_, MPFR_RNDU);
    return r;
  }
  friend Interval operator-(const Interval& a, const Interval& b) {
    Interval r;
    mpfr_sub(r.low_, a.low_, b.high_, MPFR_RNDD);
    mpfr_sub(r.high_, a.high_, b.low_, MPFR_RNDU);
    return r;
  }
  friend Interval operator-(const Interval& a) { return Interval(0.0) - a; }
  friend Interval operator*(const Interval& a, const Interval& b) { return corners(a, b, mpfr_mul); }
  /// Division; an interval divisor that holds 0 gives [-inf, +inf].
  friend Interval operator/(const Interval& a, const Interval& b) {
    if (!(mpfr_sgn(b.low_) > 0 || mpfr_sgn(b.high_) < 0)) {
      Interval r;
      mpfr_set_inf(r.low_, -1);
      mpfr_set_inf(r.high_, 1);
      return r;
    }
    return corners(a, b, mpfr_div);
  }

  friend Interval exp(const Interval& a) { return monotone(a, mpfr_exp); }
  friend Interval expm1(const Interval& a) { return monotone(a, mpfr_expm1); }
  friend Interval log(const Interval& a) { return monotone(a, mpfr_log); }
  friend Interval log1p(const Interval& a) { return monotone(a, mpfr_log1p); }
  friend Interval sqrt(const Interval& a) { return monotone(a, mpfr_sqrt); }
  friend Interval tanh(const Interval& a) { return monotone(a, mpfr_tanh); }
  friend Interval ln2() {
    Interval r;
    mpfr_const_log2(r.low_, MPFR_RNDD);
    mpfr_const_log2(r.high_, MPFR_RNDU);
    return r;
  }

  /// [min |x|, max |x|].
  friend Interval abs(const Interval& a) {
    Interval r;
    if (mpfr_sgn(a.low_) >= 0) return a;
    if (mpfr_sgn(a.high_) <= 0) return -a;
    mpfr_neg(r.low_, a.low_, MPFR_RNDU);
    mpfr_max(r.high_, r.low_, a.high_, MPFR_RNDU);
    mpfr_set_zero(r.low_, 1);
    return r;
  }

  double lower() const { return mpfr_get_d(low_, MPFR_RNDD); }
  double upper() const { return mpfr_get_d(high_, MPFR_RNDU); }
  /// The nearest double and a bound on its distance from every member.
  Certified certified() const {
    const double value = mpfr_get_d(low_, MPFR_RNDN);
    return {value, (*this - Interval(value)).magnitude()};
  }
  /// The largest absolute value of a member, rounded up.
  double magnitude() const { return abs(*this).upper(); }
  bool contains(double x) const { return mpfr_cmp_d(low_, x) <= 0 && mpfr_cmp_d(high_, x) >= 0; }

 private:
  using Binary = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
  using Unary = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

  static Interval corners(const Interval& a, const Interval& b, Binary op) {
    Interval r;
    Interval t;
    op(r.low_, a.low_, b.low_, MPFR_RNDD);
    op(r.high_, a.low_, b.low_, MPFR_RNDU);
    const mpfr_srcptr left[3] = {a.low_, a.high_, a.high_};
    const mpfr_srcptr right[3] = {b.high_, b.low_, b.high_};
    for (int i = 0; i < 3; ++i) {
      op(t.low_, left[i], right[i], MPFR_RNDD);
      op(t.high_, left[i], right[i], MPFR_RNDU);
      mpfr_min(r.low_, r.low_, t.low_, MPFR_RNDD);
      mpfr_max(r.high_, r.high_, t.high_, MPFR_RNDU);
    }
    return r;
  }
  static Interval monotone(const Interval& a, Unary op) {
    Interval r;
    op(r.low_, a.low_, MPFR_RNDD);
    op(r.high_, a.high_, MPFR_RNDU);
    return r;
  }

  mpfr_t low_;
  mpfr_t high_;
};

Interval ln2();

}  // namespace assay::mp
