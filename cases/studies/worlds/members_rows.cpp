#include "cases/studies/worlds/members_rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace assay::worlds {
namespace {

// "s = cap(x / temperature)": a quotient within div_ulp; "c tanh(s / c)", tanh within tanh_ulp, the product
// rounded.
Set logit(const Exponentials& k, double x) {
  Set s = each(used(k.acc, x), [&](double v) { return rounded(k.acc, v); });
  if (k.temperature != 1) {
    s = each(s, [&](double v) {
      return each(rounded(k.acc, k.temperature), [&](double t) { return quotient(k.acc, v, t, k.div_ulp); });
    });
  }
  if (k.softcap != 0) {
    s = each(s, [&](double v) {
      return each(quotient(k.acc, v, k.softcap, k.div_ulp), [&](double q) {
        return each(hyperbolic_tangent(k.acc, q, k.tanh_ulp),
                    [&](double t) { return multiplied(k.acc, t, k.softcap); });
      });
    });
  }
  return s;
}

Set exponential_of(const Exponentials& k, double s, double m) {
  const Set difference = added(k.acc, s, -m);
  return each(difference, [&](double d) {
    return each(used(k.acc, d), [&](double v) {
      return k.base2 ? exponential_base2(k.acc, v, k.exp_ulp) : exponential(k.acc, v, k.exp_ulp);
    });
  });
}

using Fixed =
    std::map<double, double>;  // s - m as rounded -> what exp returned: one kernel's exp is a function

Set exponential_fixed(const Exponentials& k, const Fixed& fixed, double s, double m) {
  const auto found = fixed.find(round_sum(s, -m, k.acc.precision));
  return found != fixed.end() ? used(k.acc, found->second) : exponential_of(k, s, m);
}

// "changes of an online kernel's maximum": the sum so far times exp(old - new), then the new term, fused or
// not.
void online(const Exponentials& k, const Fixed& fixed, const std::vector<double>& s, std::vector<int>& left,
            double m, const Set& sum, int changes, Set& into) {
  if (left.empty()) return join(into, sum);
  const bool memory = k.order == Order::sequential;
  for (std::size_t at = 0; at < left.size() && (at == 0 || !memory); ++at) {
    std::vector<int> rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    const double x = s[static_cast<std::size_t>(left[at])];
    if (sum.empty()) {
      online(k, fixed, s, rest, x, exponential_fixed(k, fixed, x, x), changes, into);
    } else if (x <= m) {
      online(k, fixed, s, rest, m, added(k.acc, sum, exponential_fixed(k, fixed, x, m)), changes, into);
    } else if (changes > 0) {
      const Set factor = exponential_fixed(k, fixed, m, x), term = exponential_fixed(k, fixed, x, x);
      Set next = added(k.acc, multiplied(k.acc, sum, factor), term);
      for (const double t : term)
        join(next, each(sum, factor, [&](double a, double b) { return fused(k.acc, a, b, t); }));
      online(k, fixed, s, rest, x, next, changes - 1, into);
    }
  }
}

// Calls with every choice of the logits, the exponentials and what the sum of these may be.
void for_each_choice(
    const Exponentials& k, const std::vector<double>& x,
    const std::function<void(double m, const std::vector<double>& e, const Set& sum)>& with) {
  std::vector<Set> logits;
  for (const double v : x) logits.push_back(thinned(logit(k, v), k.most));
  if (k.has_sink) logits.push_back(rounded(k.acc, k.sink));
  const std::size_t n = logits.size();
  std::vector<std::size_t> at(n, 0);
  const auto next = [](std::vector<std::size_t>& digits, const std::vector<Set>& sets) {
    std::size_t i = 0;
    while (i < digits.size() && ++digits[i] == sets[i].size()) digits[i++] = 0;
    return i < digits.size();
  };
  do {
    std::vector<double> s;
    for (std::size_t i = 0; i < n; ++i) s.push_back(logits[i][at[i]]);
    const double m = *std::max_element(s.begin(), s.end());
    // Terms with the same argument have the same exponential: one choice for each argument.
    std::vector<double> arguments;
    for (const double v : s) arguments.push_back(round_sum(v, -m, k.acc.precision));
    const Set distinct = set_of(arguments);
    std::vector<Set> choices;
    for (const double d : distinct) {
      for (std::size_t i = 0; i < n; ++i)
        if (arguments[i] == d) {
          choices.push_back(thinned(exponential_of(k, s[i], m), k.most));
          break;
        }
    }
    if (std::any_of(choices.begin(), choices.end(), [](const Set& c) { return c.empty(); })) continue;
    std::vector<std::size_t> chosen(choices.size(), 0);
    do {
      Fixed fixed;
      for (std::size_t j = 0; j < choices.size(); ++j) fixed[distinct[j]] = choices[j][chosen[j]];
      std::vector<double> e;
      std::vector<Term> terms;
      for (const double d : arguments) e.push_back(fixed[d]), terms.push_back({fixed[d]});
      if (!k.visible.empty()) {
        std::vector<Term> placed;
        std::size_t at_visible = 0;
        for (const bool seen : k.visible) placed.push_back(seen ? terms[at_visible++] : Term{0});
        terms = placed;
      }
      Set sum;
      if (k.has_sink && k.ended_by_sink) {
        const Term sink = terms.back();
        terms.pop_back();
        sum = added(k.acc, sums(k.acc, terms, k.order), used(k.acc, sink.x));
        terms.insert(terms.begin(), sink);
        if (k.order == Order::sequential || k.order == Order::any) join(sum, sums(k.acc, terms, k.order));
      } else {
        sum = sums(k.acc, terms, k.order);
      }
      if (k.rescales > 0) {
        std::vector<int> left(n);
        std::iota(left.begin(), left.end(), 0);
        online(k, fixed, s, left, -HUGE_VAL, {}, k.rescales, sum);
      }
      with(m, e, sum);
    } while (next(chosen, choices));
  } while (next(at, logits));
}

// exp(x_i - m'), kept, against a maximum m' of an earlier time, and then times exp(m' - m).
Set kept_before(const Exponentials& k, const std::vector<double>& x, std::size_t i, double m) {
  const Arithmetic w = arithmetic(k.weights, k.acc.flush);
  Set all;
  for (const double before : x) {
    if (before < x[i] || before >= m) continue;
    const Set kept = each(exponential_of(k, x[i], before), [&](double e) { return rounded(w, e); });
    join(all, multiplied(k.acc, kept, exponential_of(k, before, m)));
  }
  return all;
}

}  // namespace

std::vector<Set> softmax_members(const Exponentials& k, const std::vector<double>& x) {
  std::vector<std::vector<double>> found(x.size());
  for_each_choice(k, x, [&](double m, const std::vector<double>& e, const Set& sum) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      Set kept = used(k.acc, e[i]);
      if (k.weights != "f32") {
        const Arithmetic w = arithmetic(k.weights, k.acc.flush);
        kept = each(kept, [&](double v) { return rounded(w, v); });
      }
      if (k.weights != "f32" && k.kept_in_time && k.rescales > 0) join(kept, kept_before(k, x, i, m));
      const Set q = each(kept, sum, [&](double w, double l) { return quotient(k.acc, w, l, k.div_ulp); });
      found[i].insert(found[i].end(), q.begin(), q.end());
      if (found[i].size() > 4096) found[i] = set_of(std::move(found[i]));
    }
  });
  for (auto& f : found) f = set_of(std::move(f));
  return found;
}

namespace {

// log l + m; to base 2 that times log2(e), or log2(l) + m log2(e), fused or not.
Set stored_logarithm(const Exponentials& k, double l, double m) {
  const auto with_absolute = [&](long double exact) {
    const double unit = ulp(k.acc, static_cast<double>(exact));
    const double ulps = k.log_ulp + (l >= 0.5 && l <= 2 ? k.log_abs / unit : 0);
    return thinned(within(k.acc, exact, ulps), 5);
  };
  if (!(l > 0)) return logarithm(k.acc, l, k.log_ulp);
  const Set natural = with_absolute(std::log(static_cast<long double>(l)));
  const Set y = added(k.acc, natural, {m});
  if (!k.base2_log) return y;
  constexpr double kLog2e = 1.4426950408889634;  // to f64: its rounding to any type here is that of log2(e)
  const Set factor = rounded(k.acc, kLog2e);
  Set all = multiplied(k.acc, y, factor);
  const Set two = with_absolute(std::log2(static_cast<long double>(l)));
  join(all, added(k.acc, two, multiplied(k.acc, {m}, factor)));
  for (const double g : two) join(all, each(factor, [&](double f) { return fused(k.acc, m, f, g); }));
  return all;
}

}  // namespace

Set logsumexp_members(const Exponentials& k, const std::vector<double>& x) {
  std::vector<double> found;
  for_each_choice(k, x, [&](double m, const std::vector<double>&, const Set& sum) {
    const Set y = each(sum, [&](double l) { return stored_logarithm(k, l, m); });
    found.insert(found.end(), y.begin(), y.end());
  });
  return set_of(std::move(found));
}

}  // namespace assay::worlds
