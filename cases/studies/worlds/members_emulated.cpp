// Members of attention's level=emu. One kernel: what is open is what a function within its ulps returns.
#include <algorithm>
#include <cmath>
#include <string>

#include "cases/studies/worlds/members_attention.hpp"
#include "cases/studies/worlds/members_unit.hpp"

namespace assay::worlds {
namespace {

// "full blocks of the unit in order, keys and products one after the other, no product fused but by a unit".
Set chain(const Arithmetic& a, const MatrixUnit* unit, const std::vector<double>& x,
          const std::vector<double>& y, double start) {
  if (unit != nullptr) {
    const std::string_view format = unit->inputs.substr(0, unit->inputs.find(' '));
    return unit_sums(*unit, format, x, y, {.any = false, .start = start}, false);
  }
  Set s = {start};
  for (std::size_t i = 0; i < x.size(); ++i) s = added(a, s, multiplied(a, x[i], y[i]));
  return s;
}

// "the scale (the exact product of all scales, as one f32)"; "scores: softcap and slope (level=emu: behind)".
Set logits(const Attention& a, const Keys3& x, std::size_t i) {
  Set s = chain(a.qk, a.qk_unit, x.q, x.k[i], 0);
  if (a.scale != 1) s = multiplied(f32(), s, {a.scale});
  if (a.softcap != 0)
    s = each(s, [&](double v) {
      return each(quotient(f32(), v, a.softcap, a.div_ulp), [&](double t) {
        return each(thinned(hyperbolic_tangent(f32(), t, a.tanh_ulp), 3),
                    [&](double r) { return multiplied(f32(), r, a.softcap); });
      });
    });
  if (a.slope != 0) s = added(f32(), s, multiplied(f32(), -a.slope, static_cast<double>(x.k.size() - 1 - i)));
  return thinned(each(s, [&](double v) { return rounded(a.scores, v); }), 3);
}

struct State {
  double m = -HUGE_VAL, l = 0, o = 0;
  Exponentials met;
};

class Emulated {
 public:
  Emulated(const Attention& a, const Keys3& x, std::vector<double> s) : a_(a), x_(x), s_(std::move(s)) {}

  void run() {
    const std::size_t n = s_.size(), tile = static_cast<std::size_t>(a_.tile), tiles = (n + tile - 1) / tile,
                      of_part = (tiles + static_cast<std::size_t>(a_.split) - 1) /
                                static_cast<std::size_t>(a_.split);
    for (std::size_t first = 0; first < n; first += of_part * tile)
      parts_.emplace_back(first, std::min(n, first + of_part * tile));
    part(0, {}, {});
  }
  std::vector<double> found;

 private:
  using With = std::function<void(const State&)>;

  // Part `at` of the keys, and those behind it.
  void part(std::size_t at, const std::vector<State>& done, const Exponentials& met) {
    if (at == parts_.size()) return merge(done);
    State fresh;
    fresh.met = met;
    tile(parts_[at].first, parts_[at].second, fresh, [&](const State& s) {
      const auto next = [&](const State& with) {
        std::vector<State> all = done;
        all.push_back(with);
        part(at + 1, all, with.met);
      };
      at + 1 == parts_.size() && a_.has_sink ? sink(s, next) : next(s);
    });
  }

  void rise(const State& s, double top, const With& with) {
    const double argument = s.m == -HUGE_VAL ? -HUGE_VAL : round_sum(s.m, -top, kPrecisionF32);
    const bool is_unit = a_.pv_unit != nullptr;
    const Arithmetic& o_type = a_.promote != 0 || is_unit ? f32() : a_.pv;
    for (const double f : exp_of(a_, s.met, argument)) {
      State r = s;
      r.met[argument] = f;
      r.m = top;
      r.l = multiplied(a_.rowsum, s.l, f).front();
      r.o = multiplied(o_type, s.o, f).front();
      with(r);
    }
  }

  void tile(std::size_t first, std::size_t end, const State& s, const With& with) {
    if (first >= end) return with(s);
    const std::size_t last = std::min(end, first + static_cast<std::size_t>(a_.tile));
    const double top = std::max(s.m, *std::max_element(s_.begin() + static_cast<std::ptrdiff_t>(first),
                                                       s_.begin() + static_cast<std::ptrdiff_t>(last)));
    if (top == -HUGE_VAL) return tile(last, end, s, with);  // all its keys are hidden
    rise(s, top, [&](const State& risen) {
      keys(first, first, last, risen, {}, [&](const State& t) { tile(last, end, t, with); });
    });
  }

  // "weights times 2^p_shift, their row sum without it, each sum of it rounded to rowsum, weights before it
  // not"; denominator=cast: after the rounding.
  void keys(std::size_t first, std::size_t i, std::size_t last, const State& s, std::vector<double> p,
            const With& with) {
    if (i == last) return with(summed(first, last, s, p));
    const double argument = s_[i] == -HUGE_VAL ? -HUGE_VAL : round_sum(s_[i], -s.m, kPrecisionF32);
    for (const double e : exp_of(a_, s.met, argument)) {
      State t = s;
      t.met[argument] = e;
      double w = std::ldexp(e, a_.p_shift);
      w = rounded(a_.p, a_.saturates ? std::min(w, a_.p.largest) : w).front();
      const double of_sum = a_.cast_denominator ? std::ldexp(w, -a_.p_shift) : e;
      t.l = added(a_.rowsum, s.l, of_sum).front();
      p.push_back(w);
      keys(first, i + 1, last, t, p, with);
      p.pop_back();
    }
  }

  State summed(std::size_t first, std::size_t last, State s, const std::vector<double>& p) const {
    std::vector<double> v(x_.v.begin() + static_cast<std::ptrdiff_t>(first),
                          x_.v.begin() + static_cast<std::ptrdiff_t>(last));
    for (std::size_t i = 0; i < v.size(); ++i)
      if (s_[first + i] == -HUGE_VAL) v[i] = 0;
    if (a_.promote == 0) {
      s.o = chain(a_.pv, a_.pv_unit, p, v, s.o).front();
      return s;
    }
    const auto size = static_cast<std::ptrdiff_t>(a_.promote);
    for (std::ptrdiff_t at = 0; at < std::ssize(v); at += size) {
      const auto end = std::min(std::ssize(v), at + size);
      const std::vector<double> some(p.begin() + at, p.begin() + end), of(v.begin() + at, v.begin() + end);
      s.o = round_sum(s.o, chain(a_.pv, a_.pv_unit, some, of, 0).front(), kPrecisionF32);
    }
    return s;
  }

  // "sink=last, behind the last part's keys".
  void sink(const State& s, const With& with) {
    rise(s, std::max(s.m, a_.sink), [&](const State& risen) {
      for (const double e : exp_of(a_, risen.met, round_sum(a_.sink, -risen.m, kPrecisionF32))) {
        State t = risen;
        t.l = added(a_.rowsum, t.l, e).front();
        with(t);
      }
    });
  }

  Set over(double o, double l) const { return thinned(quotient(f32(), o, l, a_.div_ulp), 3); }

  // "each part divided by its sum, then weighed by exp of its log-sum-exp less the largest".
  void merge(const std::vector<State>& parts) {
    if (parts_.size() == 1) return out(over(parts[0].o, parts[0].l));
    std::vector<Set> lse;
    for (const State& s : parts)
      lse.push_back(s.l == 0   ? Set{-HUGE_VAL}
                    : s.l == 1 ? Set{s.m}  // "log(1) is 0"
                               : each(thinned(logarithm(f32(), s.l, a_.exp_ulp), 3),
                                      [&](double log) { return Set{round_sum(s.m, log, kPrecisionF32)}; }));
    for (const double one : lse[0])
      for (const double two : lse[1]) {
        const double top = std::max(one, two);
        const auto weight = [&](double x) {
          return exp_of(a_, parts.back().met, x == -HUGE_VAL ? x : round_sum(x, -top, kPrecisionF32));
        };
        for (const double f : weight(one))
          for (const double h : weight(two)) {
            const Set low = parts[0].l == 0 ? Set{0} : multiplied(f32(), over(parts[0].o, parts[0].l), {f}),
                      high = parts[1].l == 0 ? Set{0} : multiplied(f32(), over(parts[1].o, parts[1].l), {h});
            const double l = round_sum(f, h, kPrecisionF32);
            out(each(added(f32(), low, high), [&](double o) { return over(o, l); }));
          }
      }
  }

  void out(const Set& y) {
    for (const double each : y) found.push_back(rounded(f32(), std::ldexp(each, -a_.p_shift)).front());
  }

  const Attention& a_;
  const Keys3& x_;
  std::vector<double> s_;
  std::vector<std::pair<std::size_t, std::size_t>> parts_;
};

}  // namespace

Set emulated_members(const Attention& a, const Keys3& x) {
  std::vector<Set> possible;
  for (std::size_t i = 0; i < x.k.size(); ++i)
    possible.push_back(!a.hidden.empty() && a.hidden[i] ? Set{-HUGE_VAL} : logits(a, x, i));
  std::vector<double> found, s(possible.size());
  const std::function<void(std::size_t)> choose = [&](std::size_t i) {
    if (i == s.size()) {
      Emulated kernel(a, x, s);
      kernel.run();
      found.insert(found.end(), kernel.found.begin(), kernel.found.end());
      return;
    }
    for (const double each : possible[i]) s[i] = each, choose(i + 1);
  };
  choose(0);
  return set_of(std::move(found));
}

}  // namespace assay::worlds
