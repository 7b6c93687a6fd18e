#include "cases/studies/worlds/members_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace assay::worlds {

const Arithmetic& f32() {
  static const Arithmetic a = arithmetic("f32", false);
  return a;
}

Set exp_of(const Attention& a, const Exponentials& met, double argument) {
  if (argument == 0 && a.exp_of_zero_is_one) return {1};
  if (argument < -0x1p100) return {0};  // "exp of a mask 0"
  const auto at = met.find(argument);
  return at != met.end() ? Set{at->second} : thinned(exponential(f32(), argument, a.exp_ulp), a.most);
}

namespace {

using Fixed = Exponentials;

template <class Sets>
bool next(std::vector<std::size_t>& digits, const Sets& sets) {
  std::size_t i = 0;
  while (i < digits.size() && ++digits[i] == sets[i].size()) digits[i++] = 0;
  return i < digits.size();
}

// "qk: how q.k is summed"; "softcap tanh(s / softcap)"; "scores: format that logits are rounded to". A
// logit, and the sum that it is of, where that may be fused with the subtraction of the maximum; NaN: it
// may not.
struct Logit {
  double s, sum;
};
// "- slope |i - j| added to the logits": its product rounded, or fused.
Set behind_the_sum(const Attention& a, const Set& scaled, double distance, bool is_hidden) {
  Set s = scaled;
  if (a.softcap != 0) {
    s = each(s, [&](double x) {
      return each(quotient(f32(), x, a.softcap, a.div_ulp), [&](double inner) {
        return each(thinned(hyperbolic_tangent(f32(), inner, a.tanh_ulp), 3),
                    [&](double t) { return multiplied(f32(), t, a.softcap); });
      });
    });
  }
  if (a.slope != 0) {
    const Set plain = s;
    s = added(f32(), plain, multiplied(f32(), {-a.slope}, {distance}));
    join(s, each(plain, [&](double x) { return fused(f32(), -a.slope, distance, x); }));
    s = thinned(s, 3);
  }
  // "-Inf is added"; "the lowest number of f32 is added as a mask".
  if (is_hidden) s = added(f32(), s, {a.mask == Attention::Mask::lowest ? -f32().largest : -HUGE_VAL});
  return thinned(each(s, [&](double x) { return rounded(a.scores, x); }), 3);
}

std::vector<Logit> logits(const Attention& a, const std::vector<double>& q, const std::vector<double>& k,
                          double distance, bool is_hidden) {
  constexpr double kNoSum = std::numeric_limits<double>::quiet_NaN();
  std::vector<Term> terms;
  for (std::size_t i = 0; i < q.size(); ++i) terms.push_back({q[i], k[i], true});
  const bool is_plain =
      a.scales_scores && a.softcap == 0 && a.slope == 0 && !is_hidden && a.scores.precision == kPrecisionF32;
  std::vector<Logit> all;
  if (a.scales_scores || a.scale == 1)
    for (const double sum : thinned(sums(a.qk, terms, a.qk_order), 3)) {
      const Set scaled = a.scale == 1 ? Set{sum} : multiplied(f32(), sum, a.scale);
      for (const double s : behind_the_sum(a, scaled, distance, is_hidden))
        all.push_back({s, is_plain ? sum : kNoSum});
    }
  if (a.scales_q && a.scale != 1) {
    for (Term& t : terms) t.x = round_to_precision(t.x * a.scale, a.q_scaled);
    for (const double s : behind_the_sum(a, thinned(sums(a.qk, terms, a.qk_order), 3), distance, is_hidden))
      all.push_back({s, kNoSum});
  }
  return all;
}

// What one row's kernel has chosen of each key.
using Choice = std::vector<Logit>;

Set weight(const Attention& a, double e) {
  const double shifted = std::ldexp(e, a.p_shift);
  return rounded(a.p, a.saturates ? std::min(shifted, a.p.largest) : shifted);
}

Set scaled_back(const Attention& a, const Set& o) {
  return a.p_shift == 0 || a.cast_denominator
             ? o
             : each(o, [&](double x) { return rounded(f32(), std::ldexp(x, -a.p_shift)); });
}

// Arguments of exp for key i under the maximum m: "rounded: a logit is rounded before the maximum is
// subtracted; any: or fused with that subtraction".
Set arguments(const Attention& a, const Choice& c, std::size_t i, double m) {
  if (c[i].s == -HUGE_VAL) return {-HUGE_VAL};  // "its key weighs 0", though no other was met
  Set all = added(f32(), c[i].s, -m);
  if (a.fused_argument && !std::isnan(c[i].sum)) join(all, fused(f32(), c[i].sum, a.scale, -m));
  return all;
}

// A part of the keys in one step: sums of the weights and of weights times values, under one choice of exp.
struct Part {
  Set l, o;
};
Part one_step(const Attention& a, const std::vector<double>& e, const std::vector<double>& v) {
  std::vector<Set> weights, summed;
  for (const double x : e) {
    weights.push_back(weight(a, x));
    summed.push_back(a.cast_denominator ? weights.back() : Set{x});
  }
  Part part;
  for (Set& s : summed) s = each(s, [&](double x) { return rounded(a.rowsum, x); });
  part.l = sums(a.rowsum, summed, a.rowsum_order);
  std::vector<Term> terms;
  const auto all = e.size(), chain = a.promote == 0 ? all : static_cast<std::size_t>(a.promote);
  for (std::size_t i = 0; i < all; ++i) {
    terms.push_back({weights[i].front(), v[i], true});
    if (terms.size() < chain && i + 1 < all) continue;
    const Set sum = sums(a.pv, terms, a.pv_order);
    part.o = part.o.empty() ? sum : added(f32(), part.o, sum);
    terms.clear();
  }
  return part;
}

// "tile: keys per step of the online softmax", of one key: the sums so far times exp(old - new), then the
// key's, fused or not.
using WithPart = std::function<void(double m, const Part&, const Fixed&)>;
void online(const Attention& a, const Choice& c, const Fixed& fixed, const std::vector<double>& v,
            std::vector<std::size_t> left, double m, const Part& part, const WithPart& with) {
  if (left.empty()) return with(m, part, fixed);
  const Arithmetic& running = a.promote == 0 ? a.pv : f32();
  for (std::size_t at = 0; at < (a.shaped ? 1 : left.size()); ++at) {
    std::vector<std::size_t> rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    const std::size_t i = left[at];
    const bool is_first = part.l.empty();
    const double top = is_first || c[i].s > m + a.lag ? std::max(m, c[i].s) : m;
    const double old = is_first || !(top > m) ? 0 : round_sum(m, -top, kPrecisionF32);
    for (const double argument : arguments(a, c, i, top))
      for (const double e : exp_of(a, fixed, argument)) {
        Fixed met = fixed;
        met.emplace(argument, e);
        const Part one = one_step(a, {e}, {v[i]});
        if (is_first) {
          online(a, c, met, v, rest, top, one, with);
          continue;
        }
        for (const double factor : old == 0 ? Set{1} : exp_of(a, met, old)) {
          Fixed all = met;
          if (old != 0) all.emplace(old, factor);
          Part after;
          after.l = added(a.rowsum, multiplied(a.rowsum, part.l, {factor}), one.l);
          const Set rescaled = multiplied(running, part.o, {factor});
          after.o = added(running, rescaled, one.o);
          for (const double o : rescaled)
            if (a.promote == 0) join(after.o, fused(running, weight(a, e).front(), v[i], o));
          for (const double x : one.l)
            join(after.l, each(part.l, [&](double l) { return fused(a.rowsum, l, factor, x); }));
          for (const double x : one.o)
            join(after.o, each(part.o, [&](double o) { return fused(running, o, factor, x); }));
          after.l = thinned(after.l, 3);
          after.o = thinned(after.o, 3);
          online(a, c, all, v, rest, top, after, with);
        }
      }
  }
}

// Calls with every choice of the arguments and exponentials of the keys `of`.
void for_each_exponential(const Attention& a, const Choice& c, const std::vector<std::size_t>& of, double m,
                          const Fixed& before,
                          const std::function<void(const std::vector<double>& e, const Fixed&)>& with) {
  std::vector<Set> possible;
  for (const std::size_t i : of) possible.push_back(arguments(a, c, i, m));
  std::vector<std::size_t> chosen(of.size(), 0);
  do {
    std::vector<double> x;
    for (std::size_t i = 0; i < of.size(); ++i) x.push_back(possible[i][chosen[i]]);
    const Set distinct = set_of(x);
    std::vector<Set> values;
    for (const double d : distinct) values.push_back(exp_of(a, before, d));
    std::vector<std::size_t> at(values.size(), 0);
    do {
      Fixed fixed = before;
      for (std::size_t i = 0; i < distinct.size(); ++i) fixed[distinct[i]] = values[i][at[i]];
      std::vector<double> e;
      for (const double d : x) e.push_back(fixed[d == 0 ? 0 : d]);
      with(e, fixed);
    } while (next(at, values));
  } while (next(chosen, possible));
}

// Weights as shares: each divided by the row sum, rounded to p, and summed with the values; nothing is
// divided after.
void shares(const Attention& a, const std::vector<double>& e, const std::vector<double>& v, const Set& sum,
            std::vector<double>& found) {
  for (const double l : sum) {
    std::vector<Set> weights;
    for (const double x : e)
      weights.push_back(
          each(thinned(quotient(f32(), x, l, a.div_ulp), 3), [&](double s) { return weight(a, s); }));
    std::vector<std::size_t> at(weights.size(), 0);
    do {
      std::vector<Term> terms;
      for (std::size_t i = 0; i < e.size(); ++i) terms.push_back({weights[i][at[i]], v[i], true});
      const Set y = scaled_back(a, sums(a.pv, terms, a.pv_order));
      found.insert(found.end(), y.begin(), y.end());
    } while (next(at, weights));
  }
}

void divide(const Attention& a, const Part& part, std::vector<double>& found) {
  const Set y = each(scaled_back(a, part.o), part.l,
                     [&](double o, double l) { return thinned(quotient(f32(), o, l, a.div_ulp), 3); });
  found.insert(found.end(), y.begin(), y.end());
}

// "sinks: one more logit in the denominator".
Part with_sink(const Attention& a, const Fixed& fixed, double m, Part part) {
  if (!a.has_sink) return part;
  const double argument = round_sum(a.sink, -m, kPrecisionF32);
  Set e = exp_of(a, fixed, argument == 0 ? 0 : argument);
  if (a.cast_denominator && a.p_shift != 0)
    e = each(e, [&](double x) { return rounded(f32(), std::ldexp(x, a.p_shift)); });
  part.l = added(f32(), part.l, e);
  return part;
}

// "last: after the keys", whose sums are rescaled where the sink is the maximum, in a register or in f32.
void divide_with_last_sink(const Attention& a, const Fixed& fixed, double m, const Part& part,
                           std::vector<double>& found) {
  if (!a.has_sink || !(a.sink > m)) return divide(a, with_sink(a, fixed, m, part), found);
  const Arithmetic& running = a.promote == 0 ? a.pv : f32();
  for (const double factor : exp_of(a, fixed, round_sum(m, -a.sink, kPrecisionF32))) {
    Set l = multiplied(a.rowsum, part.l, {factor}), o = multiplied(running, part.o, {factor});
    join(l, multiplied(f32(), part.l, {factor})), join(o, multiplied(f32(), part.o, {factor}));
    divide(a, with_sink(a, fixed, a.sink, {l, o}), found);
  }
}

// Two parts' sums, each times its factor, the first product rounded or fused.
Set merged(const Set& p, double f, const Set& q, double h) {
  Set s = added(f32(), multiplied(f32(), p, {f}), multiplied(f32(), q, {h}));
  for (const double r : multiplied(f32(), q, {h}))
    join(s, each(p, [&](double y) { return fused(f32(), y, f, r); }));
  return s;
}

// "all scaled to their largest, divided by their sums before or not".
void merged_once(const Attention& a, const Fixed& fixed, double m, const std::vector<double>& tops,
                 const std::vector<Part>& parts, std::vector<double>& found) {
  for (const double f : exp_of(a, fixed, round_sum(tops[0], -m, kPrecisionF32)))
    for (const double h : exp_of(a, fixed, round_sum(tops[1], -m, kPrecisionF32))) {
      const Part all{merged(parts[0].l, f, parts[1].l, h), merged(parts[0].o, f, parts[1].o, h)};
      divide_with_last_sink(a, fixed, m, all, found);
      // Divided before: a part's quotient weighs as much as its sum.
      for (const double l0 : parts[0].l)
        for (const double l1 : parts[1].l) {
          if (l0 == 0 || l1 == 0) continue;  // all its keys are hidden: it is not divided
          const auto share = [&](const Part& part, double l, double factor) {
            const Set y =
                each(part.o, [&](double o) { return thinned(quotient(f32(), o, l, a.div_ulp), 3); });
            return multiplied(f32(), y, multiplied(f32(), {l}, {factor}));
          };
          const Set l = added(f32(), multiplied(f32(), {l0}, {f}), multiplied(f32(), {l1}, {h}));
          const Part shares_of{l, added(f32(), share(parts[0], l0, f), share(parts[1], l1, h))};
          divide_with_last_sink(a, fixed, m, shares_of, found);
        }
    }
}

// Kernels of one shape: tiles from key 0 upwards, parts that are runs of tiles, the sink behind them.
void shaped_members(const Attention& a, const Choice& c, const std::vector<double>& v, double m,
                    std::vector<double>& found) {
  std::vector<std::size_t> all(v.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (a.tile > 1)
    return for_each_exponential(a, c, all, m, {}, [&](const std::vector<double>& e, const Fixed& fixed) {
      divide_with_last_sink(a, fixed, m, one_step(a, e, v), found);
    });
  const auto half =
      all.begin() + static_cast<std::ptrdiff_t>(a.split == 2 ? (all.size() + 1) / 2 : all.size());
  online(a, c, {}, v, {all.begin(), half}, -HUGE_VAL, {},
         [&](double top, const Part& one, const Fixed& fixed) {
           if (half == all.end()) return divide_with_last_sink(a, fixed, top, one, found);
           online(a, c, fixed, v, {half, all.end()}, -HUGE_VAL, {},
                  [&](double other, const Part& two, const Fixed& both) {
                    merged_once(a, both, m, {top, other}, {one, two}, found);
                  });
         });
}

}  // namespace

Set attention_members(const Attention& a, const Keys3& x) {
  const std::size_t n = x.k.size();
  std::vector<std::vector<Logit>> possible;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_hidden = !a.hidden.empty() && a.hidden[i];
    possible.push_back(logits(a, x.q, x.k[i], static_cast<double>(n - 1 - i), is_hidden));
    all.push_back(i);
  }
  std::vector<double> found;
  std::vector<std::size_t> at(n, 0);
  const auto top = [](const Choice& c, const std::vector<std::size_t>& of) {
    double most = -HUGE_VAL;
    for (const std::size_t i : of) most = std::max(most, c[i].s);
    return most;
  };
  do {
    Choice c;
    for (std::size_t i = 0; i < n; ++i) c.push_back(possible[i][at[i]]);
    const double keys = top(c, all);
    if (a.shaped) {
      shaped_members(a, c, x.v, keys, found);
      found = set_of(std::move(found));
      continue;
    }
    for (const bool sink_in_maximum : {false, true}) {
      if (sink_in_maximum && !(a.has_sink && a.sink > keys)) continue;
      const double m = sink_in_maximum ? a.sink : keys;
      if (a.split == 2 && n > 1) {  // "parts of the keys computed apart and merged in f32"
        const std::size_t half = (n + 1) / 2;
        const std::vector<std::size_t> low(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(half)),
            high(all.begin() + static_cast<std::ptrdiff_t>(half), all.end());
        const auto values = [&](const std::vector<std::size_t>& of) {
          std::vector<double> v;
          for (const std::size_t i : of) v.push_back(x.v[i]);
          return v;
        };
        for_each_exponential(
            a, c, low, top(c, low), {}, [&](const std::vector<double>& e, const Fixed& first) {
              for_each_exponential(
                  a, c, high, top(c, high), first, [&](const std::vector<double>& g, const Fixed& fixed) {
                    const Part one = one_step(a, e, values(low)), two = one_step(a, g, values(high));
                    for (const double f : exp_of(a, fixed, round_sum(top(c, low), -m, kPrecisionF32)))
                      for (const double h : exp_of(a, fixed, round_sum(top(c, high), -m, kPrecisionF32))) {
                        const Part part{merged(one.l, f, two.l, h), merged(one.o, f, two.o, h)};
                        divide(a, with_sink(a, fixed, m, part), found);
                      }
                  });
            });
      } else if (a.tile == 1) {
        online(a, c, {}, x.v, all, -HUGE_VAL, {}, [&](double last, const Part& part, const Fixed& fixed) {
          divide(a, with_sink(a, fixed, last, part), found);
        });
      } else {
        for_each_exponential(a, c, all, m, {}, [&](const std::vector<double>& e, const Fixed& fixed) {
          const Part part = with_sink(a, fixed, m, one_step(a, e, x.v));
          a.shares ? shares(a, e, x.v, part.l, found) : divide(a, part, found);
        });
      }
      found = set_of(std::move(found));
    }
  } while (next(at, possible));
  return found;
}

}  // namespace assay::worlds
