#include "cases/studies/adversary/attention_online.hpp"

#include <algorithm>
#include <cmath>

namespace assay::adversary {
namespace {

constexpr double kLog2E = 1.4426950408889634;

bool caps(const Problem& p) { return p.attributes.real("softcap") != 0; }

}  // namespace

AttentionOnline::AttentionOnline(const Problem& p, const AttentionSums& sums)
    : p_(p),
      sums_(sums),
      f32_(sums.f32()),
      sides_(p.text("sides"), p.seed(), static_cast<std::int64_t>(p.seed() % 16)),
      folds_(p.is("exp", "folded") && p.is("scores", "f32") && !caps(p) &&
             p.attributes.text("alibi") == "no"),
      shift_(f32_.round(std::exp2(p.number("p_shift")))) {}

// exp(a - b); of an argument of 0 exactly 1. A function gives one result for one argument: the side is that
// of the key which came first. Of a fused difference the argument is not a - b alone, and each may have its
// own.
double AttentionOnline::exp_of(double a, double b, std::int64_t j) const {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == -kInf || a - b < -0x1p100) return 0;  // hidden by a mask, infinite or finite
  const bool fused = p_.is("exp", "base2_fused");
  const double c = f32_.round(kLog2E);
  double t = fused ? f32_.fma(a, c, -f32_.mul(b, c)) : f32_.sub(a, b);
  if (p_.is("exp", "base2") || (p_.is("exp", "folded") && !folds_)) t = f32_.mul(c, t);
  if (t == 0) return 1;
  const int side = fused ? sides_.of(j) : exp_sides_.emplace(t, sides_.of(j)).first->second;
  const double w = f32_.within(p_.is("exp", "e") ? std::exp(t) : std::exp2(t), p_.number("exp_ulp"), side);
  return p_.is("exp_flush", "yes") && w < f32_.least_normal() ? 0 : w;
}

// Of what is relative to `from`, to make it relative to `to`: 1 where that is the same.
double AttentionOnline::factor(double from, double to, std::int64_t j) const {
  return from == to ? 1 : exp_of(from, to, j);
}

double AttentionOnline::log_of(double l, std::int64_t j) const {
  const int side = log_sides_.emplace(l, sides_.of(j)).first->second;
  return f32_.within(folds_ ? std::log2(l) : std::log(l), p_.number("exp_ulp"), side);
}

// w to its format, shifted; what PV multiplies.
double AttentionOnline::cast(double w) const {
  const double shifted = f32_.mul(w, shift_);
  if (p_.is("p", "f32")) return shifted;
  if (p_.is("p", "tf32")) return as_operand(p_, "tf32", shifted);
  return as_cast(p_, p_.text("p"), shifted, Overflow::saturate);
}
double AttentionOnline::without_shift(double o) const { return f32_.div(o, shift_); }
AttentionOnline::State AttentionOnline::without_shift(State s) const {
  for (double& o : s.out) o = without_shift(o);
  return s;
}

void AttentionOnline::rescale(State& s, double max, std::int64_t j) const {
  if (s.max != -kInf) {
    const double a = factor(s.max, max, j);
    s.sum = sums_.rowsum().mul(s.sum, a);
    for (double& o : s.out) o = sums_.rescaled(o, a);
  }
  s.max = max;
}

// One step of the online softmax.
void AttentionOnline::take_tile(State& s, const AttentionRowKeys& keys, std::int64_t first, std::int64_t last,
                                bool ends) const {
  const double lag = p_.number("lag") * (folds_ ? kLog2E : 1);
  double max = s.max;
  for (std::int64_t i = first; i < last; ++i)
    if (keys.seen[i]) max = std::isnan(keys.x[i]) ? keys.x[i] : std::max(max, keys.x[i]);
  if (max == -kInf) return;
  const bool rises = max > s.max + lag || std::isnan(max) || s.max == -kInf;
  if (rises) rescale(s, max, first);
  s.any = true;
  std::vector<double> terms, weights;
  std::vector<std::int64_t> at;
  for (std::int64_t i = first; i < last; ++i) {
    if (keys.seen[i]) {
      terms.push_back(exp_of(keys.x[i], s.max, i));
      weights.push_back(cast(terms.back()));
      at.push_back(i);
    } else if (sums_.unit() !=
               nullptr) {  // a unit's blocks are of all keys of the tile: a hidden one is multiplied by zero
      weights.push_back(0), at.push_back(-1);
    }
  }
  if (p_.is("denominator", "cast")) {
    terms.clear();
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (at[i] >= 0) terms.push_back(without_shift(weights[i]));
  }
  if (p_.is("defect", "last_key_unsummed") && ends) terms.back() = 0;
  s.sum = sums_.weights_onto(s.sum, terms);
  std::vector<double> column(at.size());
  const std::size_t dv = s.out.size();
  for (std::size_t c = 0; c < dv; ++c) {
    for (std::size_t i = 0; i < at.size(); ++i)
      column[i] = at[i] < 0 ? 0 : keys.v[static_cast<std::size_t>(at[i]) * dv + c];
    s.out[c] = sums_.values_onto(s.out[c], weights, column);
  }
}

// Where the tiles of [first, last) begin, and its end.
std::vector<std::int64_t> AttentionOnline::borders(const AttentionRowKeys& keys, std::int64_t first,
                                                   std::int64_t last) const {
  const std::int64_t tile =
      p_.is("tile", "none") ? last - first : static_cast<std::int64_t>(p_.number("tile"));
  std::int64_t at = first;
  std::vector<std::int64_t> all{at};
  if (p_.is("start", "first"))
    at = std::max(first, keys.first);
  else if (p_.is("start", "end"))
    at = first + (last - first) % tile;
  else if (p_.number("start") > 0)
    at = std::min(last, first + static_cast<std::int64_t>(p_.number("start")));
  for (; at < last; at += tile)
    if (at > all.back()) all.push_back(at);
  all.push_back(last);
  return all;
}

AttentionOnline::State AttentionOnline::part_of(State s, const AttentionRowKeys& keys, std::int64_t first,
                                                std::int64_t last) const {
  const std::vector<std::int64_t> at = borders(keys, first, last);
  const std::size_t tiles = at.size() - 1;
  for (std::size_t i = 0; i < tiles; ++i) {
    const std::size_t t = p_.is("direction", "descending") ? tiles - 1 - i : i;
    take_tile(s, keys, at[t], at[t + 1], i + 1 == tiles);
  }
  return s;
}

AttentionOnline::State AttentionOnline::merged_by_states(State a, const State& b) const {
  const double max = std::max(a.max, b.max), x = factor(a.max, max, 0), y = factor(b.max, max, 1);
  a.sum = f32_.add(f32_.mul(a.sum, x), f32_.mul(b.sum, y));
  for (std::size_t i = 0; i < a.out.size(); ++i)
    a.out[i] = f32_.add(f32_.mul(a.out[i], x), f32_.mul(b.out[i], y));
  a.max = max;
  return a;
}

// The output divided already, its log-sum-exp in place of the maximum.
AttentionOnline::State AttentionOnline::divided(const State& s, std::int64_t j) const {
  State d{f32_.add(s.max, log_of(s.sum, j)), 1, s.out, true};
  for (double& o : d.out) o = quotient(f32_, o, s.sum, p_.text("quotient"), sides_.of(j));
  return d;
}
AttentionOnline::State AttentionOnline::merged_by_logs(const State& a, const State& b) const {
  return divided(merged_by_states(a, b), 0);
}

// All of them to the largest maximum, or log-sum-exp, of all.
AttentionOnline::State AttentionOnline::merged_at_once(std::vector<State> parts) const {
  State all{-kInf, 0, std::vector<double>(parts.front().out.size()), true};
  for (const State& each : parts) all.max = std::max(all.max, each.max);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double a = factor(parts[i].max, all.max, static_cast<std::int64_t>(i));
    all.sum = f32_.add(all.sum, f32_.mul(parts[i].sum, a));
    for (std::size_t c = 0; c < all.out.size(); ++c)
      all.out[c] = f32_.add(all.out[c], f32_.mul(parts[i].out[c], a));
  }
  return all;
}

// Divided by their own sums, each under a weight that is divided by the sum of all: nothing is left to
// divide.
AttentionOnline::State AttentionOnline::weighed(const std::vector<State>& parts) const {
  State all{-kInf, 0, std::vector<double>(parts.front().out.size()), true, true};
  for (const State& each : parts) all.max = std::max(all.max, each.max);
  std::vector<double> weights;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    weights.push_back(f32_.mul(parts[i].sum, factor(parts[i].max, all.max, static_cast<std::int64_t>(i))));
    all.sum = f32_.add(all.sum, weights.back());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto side = static_cast<std::int64_t>(i);
    const double weight = quotient(f32_, weights[i], all.sum, p_.text("quotient"), sides_.of(side + 64));
    const State own = divided(parts[i], side);
    for (std::size_t c = 0; c < all.out.size(); ++c)
      all.out[c] = f32_.add(all.out[c], f32_.mul(own.out[c], weight));
  }
  return all;
}

AttentionOnline::State AttentionOnline::merged(const std::vector<State>& parts, bool is_last) const {
  if (parts.size() == 1) return parts.front();
  if (p_.is("merge", "weighed") && is_last) return weighed(parts);
  std::vector<State> own(parts);
  if (p_.is("merge", "logs") || p_.is("merge", "any"))
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = divided(parts[i], static_cast<std::int64_t>(i));
  if (p_.is("merge", "once") || p_.is("merge", "logs") || p_.is("merge", "weighed"))
    return merged_at_once(std::move(own));
  State all = own.front();
  for (std::size_t i = 1; i < own.size(); ++i)
    all = p_.is("merge", "any") ? merged_by_logs(all, own[i]) : merged_by_states(all, own[i]);
  return all;
}

// in_register: where the outputs still are.
void AttentionOnline::add_sink(State& s, double sink, bool in_register) const {
  const double max = std::max(s.max, sink);
  if (p_.is("sink", "first")) {  // in the running maximum
    const double a = factor(s.max, max, 0);
    s.sum = f32_.add(f32_.mul(s.sum, a), exp_of(sink, max, 1));
    for (double& o : s.out) o = in_register ? sums_.rescaled(o, a) : f32_.mul(o, a);
  } else {
    s.sum = f32_.add(s.sum, exp_of(sink, s.max, 1));
  }
}

std::vector<double> AttentionOnline::quotients(const State& s) const {
  if (s.is_divided) return s.out;
  std::vector<double> o(s.out.size());
  for (std::size_t i = 0; i < o.size(); ++i)
    o[i] = quotient(f32_, s.out[i], s.sum, p_.text("quotient"), sides_.of(static_cast<std::int64_t>(i)));
  return o;
}

std::vector<double> AttentionOnline::outputs(const AttentionRowKeys& keys, std::int64_t size, std::size_t dv,
                                             const double* sink) const {
  if (p_.is("weights", "shares")) return shares(keys, dv, sink);
  const auto n = static_cast<std::int64_t>(keys.x.size());
  State none, begin;
  none.out.assign(dv, 0.0);
  begin = none;
  const bool before = sink != nullptr && p_.is("sink", "before");
  // Of a sink of -Inf, or one that log2 e takes there, the first rescale leaves nothing.
  if (before) begin.max = *sink, begin.sum = *sink == -kInf ? 0 : 1, begin.any = true;
  if (size >= n) {
    State all = part_of(begin, keys, 0, n);
    if (sink != nullptr && !before) add_sink(all, *sink, true);
    return quotients(without_shift(all));
  }
  std::vector<State> parts;
  if (before) parts.push_back(begin);
  for (std::int64_t first = 0; first < n; first += size)
    if (State own = part_of(none, keys, first, std::min(first + size, n)); own.any)
      parts.push_back(without_shift(std::move(own)));
  const bool adds_sink = sink != nullptr && !before;
  State all = parts.empty() ? none : merged(parts, !adds_sink);
  if (adds_sink) add_sink(all, *sink, false);
  return quotients(all);
}

// Two passes: maximum and sum of all, then weights divided by it.
std::vector<double> AttentionOnline::shares(const AttentionRowKeys& keys, std::size_t dv,
                                            const double* sink) const {
  State s;
  s.out.assign(dv, 0.0);
  std::vector<std::int64_t> at;
  for (std::size_t i = 0; i < keys.x.size(); ++i)
    if (keys.seen[i]) {
      at.push_back(static_cast<std::int64_t>(i));
      s.max = std::isnan(keys.x[i]) ? keys.x[i] : std::max(s.max, keys.x[i]);
    }
  if (sink != nullptr && !p_.is("sink", "last")) s.max = std::max(s.max, *sink);
  std::vector<double> terms, column(at.size());
  for (const std::int64_t i : at) terms.push_back(exp_of(keys.x[i], s.max, i));
  s.sum = sums_.weights_onto(0, terms);
  if (sink != nullptr) s.sum = f32_.add(s.sum, exp_of(*sink, s.max, 1));
  for (std::size_t i = 0; i < at.size(); ++i)
    terms[i] = cast(quotient(f32_, terms[i], s.sum, p_.text("quotient"), sides_.of(at[i])));
  for (std::size_t c = 0; c < dv; ++c) {
    for (std::size_t i = 0; i < at.size(); ++i) column[i] = keys.v[static_cast<std::size_t>(at[i]) * dv + c];
    s.out[c] = without_shift(sums_.values_onto(0, terms, column));
  }
  return s.out;
}

}  // namespace assay::adversary
