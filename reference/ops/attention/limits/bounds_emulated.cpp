// Level EMU: the declared kernel run in interval arithmetic, step for step as emulated.cpp runs it. S is
// exact, so logits, maxima and arguments of exp are single numbers; exp and log are intervals; all else is
// monotone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/bounds_detail.hpp"
#include "reference/ops/attention/limits/bounds_interval.hpp"

namespace assay {
namespace {
using namespace attention_bounds;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Kernel {
  const AttentionArithmetic& how;
  double eps;
  Precision sum;

  Interval exp_of(double low, double high) const {
    const auto real = [&](double t) { return how.base2 ? std::exp2(t) : std::exp(t); };
    const auto off = [&](double e) { return eps * std::max(e, 0x1p-126); };  // an ulp of subnormals is 2^-149
    Interval r{low == 0 ? 1 : real(low) - off(real(low)), high == 0 ? 1 : real(high) + off(real(high))};
    if (r.low < 0x1.000002p-126) r.low = 0;
    if (r.high < 0x1p-126) r.high = 0x1p-126;
    return r;
  }
  Interval in_sum(double low, double high) const { return to_type(low, high, sum); }
};

double f32(double x) { return static_cast<double>(static_cast<float>(x)); }

struct PartResult {
  float m = kMinusInfinity;
  Interval l{0, 0};
  IntervalColumns o;
};

}  // namespace

void AttentionBounds::emulated(const QueryRow& query, const RowLogits& /*row*/, RowBounds& r) const {
  const auto n = static_cast<std::size_t>(kv_.dv);
  const FormatModel p(how_.p);
  const Accumulator pv = accumulator(how_.pv);
  const Kernel kernel{how_, exp_error(how_), accumulator(how_.rowsum).precision};
  IntervalSum sum(pv, kv_, *facts_, how_.p == "f32" ? -126 : p.emin);
  std::vector<float> s(static_cast<std::size_t>(kv_.keys)), x(s.size());
  std::call_once(emulator_once_, [&] { emulator_ = std::make_unique<AttentionEmulator>(how_, kv_); });
  emulator_->scores(query, s);
  const LogitModel logit(how_, query);
  const std::int64_t tiles = (kv_.keys + how_.tile - 1) / how_.tile;
  const std::int64_t chain = how_.chained() ? how_.tile : std::min(how_.promote, how_.tile);
  std::vector<double> p_low(s.size()), p_high(s.size());
  std::vector<PartResult> parts;
  const std::int64_t split = parts_of(tiles, how_.split);
  for (std::int64_t index = 0; index < split; ++index) {
    const TileRange range = split_range(tiles, split, index);
    PartResult part{kMinusInfinity, {0, 0}, IntervalColumns(n)};
    const auto rise = [&](float top, bool is_read) {
      const Interval a =
          part.m == kMinusInfinity ? Interval{0, 0} : kernel.exp_of(part.m - top, part.m - top);
      part.m = top;
      part.l = kernel.in_sum(part.l.low * a.low, part.l.high * a.high);
      rescale_interval(part.o, a, pv, how_.chained(), is_read);
    };
    for (std::int64_t t = range.first; t < range.last; ++t) {
      const std::int64_t first = t * how_.tile, last = std::min(kv_.keys, first + how_.tile);
      float top = part.m;
      for (std::int64_t j = first; j < last; ++j) {
        x[j] = query.sees(j) ? logit(s[j], j) : kMinusInfinity;
        top = std::max(top, x[j]);
      }
      if (top == kMinusInfinity) continue;
      rise(top, true);
      for (std::int64_t j = first; j < last; ++j) {
        if (x[j] == kMinusInfinity) continue;
        Interval w = kernel.exp_of(x[j] - top, x[j] - top);
        const double low = std::ldexp(w.low, how_.p_shift), high = std::ldexp(w.high, how_.p_shift);
        // f32 weights: the ends need not be f32 numbers, the kernel's is.
        p_low[j] = p.exact ? f32(low) : p.round(low);
        p_high[j] = p.exact ? f32(high) : p.round(high);
        if (how_.denominator_cast)
          w = {std::ldexp(p_low[j], -how_.p_shift), std::ldexp(p_high[j], -how_.p_shift)};
        part.l = kernel.in_sum(part.l.low + f32(w.low), part.l.high + f32(w.high));
      }
      for (std::int64_t b = first; b < last; b += chain) {
        const std::int64_t end = std::min(last, b + chain);
        if (how_.chained()) {
          sum.add(p_low, p_high, b, end, part.o);
          continue;
        }
        IntervalColumns partial(n);
        sum.add(p_low, p_high, b, end, partial);
        for (std::size_t c = 0; c < n; ++c) {
          part.o.low[c] = f32(part.o.low[c] + partial.low[c]);
          part.o.high[c] = f32(part.o.high[c] + partial.high[c]);
        }
      }
    }
    if (query.sink && index == split - 1) {
      const float x_sink = logit.of_sink(*query.sink);
      rise(std::max(part.m, x_sink), false);
      const Interval w = kernel.exp_of(x_sink - part.m, x_sink - part.m);
      part.l = kernel.in_sum(part.l.low + f32(w.low), part.l.high + f32(w.high));
    }
    parts.push_back(std::move(part));
  }
  // o / l within div_ulp ulps, of a division or of reciprocal and product (1 ulp and u^2), l of about 1 or
  // more: so far below the normal numbers half a step of the quotient is all that a product can lose beside
  // that.
  const double of_quotient = how_.div_ulp * 0x1p-23 * (1 + 0x1p-20),
               least_step = std::max(1.0, how_.div_ulp) * 0x1p-149;
  const auto quotient = [&](Interval o, Interval l) {
    const auto off = [&](double q) {
      return q == 0 || std::isinf(q) ? 0 : std::fabs(q) * of_quotient + least_step;
    };
    const double low = o.low / (o.low > 0 ? l.high : l.low), high = o.high / (o.high > 0 ? l.low : l.high);
    return Interval{low - off(low), high + off(high)};
  };
  PartResult total = parts.front();
  const auto over = [](Interval o, Interval by) {  // o * by in f32, by >= 0
    return Interval{f32(o.low * (o.low > 0 ? by.low : by.high)),
                    f32(o.high * (o.high > 0 ? by.high : by.low))};
  };
  // Where the scale of V and the shift are no normal number together, they may be applied apart.
  const double unscale = std::ldexp(query.v_scale, -how_.p_shift);
  const double lost = unscale < 0x1p-126 ? 0x1p-149 : 0;
  const Interval by = lost > 0 ? Interval{std::max(0.0, unscale - lost), unscale + lost}
                               : Interval{f32(unscale), f32(unscale)};
  std::optional<PartResult> scaled;  // by V's scale before the merge, as finished outputs of parts are
  if (how_.split > 1) {
    std::vector<Interval> lse(parts.size());
    Interval top{kMinusInfinity, kMinusInfinity};
    const auto log_of = [&](double l) { return how_.base2 ? std::log2(l) : std::log(l); };
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!(parts[i].l.high > 0)) continue;
      const double low = log_of(parts[i].l.low), high = log_of(parts[i].l.high);
      lse[i] = {f32(parts[i].m + f32(low - kernel.eps * std::fabs(low))),
                f32(parts[i].m + f32(high + kernel.eps * std::fabs(high)))};
      top = {std::max(top.low, lse[i].low), std::max(top.high, lse[i].high)};
    }
    total = {0, {0, 0}, IntervalColumns(n)};
    const auto add = [&](PartResult& to, std::size_t c, Interval part) {
      to.o.low[c] = f32(to.o.low[c] + part.low);
      to.o.high[c] = f32(to.o.high[c] + part.high);
    };
    if (query.v_scale != 1) scaled = total;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!(parts[i].l.high > 0)) continue;
      // The part that holds the maximum has lse - top = 0 exactly whenever no other part can reach it.
      bool leads = true;
      for (std::size_t k = 0; k < parts.size(); ++k) {
        leads = leads && (k == i || !(parts[k].l.high > 0) || lse[k].high <= lse[i].low);
      }
      const Interval e = leads ? Interval{1, 1}
                               : kernel.exp_of(std::min(0.0, f32(lse[i].low - top.high)),
                                               std::min(0.0, f32(lse[i].high - top.low)));
      total.l = {f32(total.l.low + f32(e.low)), f32(total.l.high + f32(e.high))};
      const Interval weight{f32(e.low), f32(e.high)};
      for (std::size_t c = 0; c < n; ++c) {
        const Interval part = quotient({parts[i].o.low[c], parts[i].o.high[c]}, parts[i].l);
        add(total, c, over(part, weight));
        if (scaled) add(*scaled, c, over(over(part, by), weight));
      }
    }
  }
  r.centre.resize(n);
  r.radius.resize(n);
  for (std::size_t c = 0; c < n; ++c) {
    Interval out = over(quotient({total.o.low[c], total.o.high[c]}, total.l), by);
    if (scaled) {
      const Interval other = quotient({scaled->o.low[c], scaled->o.high[c]}, total.l);
      out = {std::min(out.low, other.low), std::max(out.high, other.high)};
    }
    // p_shift and a small scale of V may leave before the quotient, which is subnormal then.
    const auto apart = [&](double q) { return unscale < 1 && q != 0 && std::isfinite(q) ? least_step : 0; };
    out = {out.low - apart(out.low), out.high + apart(out.high)};
    r.centre[c] = 0.5 * (out.low + out.high);
    r.radius[c] = 0.5 * (out.high - out.low);
  }
}

}  // namespace assay
