#include "cases/studies/worlds/members_attention.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace assay::worlds {
namespace {

const Arithmetic& f32() {
  static const Arithmetic a = arithmetic("f32", false);
  return a;
}

using Fixed = std::map<double, double>;  // argument -> what exp returned: one kernel's exp is a function

bool next(std::vector<std::size_t>& digits, const std::vector<Set>& sets) {
  std::size_t i = 0;
  while (i < digits.size() && ++digits[i] == sets[i].size()) digits[i++] = 0;
  return i < digits.size();
}

// "qk: how q.k is summed"; "softcap tanh(s / softcap)"; "scores: format that logits are rounded to". The sum
// itself, for what is fused with the subtraction, and the logit.
struct Logit {
  Set sum, rounded;
};
// "- slope |i - j| added to the logits": its product rounded, or fused.
Logit logit(const Attention& a, const std::vector<double>& q, const std::vector<double>& k, double distance) {
  std::vector<Term> terms;
  for (std::size_t i = 0; i < q.size(); ++i) terms.push_back({q[i], k[i], true});
  Logit l;
  l.sum = sums(a.qk, terms, a.qk_order);
  if (a.scales_scores || a.scale == 1)
    l.rounded = each(l.sum, [&](double s) { return a.scale == 1 ? Set{s} : multiplied(f32(), s, a.scale); });
  if (a.scales_q && a.scale != 1) {
    for (Term& t : terms) t.x = round_to_precision(t.x * a.scale, a.q_scaled);
    join(l.rounded, sums(a.qk, terms, a.qk_order));
  }
  if (a.softcap != 0) {
    l.rounded = each(l.rounded, [&](double s) {
      return each(quotient(f32(), s, a.softcap, a.div_ulp), [&](double x) {
        return each(thinned(hyperbolic_tangent(f32(), x, a.tanh_ulp), 3),
                    [&](double t) { return multiplied(f32(), t, a.softcap); });
      });
    });
  }
  if (a.slope != 0) {
    const Set plain = l.rounded;
    l.rounded = added(f32(), plain, multiplied(f32(), {-a.slope}, {distance}));
    join(l.rounded, each(plain, [&](double s) { return fused(f32(), -a.slope, distance, s); }));
    l.rounded = thinned(l.rounded, 3);
  }
  l.rounded = thinned(each(l.rounded, [&](double s) { return rounded(a.scores, s); }), 3);
  return l;
}

// What one row's kernel has chosen: logits, their maximum, the arguments of exp, and exp.
struct Choice {
  std::vector<double> s;
  std::vector<Set> sums;
};

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
  Set all = added(f32(), c.s[i], -m);
  if (a.fused_argument && a.scales_scores && a.softcap == 0 && a.slope == 0 &&
      a.scores.precision == kPrecisionF32) {
    join(all, each(c.sums[i], [&](double s) { return fused(f32(), s, a.scale, -m); }));
  }
  return all;
}

Set exp_of(const Attention& a, const Fixed& fixed, double argument) {
  if (argument == 0 && a.exp_of_zero_is_one) return {1};
  const auto at = fixed.find(argument);
  return at != fixed.end() ? Set{at->second} : thinned(exponential(f32(), argument, a.exp_ulp), a.most);
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
void online(const Attention& a, const Choice& c, const Fixed& fixed, const std::vector<double>& v,
            std::vector<std::size_t> left, double m, const Part& part,
            const std::function<void(double, const Part&)>& with) {
  if (left.empty()) return with(m, part);
  const Arithmetic& running = a.promote == 0 ? a.pv : f32();
  for (std::size_t at = 0; at < (a.shaped ? 1 : left.size()); ++at) {
    std::vector<std::size_t> rest = left;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    const std::size_t i = left[at];
    const double top = part.l.empty() || c.s[i] > m + a.lag ? std::max(m, c.s[i]) : m;
    Part after;
    for (const double argument : arguments(a, c, i, top))
      for (const double e : exp_of(a, fixed, argument)) {
        const Part one = one_step(a, {e}, {v[i]});
        if (part.l.empty()) {
          join(after.l, one.l);
          join(after.o, one.o);
          continue;
        }
        Set factor = {1};
        if (top > m) factor = exp_of(a, fixed, round_sum(m, -top, kPrecisionF32));
        join(after.l, added(a.rowsum, multiplied(a.rowsum, part.l, factor), one.l));
        const Set old = multiplied(running, part.o, factor);
        join(after.o, added(running, old, one.o));
        for (const double w : weight(a, e))
          for (const double o : old)
            if (a.promote == 0) join(after.o, fused(running, w, v[i], o));
        for (const double x : one.l)
          join(after.l, each(part.l, factor, [&](double l, double f) { return fused(a.rowsum, l, f, x); }));
        for (const double x : one.o)
          join(after.o, each(part.o, factor, [&](double o, double f) { return fused(running, o, f, x); }));
      }
    after.l = thinned(after.l, 5);
    after.o = thinned(after.o, 5);
    online(a, c, fixed, v, rest, top, after, with);
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
      const Set y = sums(a.pv, terms, a.pv_order);
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
Part with_last_sink(const Attention& a, const Fixed& fixed, double m, Part part) {
  if (!a.has_sink || !(a.sink > m)) return with_sink(a, fixed, m, std::move(part));
  const Set factor = exp_of(a, fixed, round_sum(m, -a.sink, kPrecisionF32));
  Set l = multiplied(a.rowsum, part.l, factor), o = multiplied(a.pv, part.o, factor);
  join(l, multiplied(f32(), part.l, factor)), join(o, multiplied(f32(), part.o, factor));
  return with_sink(a, fixed, a.sink, {l, o});
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
      divide(a, {merged(parts[0].l, f, parts[1].l, h), merged(parts[0].o, f, parts[1].o, h)}, found);
      // Divided before: a part's quotient weighs as much as its sum.
      for (const double l0 : parts[0].l)
        for (const double l1 : parts[1].l) {
          const auto share = [&](const Part& part, double l, double factor) {
            const Set y =
                each(part.o, [&](double o) { return thinned(quotient(f32(), o, l, a.div_ulp), 3); });
            return multiplied(f32(), y, multiplied(f32(), {l}, {factor}));
          };
          const Set l = added(f32(), multiplied(f32(), {l0}, {f}), multiplied(f32(), {l1}, {h}));
          divide(a, {l, added(f32(), share(parts[0], l0, f), share(parts[1], l1, h))}, found);
        }
    }
}

// Kernels of one shape: tiles from key 0 upwards, parts that are runs of tiles, the sink behind them.
void shaped_members(const Attention& a, const Choice& c, const std::vector<double>& v, double m,
                    std::vector<double>& found) {
  std::vector<std::size_t> all(v.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto done = [&](const Fixed& fixed, double top, const Part& part) {
    divide(a, with_last_sink(a, fixed, top, part), found);
  };
  for_each_exponential(a, c, all, m, {}, [&](const std::vector<double>& e, const Fixed& fixed) {
    if (a.tile > 1) return done(fixed, m, one_step(a, e, v));
    const auto half =
        all.begin() + static_cast<std::ptrdiff_t>(a.split == 2 ? (all.size() + 1) / 2 : all.size());
    online(a, c, fixed, v, {all.begin(), half}, -HUGE_VAL, {}, [&](double top, const Part& one) {
      if (half == all.end()) return done(fixed, top, one);
      online(a, c, fixed, v, {half, all.end()}, -HUGE_VAL, {}, [&](double other, const Part& two) {
        merged_once(a, fixed, m, {top, other}, {one, two}, found);
      });
    });
  });
}

}  // namespace

Set attention_members(const Attention& a, const Keys3& x) {
  const std::size_t n = x.k.size();
  std::vector<Logit> logits;
  std::vector<Set> rounded_logits;
  for (const auto& k : x.k) {
    logits.push_back(logit(a, x.q, k, static_cast<double>(n - 1 - logits.size())));
    rounded_logits.push_back(logits.back().rounded);
  }
  std::vector<double> found;
  std::vector<std::size_t> at(n, 0);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(i);
  do {
    Choice c;
    for (std::size_t i = 0; i < n; ++i) {
      c.s.push_back(rounded_logits[i][at[i]]);
      c.sums.push_back(logits[i].sum);
    }
    const double keys = *std::max_element(c.s.begin(), c.s.end());
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
        const auto top = [&](const std::vector<std::size_t>& of) {
          double most = -HUGE_VAL;
          for (const std::size_t i : of) most = std::max(most, c.s[i]);
          return most;
        };
        const auto values = [&](const std::vector<std::size_t>& of) {
          std::vector<double> v;
          for (const std::size_t i : of) v.push_back(x.v[i]);
          return v;
        };
        for_each_exponential(a, c, low, top(low), {}, [&](const std::vector<double>& e, const Fixed& first) {
          for_each_exponential(
              a, c, high, top(high), first, [&](const std::vector<double>& g, const Fixed& fixed) {
                const Part one = one_step(a, e, values(low)), two = one_step(a, g, values(high));
                for (const double f : exp_of(a, fixed, round_sum(top(low), -m, kPrecisionF32)))
                  for (const double h : exp_of(a, fixed, round_sum(top(high), -m, kPrecisionF32))) {
                    const Part part{merged(one.l, f, two.l, h), merged(one.o, f, two.o, h)};
                    divide(a, with_sink(a, fixed, m, part), found);
                  }
              });
        });
      } else if (a.tile == 1) {
        for_each_exponential(a, c, all, m, {}, [&](const std::vector<double>&, const Fixed& fixed) {
          online(a, c, fixed, x.v, all, -HUGE_VAL, {},
                 [&](double top, const Part& part) { divide(a, with_sink(a, fixed, top, part), found); });
        });
      } else {
        for_each_exponential(a, c, all, m, {}, [&](const std::vector<double>& e, const Fixed& fixed) {
          const Part part = with_sink(a, fixed, m, one_step(a, e, x.v));
          a.shares ? shares(a, e, x.v, part.l, found) : divide(a, part, found);
        });
      }
      found = set_of(std::move(found));
    }
  } while (next(at, rounded_logits));
  return found;
}

}  // namespace assay::worlds
