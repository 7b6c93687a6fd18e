#include "cases/studies/worlds/members_function.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::worlds {
namespace {

constexpr double kMany = 64;  // ulps beyond which not every number is tried
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// To the next number of the format: half as far where v is the negative of a power of two.
double step_up(const Arithmetic& a, double v) {
  int e = 0;
  const bool shrinks = v < 0 && std::frexp(v, &e) == -0.5 && ulp(a, v / 2) < ulp(a, v);
  return shrinks ? ulp(a, v / 2) : ulp(a, v);
}

// Numbers of the format around `exact` for which `close` holds; what overflows is an infinity.
Set around(const Arithmetic& a, long double exact, double ulps, double floor, double ceiling,
           const std::function<bool(double)>& close) {
  const double unit = ulp(a, static_cast<double>(exact));
  const double top = largest_finite(a.precision);
  std::vector<double> found;
  double v = round_to_precision(static_cast<double>(exact - static_cast<long double>((ulps + 2) * unit)),
                                a.precision);
  const double end = static_cast<double>(exact) + (ulps + 2) * unit;
  if (std::isinf(v)) v = std::copysign(top, v);
  while (v <= end && v <= top) {
    if (v >= floor && v <= ceiling && close(v)) found.push_back(v);
    v = round_to_precision(v + step_up(a, v), a.precision);
    if (std::isinf(v)) break;
  }
  if (static_cast<double>(exact) + ulps * unit > top) found.push_back(HUGE_VAL);
  if (static_cast<double>(exact) - ulps * unit < -top) found.push_back(-HUGE_VAL);
  if (ulps <= 0.5 && a.half_is_nearest) {
    long double least = HUGE_VALL;
    for (const double x : found) least = std::min(least, std::fabs(x - exact));
    std::erase_if(found, [&](double x) { return std::fabs(x - exact) > least; });
  }
  return each(set_of(std::move(found)), [&](double x) { return results(a, x); });
}

}  // namespace

Set within(const Arithmetic& a, long double exact, double ulps, double floor, double ceiling) {
  if (std::isnan(exact)) return {kNaN};
  if (std::isinf(exact)) return {static_cast<double>(exact)};
  const long double slack = static_cast<long double>(ulps * ulp(a, static_cast<double>(exact)));
  if (ulps > kMany) {  // the ends and the middle
    std::vector<double> some;
    for (const long double x : {exact - slack, exact, exact + slack}) {
      double v = round_to_precision(static_cast<double>(x), a.precision);
      for (int i = 0; i < 2 && std::fabs(v - exact) > slack; ++i)
        v = v < exact ? round_to_precision(v + step_up(a, v), a.precision)
                      : -round_to_precision(-v + step_up(a, -v), a.precision);
      if (std::fabs(v - exact) <= slack && v >= floor && v <= ceiling) some.push_back(v);
    }
    return each(set_of(std::move(some)), [&](double x) { return results(a, x); });
  }
  return around(a, exact, ulps, floor, ceiling, [&](double v) { return std::fabs(v - exact) <= slack; });
}

Set exponential(const Arithmetic& a, double x, double ulps) {
  return within(a, std::exp(static_cast<long double>(x)), ulps, 0);
}

Set exponential_base2(const Arithmetic& a, double difference, double ulps) {
  constexpr double kLog2e = 1.4426950408889634;  // to f64: its rounding to any type here is that of log2(e)
  const Set argument =
      each(rounded(a, kLog2e), [&](double c) { return multiplied(a, used(a, difference), {c}); });
  return each(argument, [&](double t) { return within(a, std::exp2(static_cast<long double>(t)), ulps, 0); });
}

Set logarithm(const Arithmetic& a, double x, double ulps) {
  if (!(x >= 0)) return {kNaN};
  return within(a, std::log(static_cast<long double>(x)), ulps);
}

Set hyperbolic_tangent(const Arithmetic& a, double x, double ulps) {
  return within(a, std::tanh(static_cast<long double>(x)), ulps);
}

Set reciprocal_root(const Arithmetic& a, double x, double ulps) {
  if (!(x >= 0)) return {kNaN};
  return within(a, 1 / std::sqrt(static_cast<long double>(x)), ulps, 0);
}

Set quotient(const Arithmetic& a, double x, double y, double ulps) {
  if (y == 0 || !std::isfinite(x) || !std::isfinite(y)) return rounded(a, x / y);
  if (x == 0) return {0};
  const long double exact = static_cast<long double>(x) / y;
  const double unit = ulp(a, static_cast<double>(exact));
  const long double slack = static_cast<long double>(ulps * unit) * std::fabs(static_cast<long double>(y));
  return around(a, exact, ulps, -HUGE_VAL, HUGE_VAL,
                [&](double v) { return std::fabs(static_cast<long double>(v) * y - x) <= slack; });
}

}  // namespace assay::worlds
