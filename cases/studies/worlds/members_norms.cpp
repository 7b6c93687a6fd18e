#include "cases/studies/worlds/members_norms.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace assay::worlds {
namespace {

// "error of the division by the row length"
Set mean_of(const Norm& k, const Set& sum, std::size_t n) {
  const auto length = static_cast<double>(n);
  Set mean = each(sum, [&](double s) { return quotient(k.acc, s, length, k.div_ulp); });
  if (k.reciprocal_length) join(mean, multiplied(k.acc, sum, quotient(k.acc, 1, length, k.div_ulp)));
  return mean;
}

// "eps: added to the mean square": as a number of acc, or as it stands, in one rounding.
Set inverse_root(const Norm& k, const Set& mean_square) {
  return each(mean_square, [&](double v) {
    Set sum = each(rounded(k.acc, k.eps), [&](double e) { return added(k.acc, v, e); });
    join(sum, added(k.acc, v, k.eps));
    return each(sum, [&](double r) {
      return each(used(k.acc, r), [&](double u) { return reciprocal_root(k.acc, u, k.rsqrt_ulp); });
    });
  });
}

Set parameter(const Norm& k, double g) {
  Set s = {g};
  if (k.gamma_format != "f32") s = rounded(arithmetic(k.gamma_format, k.acc.flush), g);
  return each(s, [&](double v) { return each(rounded(k.acc, v), [&](double u) { return used(k.acc, u); }); });
}

// "which of x, 1/sqrt and gamma are multiplied first"; "the normalised x is rounded to this before gamma".
// What comes before beta, and whether beta's addition is fused with the last product.
Set scaled(const Norm& k, const Set& x, const Set& inverse, double gamma, const double* beta) {
  const Set g = parameter(k, gamma);
  struct Last {
    Set x, y;
  };
  std::vector<Last> last;
  const bool any = k.product == "any" && k.mid == "acc";
  if (any || k.product == "x_inv_gamma" || k.mid != "acc") {
    Set normalised = multiplied(k.acc, x, inverse);
    if (k.mid != "acc") {
      const Arithmetic mid = arithmetic(k.mid, k.acc.flush);
      normalised = each(normalised, [&](double v) { return rounded(mid, v); });
    }
    last.push_back({normalised, g});
  }
  if (any || k.product == "x_gamma_inv") last.push_back({multiplied(k.acc, x, g), inverse});
  if (any || k.product == "gamma_inv_x") last.push_back({multiplied(k.acc, g, inverse), x});
  Set y;
  for (const Last& l : last) {
    const Set product = multiplied(k.acc, l.x, l.y);
    if (beta == nullptr) {
      join(y, product);
      continue;
    }
    for (const double b : parameter(k, *beta)) {
      join(y, added(k.acc, product, {b}));
      join(y, each(l.x, l.y, [&](double p, double q) { return fused(k.acc, p, q, b); }));
    }
  }
  return y;
}

std::vector<Term> squares(const std::vector<double>& d) {
  std::vector<Term> terms;
  for (const double v : d) terms.push_back({v, v, true});
  return terms;
}

// "variance: the algorithm". two_pass: squares of x - mean. one_pass: mean of squares less the square of the
// mean, which may be taken as 0 where it is negative. welford: running mean and sum of squares, one element
// after the other.
Set two_pass(const Norm& k, const std::vector<double>& x, double mean) {
  std::vector<double> d;
  for (const double v : x) d.push_back(round_sum(v, -mean, k.acc.precision));
  return mean_of(k, sums(k.acc, squares(d), k.order), x.size());
}

Set one_pass(const Norm& k, const std::vector<double>& x, double mean) {
  const Set square = mean_of(k, sums(k.acc, squares(x), k.order), x.size());
  Set v = each(square, multiplied(k.acc, used(k.acc, mean), used(k.acc, mean)),
               [&](double s, double m) { return added(k.acc, s, -m); });
  join(v, each(square, [&](double s) { return fused(k.acc, -mean, mean, s); }));
  if (v.front() < 0) join(v, {0});
  if (k.clamped) std::erase_if(v, [](double y) { return y < 0; });
  return v;
}

// Calls with every mean and sum of squares that Welford's recurrence may hold.
void welford(const Norm& k, const std::vector<double>& x, std::vector<int>& order, std::size_t at,
             double mean, const Set& m2, const std::function<void(double, const Set&)>& with) {
  if (at == x.size()) return with(mean, m2);
  const double v = x[static_cast<std::size_t>(order[at])];
  for (const double d : added(k.acc, v, -mean)) {
    const Set step = at == 0 ? Set{d} : mean_of(k, {d}, at + 1);
    for (const double q : step)
      for (const double next : added(k.acc, mean, q)) {
        Set sum;
        for (const double after : added(k.acc, v, -next)) {
          join(sum, added(k.acc, m2, multiplied(k.acc, {d}, {after})));
          join(sum, each(m2, [&](double s) { return fused(k.acc, d, after, s); }));
        }
        welford(k, x, order, at + 1, next, sum, with);
      }
  }
}

}  // namespace

std::vector<Set> norm_members(const Norm& k, const std::vector<double>& x, const std::vector<double>& gamma,
                              const std::vector<double>& beta) {
  std::vector<Set> y(x.size());
  if (!k.layer) {
    const Set inverse = inverse_root(k, mean_of(k, sums(k.acc, squares(x), k.order), x.size()));
    for (std::size_t i = 0; i < x.size(); ++i)
      y[i] = scaled(k, used(k.acc, x[i]), inverse, gamma[i], nullptr);
    return y;
  }
  const auto with = [&](double mean, const Set& variance) {
    const Set inverse = inverse_root(k, variance);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Set d =
          each(used(k.acc, x[i]), used(k.acc, mean), [&](double v, double m) { return added(k.acc, v, -m); });
      join(y[i], scaled(k, d, inverse, gamma[i], &beta[i]));
    }
  };
  if (k.variance == "welford") {
    std::vector<int> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      welford(k, x, order, 0, 0, {0}, [&](double mean, const Set& m2) {
        Set variance = mean_of(k, m2, x.size());
        if (k.clamped) variance = each(variance, [](double v) { return Set{v < 0 ? 0 : v}; });
        with(mean, variance);
      });
    } while (k.order != Order::sequential && std::next_permutation(order.begin(), order.end()));
    return y;
  }
  std::vector<Term> terms;
  for (const double v : x) terms.push_back({v});
  for (const double mean : mean_of(k, sums(k.acc, terms, k.order), x.size()))
    with(mean, k.variance == "two_pass" ? two_pass(k, x, mean) : one_pass(k, x, mean));
  return y;
}

}  // namespace assay::worlds
