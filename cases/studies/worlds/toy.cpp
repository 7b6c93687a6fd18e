#include "cases/studies/worlds/toy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/formats/scalar.hpp"

namespace assay::worlds {
namespace {

bool before(double x, double y) { return std::isnan(y) ? !std::isnan(x) : x < y; }
bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

}  // namespace

Set set_of(std::vector<double> numbers) {
  for (double& x : numbers)
    if (x == 0) x = 0;
  std::sort(numbers.begin(), numbers.end(), before);
  numbers.erase(std::unique(numbers.begin(), numbers.end(), same), numbers.end());
  return numbers;
}

void join(Set& into, const Set& more) {
  into.insert(into.end(), more.begin(), more.end());
  into = set_of(std::move(into));
}

Arithmetic arithmetic(std::string_view format, bool flush) {
  const ScalarFormat& f = scalar_format(format);
  const bool ieee = f.specials == Specials::ieee;
  const int emin = 1 - f.bias;
  const int emax = (1 << f.exponent_bits) - 1 - f.bias - (ieee ? 1 : 0);
  return {{f.fraction_bits + 1, emin, emax}, flush, f.max_finite, false, !ieee};
}

std::vector<double> numbers(std::string_view format) {
  const auto table = decode_table(scalar_format(format));
  std::vector<double> all;
  for (const double x : table)
    if (std::isfinite(x)) all.push_back(x);
  return set_of(std::move(all));
}

bool is_subnormal(const Arithmetic& a, double x) {
  return x != 0 && std::fabs(x) < power_of_two(a.precision.emin);
}

double ulp(const Arithmetic& a, double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const int e = x == 0 ? a.precision.emin : std::max(std::ilogb(x), a.precision.emin);
  return power_of_two(e - a.precision.p + 1);
}

Set results(const Arithmetic& a, double rounded) {
  if (a.flush && is_subnormal(a, rounded)) return set_of({rounded, 0});
  return {rounded == 0 ? 0 : rounded};
}
Set used(const Arithmetic& a, double x) { return results(a, x); }
Set rounded(const Arithmetic& a, double exact) { return results(a, round_to_precision(exact, a.precision)); }
Set added(const Arithmetic& a, double x, double y) { return results(a, round_sum(x, y, a.precision)); }
Set multiplied(const Arithmetic& a, double x, double y) {
  return results(a, round_to_precision(x * y, a.precision));  // of two numbers of 24 bits, exact in f64
}
Set fused(const Arithmetic& a, double x, double y, double z) {
  return results(a, round_sum(x * y, z, a.precision));
}

Set each(const Set& x, const std::function<Set(double)>& f) {
  std::vector<double> all;
  for (const double v : x) {
    const Set more = f(v);
    all.insert(all.end(), more.begin(), more.end());
  }
  return set_of(std::move(all));
}
Set each(const Set& x, const Set& y, const std::function<Set(double, double)>& f) {
  std::vector<double> all;
  for (const double v : x)
    for (const double w : y) {
      const Set more = f(v, w);
      all.insert(all.end(), more.begin(), more.end());
    }
  return set_of(std::move(all));
}
Set added(const Arithmetic& a, const Set& x, const Set& y) {
  return each(x, y, [&](double v, double w) { return added(a, v, w); });
}
Set multiplied(const Arithmetic& a, const Set& x, const Set& y) {
  return each(x, y, [&](double v, double w) { return multiplied(a, v, w); });
}

Set thinned(const Set& x, std::size_t most) {
  if (x.size() <= most) return x;
  return set_of({x.front(), x[x.size() / 2], x.back()});
}

bool overflows(const Arithmetic& a, const Set& x) {
  return a.silent && std::any_of(x.begin(), x.end(), [&](double v) { return !(std::fabs(v) <= a.largest); });
}

}  // namespace assay::worlds
