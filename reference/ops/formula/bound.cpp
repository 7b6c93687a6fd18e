#include "reference/ops/formula/bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>

#include "reference/formats/format.hpp"
#include "reference/ops/op_io.hpp"
#include "reference/parallel.hpp"

namespace assay::formula {
namespace {

// Elements of an equation at a time: what a cache holds of each step.
constexpr std::int64_t kBlock = std::int64_t{1} << 12;
constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::min();  // of integers
constexpr std::int64_t kOutside = kUnknown + 1;                              // poison
constexpr std::int64_t kTrue = 1, kFalse = 0, kUndecided = 2;                // of conditions
// Relative error of the C library's functions in f64: four ulps and more.
constexpr double kLibrary = 0x1p-50;

using Extents = std::array<std::int64_t, kMostDims>;

// What a tensor holds: of numbers the ends, of integers the values.
struct Held {
  std::vector<double> low, high;  // high empty: points
  std::vector<std::int64_t> whole;
  bool is_set = false;
  const double* highs() const { return high.empty() ? low.data() : high.data(); }
};

// A step's values over a block: along the dimensions that it depends on, 1 along the others.
struct Value {
  std::vector<double> own_low, own_high;
  std::vector<std::int64_t> own_whole;
  const double* low = nullptr;
  const double* high = nullptr;
  const std::int64_t* whole = nullptr;
  Extents stride{};  // 0 along what it does not depend on
};

struct Block {
  std::size_t rank = 0;
  Extents begin{}, count{};
};

Interval special_sum(Interval a, Interval b) {
  if (is_poison(a) || is_poison(b)) return kPoison;
  if (is_nan(a) || is_nan(b)) return kNotANumber;
  if (is_open(a) || is_open(b)) return kOpen;
  if (finite(a)) return b;
  if (finite(b)) return a;
  return a.low == b.low ? a : kNotANumber;
}
Interval negated(Interval a) { return is_poison(a) || is_open(a) ? a : Interval{-a.high, -a.low}; }

// One of both.
Interval either(Interval a, Interval b) {
  if (finite(a) && finite(b)) return hull(a, b);
  if (is_poison(a) || is_poison(b)) return kPoison;
  if (is_nan(a) && is_nan(b)) return kNotANumber;
  return a.low == b.low && a.high == b.high ? a : kOpen;
}

Interval plus(Interval a, Interval b) {
  if (!finite(a) || !finite(b)) return special_sum(a, b);
  return {sum_below(a.low, b.low), sum_above(a.high, b.high)};
}
Interval minus(Interval a, Interval b) { return plus(a, negated(b)); }

Interval times(Interval a, Interval b) {
  if (!finite(a) || !finite(b)) {
    if (is_poison(a) || is_poison(b)) return kPoison;
    if (is_nan(a) || is_nan(b)) return kNotANumber;
    if (is_open(a) || is_open(b)) return kOpen;
    const Interval &x = finite(a) ? b : a, &y = finite(a) ? a : b;  // x is an infinity
    if (!finite(y)) return point(x.low * y.low);
    if (y.low == 0 && y.high == 0) return kNotANumber;
    if (y.low <= 0 && y.high >= 0) return kOpen;
    return point(y.low > 0 ? x.low : -x.low);
  }
  // The ends that decide, by signs; all four only where both hold 0.
  if (is_point(b)) std::swap(a, b);
  if (is_point(a))
    return a.low >= 0 ? Interval{product_below(a.low, b.low), product_above(a.low, b.high)}
                      : Interval{product_below(a.low, b.high), product_above(a.low, b.low)};
  if (a.low < 0 && a.high > 0) std::swap(a, b);
  if (a.low >= 0)
    return {product_below(b.low >= 0 ? a.low : a.high, b.low),
            product_above(b.high >= 0 ? a.high : a.low, b.high)};
  if (a.high <= 0)
    return {product_below(b.high >= 0 ? a.low : a.high, b.high),
            product_above(b.low >= 0 ? a.high : a.low, b.low)};
  return {std::fmin(std::fmin(product_below(a.low, b.low), product_below(a.low, b.high)),
                    std::fmin(product_below(a.high, b.low), product_below(a.high, b.high))),
          std::fmax(std::fmax(product_above(a.low, b.low), product_above(a.low, b.high)),
                    std::fmax(product_above(a.high, b.low), product_above(a.high, b.high)))};
}
// x x: never below 0.
Interval squared(Interval a) {
  if (!finite(a) || is_point(a)) return times(a, a);
  const double most = std::fmax(std::fabs(a.low), std::fabs(a.high));
  const double least = a.low <= 0 && a.high >= 0 ? 0 : std::fmin(std::fabs(a.low), std::fabs(a.high));
  return {product_below(least, least), product_above(most, most)};
}

// `r` is what became of `z`: what lies below the smallest normal, or did before it was rounded, may be 0.
Interval or_flushed(Interval r, Interval z, double normal) {
  if (r.low > 0 && z.low < normal) r.low = 0;
  if (r.high < 0 && z.high > -normal) r.high = 0;
  return r;
}

class Run {
 public:
  Run(const Text& text, const Plan& plan, const TensorSet& inputs, const TensorSet* given)
      : text_(text), plan_(plan), given_(given), held_(plan.tensors.size()), before_(plan.tensors.size()) {
    for (std::size_t k = 0; k < plan.tensors.size(); ++k) {
      const Tensor& t = plan.tensors[k];
      if (!t.input) continue;
      const auto found = inputs.find(t.name);
      const Shape shape = t.shape.empty() ? Shape{1} : t.shape;
      if (found == inputs.end() || found->second.shape != shape || found->second.format != t.format)
        throw InputError(InputErrorKind::shape_mismatch,
                         fmt::format("formula {}: input {}{} {} is missing or has another format or shape",
                                     text.name, t.name, to_string(t.shape), t.format));
      Held& h = held_[k];
      h.is_set = true;
      std::vector<double> x = decode_tensor(found->second);
      if (t.whole) {
        h.whole.resize(x.size());
        std::ranges::transform(x, h.whole.begin(), [](double v) { return static_cast<std::int64_t>(v); });
        continue;
      }
      h.low = std::move(x);
    }
  }

  std::vector<Truth> all() {
    for (std::size_t k = 0; k < plan_.equations.size();) {
      const std::string& along = plan_.equations[k].equation->along;
      std::size_t end = k + 1;
      if (along.empty()) {
        equation(plan_.equations[k], -1);
      } else {
        while (end < plan_.equations.size() && plan_.equations[end].equation->along == along) ++end;
        recurrence(k, end);
      }
      k = end;
    }
    return std::move(truths_);
  }

 private:
  static std::string to_string(const std::vector<std::int64_t>& shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i > 0 ? "," : "", shape[i]);
    return text + "]";
  }

  // --- recurrences ---
  void recurrence(std::size_t from, std::size_t end) {
    for (std::size_t k = from; k < end; ++k) {
      const Planned& e = plan_.equations[k];
      Held& h = held_[e.tensor];
      const std::int64_t count = element_count_of(plan_.tensors[e.tensor].shape);
      if (e.equation->kind == EquationKind::state) {
        if (e.source >= 0) {
          h = held_[e.source];
        } else {
          h.low.assign(count, e.start);
          h.high.clear();
        }
        h.is_set = true;
      }
    }
    const std::int64_t steps = plan_.equations[from].dims[0].extent;
    for (std::int64_t t = 0; t < steps; ++t) {
      for (std::size_t k = from; k < end; ++k)
        if (plan_.equations[k].equation->kind == EquationKind::state)
          before_[plan_.equations[k].tensor] = held_[plan_.equations[k].tensor];
      for (std::size_t k = from; k < end; ++k) equation(plan_.equations[k], t);
    }
  }

  static std::int64_t element_count_of(const std::vector<std::int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }

  // --- one equation, at step t of its recurrence or whole ---
  void equation(const Planned& e, std::int64_t t) {
    const Tensor& tensor = plan_.tensors[e.tensor];
    const bool first = t <= 0, is_out = e.equation->kind == EquationKind::out;
    const std::int64_t count = element_count_of(tensor.shape);
    Held fresh;
    // A state is read while its next value is made.
    const bool aside = e.equation->kind == EquationKind::state;
    Held& to = aside ? fresh : held_[e.tensor];
    if (first || aside) {
      to.low.clear(), to.high.clear(), to.whole.clear();
      if (e.whole)
        to.whole.assign(count, 0);
      else
        to.low.assign(count, 0), to.high.assign(count, 0);
      to.is_set = true;
    }
    Held* stored = nullptr;
    if (is_out) {
      stored = &stored_[e.tensor];
      if (first && e.whole) stored->whole.assign(count, 0);
      if (first && !e.whole) stored->low.assign(count, 0), stored->high.assign(count, 0);
    }
    const std::vector<Block> blocks = cut(e, t);
    parallel_units(blocks.size(), [&](std::size_t i) { block(e, blocks[i], tensor, to, stored); });
    if (aside) held_[e.tensor] = std::move(fresh);
    if (!is_out) return;
    if (t < 0 || t + 1 == e.dims[0].extent) finish(e, tensor);
    take_given(e, tensor, t);
  }

  std::vector<Block> cut(const Planned& e, std::int64_t t) const {
    Block whole;
    whole.rank = e.dims.size();
    for (std::size_t k = 0; k < e.dims.size(); ++k) whole.count[k] = e.dims[k].extent;
    if (t >= 0) whole.begin[0] = t, whole.count[0] = 1;
    std::int64_t inner = 1;
    std::size_t split = whole.rank;
    while (split > 0 && (split > e.width || inner * whole.count[split - 1] <= kBlock))
      inner *= whole.count[--split];
    std::vector<Block> blocks{whole};
    if (split == 0) return blocks;
    // Dimension split - 1 in runs, those before it one by one.
    const std::int64_t run = std::max<std::int64_t>(1, kBlock / std::max<std::int64_t>(inner, 1));
    for (std::size_t k = 0; k < split; ++k) {
      const std::int64_t step = k + 1 == split ? run : 1;
      std::vector<Block> next;
      for (const Block& b : blocks)
        for (std::int64_t at = 0; at < b.count[k]; at += step) {
          Block part = b;
          part.begin[k] = b.begin[k] + at;
          part.count[k] = std::min(step, b.count[k] - at);
          next.push_back(part);
        }
      blocks = std::move(next);
    }
    return blocks;
  }

  void block(const Planned& e, const Block& b, const Tensor& tensor, Held& to, Held* stored) const {
    std::vector<Value> values(e.steps.size());
    for (std::size_t k = 0; k < e.steps.size(); ++k) step(e, e.steps[k], b, values, values[k]);
    const Value& v = values.back();
    // The result over the left side's dimensions.
    Extents strides{};
    std::int64_t stride = 1;
    for (std::size_t k = e.width; k-- > 0;) {
      strides[k] = k == 0 && tensor.current ? 0 : stride;
      stride *= tensor.shape[k];
    }
    Block left = b;
    left.rank = e.width;
    walk(left, [&](const Extents& at) {
      std::int64_t from = 0, into = 0;
      for (std::size_t k = 0; k < e.width; ++k) {
        from += at[k] * v.stride[k];
        into += (b.begin[k] + at[k]) * strides[k];
      }
      const std::int64_t n = e.width > 0 ? b.count[e.width - 1] : 1;
      const std::int64_t s = e.width > 0 ? v.stride[e.width - 1] : 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t f = from + i * s, o = into + (e.width > 0 ? i * strides[e.width - 1] : 0);
        if (e.whole) {
          to.whole[o] = v.whole[f];
          if (stored != nullptr) stored->whole[o] = v.whole[f];
          continue;
        }
        const Interval z{v.low[f], v.high[f]};
        const Interval kept =
            e.format != nullptr ? store(z, *e.format, e.equation->kind == EquationKind::out) : z;
        Interval seen = kept;
        if (e.format != nullptr && e.read == Read::computed) seen = z;
        if (e.format != nullptr && e.read == Read::any) seen = either(z, kept);
        to.low[o] = seen.low, to.high[o] = seen.high;
        if (stored != nullptr) stored->low[o] = kept.low, stored->high[o] = kept.high;
      }
    });
  }

  // f(position) for every position of a block but for its last dimension, which f goes over itself.
  template <typename F>
  static void walk(const Block& b, const F& f) {
    Extents at{};
    const std::size_t outer = b.rank > 0 ? b.rank - 1 : 0;
    for (std::size_t k = 0; k < b.rank; ++k)
      if (b.count[k] == 0) return;
    while (true) {
      f(at);
      std::size_t k = outer;
      while (k > 0 && ++at[k - 1] == b.count[k - 1]) at[--k] = 0;
      if (k == 0) return;
    }
  }

  // --- rounding ---
  Interval once(Interval z, const Arithmetic& acc) const {
    if (acc.format->bits != 32 || plan_.flush || !finite(z)) return rounded(z, *acc.format, true);
    const Interval f{round_f32(z.low), round_f32(z.high)};
    return finite(f) || f.low == f.high ? f : kOpen;
  }

  // Both ends to nearest, into Inf where that is beyond: of operations and of casts to wide formats.
  Interval rounded(Interval z, const ScalarFormat& to, bool flushes) const {
    if (!finite(z)) return z;
    static constexpr EncodePolicy kIeee{.overflow = Overflow::ieee};
    if (to.bits == 64) return z;  // the ends are doubles already
    Interval r{round_number(to, z.low, kIeee), z.low == z.high ? 0 : round_number(to, z.high, kIeee)};
    if (z.low == z.high) r.high = r.low;
    if (flushes && plan_.flush) r = or_flushed(r, z, smallest_normal(to));
    if (!finite(r) && r.low != r.high) return kOpen;
    return r;
  }

  // A cast, and the store of a result.
  Interval store(Interval z, const ScalarFormat& to, bool output) const {
    if (is_poison(z)) return z;
    if (is_open(z))  // NaN makes any code of an integer format
      return saturates(to) && !has_nan(to) && to.kind == ScalarKind::floating
                 ? Interval{-to.max_finite, to.max_finite}
                 : kOpen;
    if (is_nan(z)) return has_nan(to) ? kNotANumber : kOpen;
    if (to.bits == 64) return z;
    EncodePolicy policy;
    policy.overflow = saturates(to) ? Overflow::saturate : Overflow::ieee;
    if (output && plan_.round == Rounding::stochastic) {
      policy.rounding = Rounding::toward_negative;
      const double low = round_to(to, z.low, policy), high = rounded_up(to, z.high, policy);
      return std::isfinite(low) && std::isfinite(high) ? Interval{low, high} : kOpen;
    }
    if (output) policy.rounding = plan_.round;
    Interval r{round_number(to, z.low, policy), 0};
    r.high = z.low == z.high ? r.low : round_number(to, z.high, policy);
    if (plan_.flush && to.kind == ScalarKind::floating && to.bits >= 16)
      r = or_flushed(r, z, smallest_normal(to));
    if (is_nan(r)) return std::isnan(r.low) && std::isnan(r.high) ? kNotANumber : kOpen;
    if (!finite(r) && r.low != r.high) return kOpen;
    return r;
  }
  bool saturates(const ScalarFormat& to) const {
    if (to.kind == ScalarKind::integer) return true;
    if (plan_.overflow != "format") return plan_.overflow == "saturate";
    return to.bits <= 8;
  }

  // An operand as a step may read it: rounded to a narrower accumulator or not yet, and flushed. A product
  // that is fused is none yet.
  Interval operand(Interval x, const Arithmetic& acc, const Step& from, bool is_product = false) const {
    return !plan_.flush && (from.held || is_product) ? x : taken_up(x, acc, from.held || is_product);
  }
  Interval taken_up(Interval x, const Arithmetic& acc, bool held) const {
    if (!finite(x)) return x;
    if (!held && acc.format->bits < 64) {
      const Interval r = rounded(x, *acc.format, false);
      if (!finite(r)) return kOpen;
      x = hull(x, r);
    }
    return plan_.flush ? or_flushed(x, x, acc.machine.normal) : x;
  }

  // --- steps ---
  void step(const Planned& e, const Step& s, const Block& b, std::vector<Value>& values, Value& v) const {
    std::int64_t size = 1;
    for (std::size_t k = b.rank; k-- > 0;) {
      if ((s.dims >> k & 1) == 0) continue;
      v.stride[k] = b.count[k] > 0 ? size : 0;
      size *= b.count[k];
    }
    const auto whole = [&] {
      v.own_whole.resize(size);
      v.whole = v.own_whole.data();
    };
    const auto numbers = [&] {
      v.own_low.resize(size), v.own_high.resize(size);
      v.low = v.own_low.data(), v.high = v.own_high.data();
    };
    const auto arg = [&](int k) -> const Value& { return values[s.args[k]]; };
    const auto set = [&](std::int64_t i, Interval z) { v.own_low[i] = z.low, v.own_high[i] = z.high; };
    const auto at = [](const Value& x, std::int64_t i) { return Interval{x.low[i], x.high[i]}; };
    switch (s.what) {
      case Do::constant: {
        numbers();
        // In the accumulator or in f32, computed ahead in f64 at the least.
        const double lo = s.number - std::fabs(s.number) * 0x1p-51,
                     hi = s.number + std::fabs(s.number) * 0x1p-51;
        const bool known = round_f32(s.number) == s.number;
        const Interval z = known ? point(s.number) : Interval{lo, hi};
        set(0, hull(rounded(z, *e.acc.format, true), rounded(z, scalar_format("f32"), false)));
        return;
      }
      case Do::index:
        whole();
        for (std::int64_t i = 0; i < size; ++i) v.own_whole[i] = b.begin[s.axis] + i;
        return;
      case Do::whole:
        whole();
        if (s.word == Word::constant) {
          v.own_whole[0] = s.integer;
          return;
        }
        return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
          v.own_whole[i] = integer(s.word, arg(0).whole[x], arg(1).whole[y]);
        });
      case Do::compare:
        whole();
        if (arg(0).whole != nullptr)
          return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
            const std::int64_t l = arg(0).whole[x], r = arg(1).whole[y];
            v.own_whole[i] = l <= kOutside || r <= kOutside ? kUndecided : compared(s.word, l, r);
          });
        return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
          v.own_whole[i] = decided_of(s.word, at(arg(0), x), at(arg(1), y));
        });
      case Do::both:
      case Do::either:
        whole();
        return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
          const std::int64_t l = arg(0).whole[x], r = arg(1).whole[y];
          const std::int64_t ends = s.what == Do::both ? kFalse : kTrue;
          v.own_whole[i] = l == ends || r == ends               ? ends
                           : l == kUndecided || r == kUndecided ? kUndecided
                                                                : 1 - ends;
        });
      case Do::invert:
        whole();
        return each(s, b, v, arg(0), arg(0), [&](std::int64_t i, std::int64_t x, std::int64_t) {
          v.own_whole[i] = arg(0).whole[x] == kUndecided ? kUndecided : 1 - arg(0).whole[x];
        });
      case Do::gather:
        return gather(e, s, b, values, v, size);
      case Do::real:
        numbers();
        return each(s, b, v, arg(0), arg(0), [&](std::int64_t i, std::int64_t x, std::int64_t) {
          const std::int64_t w = arg(0).whole[x];
          set(i, w == kUnknown   ? kOpen
                 : w == kOutside ? kPoison
                                 : rounded(point(static_cast<double>(w)), *e.acc.format, false));
        });
      case Do::add:
      case Do::subtract:
        numbers();
        return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
          const Interval l = operand(at(arg(0), x), e.acc, e.steps[s.args[0]], is_fused(e, s.args[0])),
                         r = operand(at(arg(1), y), e.acc, e.steps[s.args[1]], is_fused(e, s.args[1]));
          set(i, once(s.what == Do::add ? plus(l, r) : minus(l, r), e.acc));
        });
      case Do::multiply:
        numbers();
        if (s.indices.size() > 2) return chain(e, s, b, values, v);
        return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
          const Interval l = operand(at(arg(0), x), e.acc, e.steps[s.args[0]]);
          const Interval z = s.args[0] == s.args[1]
                                 ? squared(l)
                                 : times(l, operand(at(arg(1), y), e.acc, e.steps[s.args[1]]));
          set(i, fused_or_rounded(z, s, e.acc));
        });
      case Do::divide:
        numbers();
        return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
          set(i, quotient_of(operand(at(arg(0), x), e.acc, e.steps[s.args[0]]),
                             operand(at(arg(1), y), e.acc, e.steps[s.args[1]]), s.ulp, e.acc));
        });
      case Do::negate:
        numbers();
        return each(s, b, v, arg(0), arg(0),
                    [&](std::int64_t i, std::int64_t x, std::int64_t) { set(i, negated(at(arg(0), x))); });
      case Do::absolute:
        numbers();
        return each(s, b, v, arg(0), arg(0), [&](std::int64_t i, std::int64_t x, std::int64_t) {
          const Interval z = at(arg(0), x);
          if (!finite(z)) return set(i, is_open(z) || is_poison(z) || is_nan(z) ? z : point(kInfinity));
          const double low = std::fabs(z.low), high = std::fabs(z.high);
          set(i, {z.low <= 0 && z.high >= 0 ? 0 : std::fmin(low, high), std::fmax(low, high)});
        });
      case Do::function:
        numbers();
        return each(s, b, v, arg(0), arg(0), [&](std::int64_t i, std::int64_t x, std::int64_t) {
          set(i, function_of(s, operand(at(arg(0), x), e.acc, e.steps[s.args[0]]), e.acc));
        });
      case Do::least:
      case Do::most:
        numbers();
        return each(s, b, v, arg(0), arg(1), [&](std::int64_t i, std::int64_t x, std::int64_t y) {
          set(i, extreme(s.what == Do::most, at(arg(0), x), at(arg(1), y)));
        });
      case Do::to_whole:
        numbers();
        return each(s, b, v, arg(0), arg(0), [&](std::int64_t i, std::int64_t x, std::int64_t) {
          const Interval z = at(arg(0), x);
          if (!finite(z)) return set(i, z);
          if (s.word == Word::exponent) return set(i, exponent_of(z));
          set(i, s.word == Word::floor ? Interval{std::floor(z.low), std::floor(z.high)}
                                       : Interval{std::nearbyint(z.low), std::nearbyint(z.high)});
        });
      case Do::cast:
        numbers();
        return each(s, b, v, arg(0), arg(0), [&](std::int64_t i, std::int64_t x, std::int64_t) {
          set(i, store(at(arg(0), x), *s.to, false));
        });
      case Do::where:
        return where(s, b, values, v, size);
      case Do::largest:
      case Do::smallest:
      case Do::sum:
        numbers();
        return reduce(e, s, b, values, v);
      case Do::top:
        whole();
        return top(s, b, values, v);
    }
  }

  Interval fused_or_rounded(Interval z, const Step& s, const Arithmetic& acc) const {
    if (!finite(z) || s.fused == Fused::yes) return z;
    const Interval r = once(z, acc);
    if (s.fused == Fused::no) return r;
    return finite(r) ? hull(z, r) : kOpen;
  }

  // A product of several factors, formed in any order: of every set of them the hull of what its halves give.
  void chain(const Planned& e, const Step& s, const Block& b, const std::vector<Value>& values,
             Value& v) const {
    const std::size_t count = s.indices.size();
    std::array<const Value*, 5> factor{};
    std::array<std::vector<std::int64_t>, 5> place;
    for (std::size_t k = 0; k < count; ++k) {
      factor[k] = &values[s.indices[k]];
      place[k].resize(v.own_low.size());
      each(s, b, v, *factor[k], *factor[k],
           [&](std::int64_t i, std::int64_t x, std::int64_t) { place[k][i] = x; });
    }
    std::array<Interval, 32> of{};
    const unsigned all = (1U << count) - 1;
    for (std::size_t i = 0; i < v.own_low.size(); ++i) {
      for (std::size_t k = 0; k < count; ++k)
        of[1U << k] = operand({factor[k]->low[place[k][i]], factor[k]->high[place[k][i]]}, e.acc,
                              e.steps[s.indices[k]]);
      for (unsigned set = 1; set <= all; ++set) {
        if (std::has_single_bit(set)) continue;
        Interval whole{kInfinity, -kInfinity};
        bool first = true;
        const unsigned lowest = set & (~set + 1);
        for (unsigned part = (set - 1) & set; part != 0; part = (part - 1) & set) {
          if ((part & lowest) == 0) continue;  // each pair of halves once
          const unsigned rest = set & ~part;
          const bool same = std::has_single_bit(part) && std::has_single_bit(rest) &&
                            factor[std::countr_zero(part)] == factor[std::countr_zero(rest)];
          const Interval z = same ? squared(of[part]) : times(of[part], of[rest]);
          const Interval r = set == all ? fused_or_rounded(z, s, e.acc) : once(z, e.acc);
          whole = first ? r : either(whole, r);
          first = false;
        }
        of[set] = whole;
      }
      v.own_low[i] = of[all].low, v.own_high[i] = of[all].high;
    }
  }

  // f(out, x, y) for each element of v: its place there and in both operands.
  template <typename F>
  static void each(const Step& s, const Block& b, const Value& v, const Value& x, const Value& y,
                   const F& f) {
    std::array<std::size_t, kMostDims> dims{};
    std::size_t rank = 0;
    for (std::size_t k = 0; k < b.rank; ++k)
      if ((s.dims >> k & 1) != 0) {
        if (b.count[k] == 0) return;
        if (b.count[k] > 1) dims[rank++] = k;
      }
    if (rank == 0) return f(0, 0, 0);
    const std::size_t inner = dims[rank - 1];
    const std::int64_t n = b.count[inner], sv = v.stride[inner], sx = x.stride[inner], sy = y.stride[inner];
    Extents at{};
    std::int64_t ov = 0, ox = 0, oy = 0;
    while (true) {
      if (sx == 1 && sy == 1 && sv == 1)
        for (std::int64_t i = 0; i < n; ++i) f(ov + i, ox + i, oy + i);
      else
        for (std::int64_t i = 0; i < n; ++i) f(ov + i * sv, ox + i * sx, oy + i * sy);
      std::size_t k = rank - 1;
      while (k > 0) {
        const std::size_t d = dims[k - 1];
        ov += v.stride[d], ox += x.stride[d], oy += y.stride[d];
        if (++at[d] < b.count[d]) break;
        ov -= v.stride[d] * at[d], ox -= x.stride[d] * at[d], oy -= y.stride[d] * at[d];
        at[d] = 0;
        --k;
      }
      if (k == 0) return;
    }
  }

  static std::int64_t integer(Word op, std::int64_t a, std::int64_t b) {
    if (a == kOutside || b == kOutside) return kOutside;
    if (a == kUnknown || b == kUnknown) return kUnknown;
    std::int64_t z = 0;
    bool over = false;
    if (op == Word::plus) {
      over = __builtin_add_overflow(a, b, &z);
    } else if (op == Word::minus) {
      over = __builtin_sub_overflow(a, b, &z);
    } else if (op == Word::times) {
      over = __builtin_mul_overflow(a, b, &z);
    } else if (op == Word::least || op == Word::most) {
      z = op == Word::least ? std::min(a, b) : std::max(a, b);
    } else {
      if (b == 0) return kOutside;
      std::int64_t q = a / b;
      if (a % b != 0 && (a < 0) != (b < 0)) --q;
      z = op == Word::over ? q : a - q * b;
    }
    return over ? kOutside : z;
  }

  static std::int64_t compared(Word op, std::int64_t a, std::int64_t b) {
    if (op == Word::less) return a < b;
    if (op == Word::less_equal) return a <= b;
    if (op == Word::greater) return a > b;
    if (op == Word::greater_equal) return a >= b;
    return (a == b) == (op == Word::equal);
  }

  static std::int64_t decided_of(Word op, Interval a, Interval b) {
    if (is_poison(a) || is_poison(b)) return kUndecided;
    if (is_nan(a) || is_nan(b)) return op == Word::unequal ? kTrue : kFalse;
    if (is_open(a) || is_open(b)) return kUndecided;
    if (op == Word::greater || op == Word::greater_equal)
      return decided_of(op == Word::greater ? Word::less : Word::less_equal, b, a);
    if (op == Word::less) return a.high < b.low ? kTrue : a.low >= b.high ? kFalse : kUndecided;
    if (op == Word::less_equal) return a.high <= b.low ? kTrue : a.low > b.high ? kFalse : kUndecided;
    const bool apart = a.high < b.low || b.high < a.low;
    const std::int64_t same = apart ? kFalse : is_point(a) && is_point(b) ? kTrue : kUndecided;
    return op == Word::equal || same == kUndecided ? same : 1 - same;
  }

  static Interval extreme(bool most, Interval a, Interval b) {
    if (is_poison(a) || is_poison(b)) return kPoison;
    if (is_nan(a) || is_nan(b)) return kOpen;  // some kernels drop it, some keep it
    if (is_open(a) || is_open(b)) return kOpen;
    return most ? Interval{std::fmax(a.low, b.low), std::fmax(a.high, b.high)}
                : Interval{std::fmin(a.low, b.low), std::fmin(a.high, b.high)};
  }

  Interval quotient_of(Interval a, Interval b, double ulp, const Arithmetic& acc) const {
    if (is_poison(a) || is_poison(b)) return kPoison;
    if (is_nan(a) || is_nan(b)) return kNotANumber;
    if (is_open(a) || is_open(b)) return kOpen;
    if (!finite(a)) return !finite(b) ? kNotANumber : b.low > 0 ? a : b.high < 0 ? negated(a) : kOpen;
    if (!finite(b)) return point(0);
    if (b.low <= 0 && b.high >= 0) {
      const bool nothing = b.low == 0 && b.high == 0 && a.low == 0 && a.high == 0;
      return nothing ? kNotANumber : kOpen;
    }
    if (ulp <= 0.5) {
      const double c[] = {a.low, a.low, a.high, a.high}, d[] = {b.low, b.high, b.low, b.high};
      Interval z{kInfinity, -kInfinity};
      for (int k = 0; k < 4; ++k) {
        z.low = std::fmin(z.low, quotient_below(c[k], d[k]));
        z.high = std::fmax(z.high, quotient_above(c[k], d[k]));
      }
      return finite(z) ? once(z, acc) : kOpen;
    }
    Interval r = interval(divided(enclosure(a), enclosure(b), acc.machine, ulp));
    if (!finite(r)) return kOpen;
    const bool positive = b.low > 0;  // no rounding turns a sign
    if (positive ? a.low >= 0 : a.high <= 0) r.low = std::fmax(r.low, 0.0);
    if (positive ? a.high <= 0 : a.low >= 0) r.high = std::fmin(r.high, 0.0);
    return r;
  }

  static double value_of(Word f, double x) {
    switch (f) {
      case Word::exp:
        return std::exp(x);
      case Word::exp2:
        return std::exp2(x);
      case Word::log:
        return std::log(x);
      case Word::log2:
        return std::log2(x);
      case Word::sin:
        return std::sin(x);
      case Word::cos:
        return std::cos(x);
      case Word::tanh:
        return std::tanh(x);
      case Word::erf:
        return std::erf(x);
      case Word::sqrt:
        return std::sqrt(x);
      case Word::rsqrt:
        return 1 / std::sqrt(x);
      case Word::sigmoid:
        return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
      default:  // softplus
        return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    }
  }

  // floor(log2 |x|), from the bits of x; -1000 of 0.
  static Interval exponent_of(Interval x) {
    const auto of = [](double v) { return v == 0 ? -1000.0 : std::ilogb(v); };
    const double a = std::fabs(x.low), b = std::fabs(x.high);
    if (x.low <= 0 && x.high >= 0) return {of(0), of(std::fmax(a, b))};
    return {of(std::fmin(a, b)), of(std::fmax(a, b))};
  }

  // What a kernel of `ulp` makes of x.
  Interval function_of(const Step& s, Interval x, const Arithmetic& acc) const {
    const Word f = s.word;
    if (is_poison(x) || is_nan(x) || is_open(x)) return x;
    const bool wave = f == Word::sin || f == Word::cos;
    const bool root = f == Word::sqrt || f == Word::rsqrt, logarithm = f == Word::log || f == Word::log2;
    if (!finite(x)) {
      if (wave) return kNotANumber;
      if ((root || logarithm) && x.low < 0) return kNotANumber;
      const double limit = value_of(f, x.low);
      return std::isfinite(limit) ? exact_end(s, limit) : point(limit);
    }
    if (root || logarithm) {
      if (x.high < 0) return kNotANumber;
      if (x.low < 0) return kOpen;
      if (x.low == 0 && x.high == 0)
        return f == Word::sqrt    ? point(0)
               : f == Word::rsqrt ? kOpen
                                  : point(-kInfinity);  // rsqrt(-0) is -Inf
      if (x.low == 0 && f != Word::sqrt) return kOpen;
    }
    Interval z;
    if (wave) {
      const double middle = x.low / 2 + x.high / 2, half = up(std::fmax(x.high - middle, middle - x.low));
      const double y = value_of(f, middle);
      z = {std::fmax(-1.0, y - half), std::fmin(1.0, y + half)};
    } else {
      z = {value_of(f, x.low), value_of(f, x.high)};
      if (f == Word::rsqrt) std::swap(z.low, z.high);
    }
    z.low -= kLibrary * std::fabs(z.low) + 0x1p-1074, z.high += kLibrary * std::fabs(z.high) + 0x1p-1074;
    if (f == Word::exp || f == Word::exp2 || f == Word::sigmoid || f == Word::softplus || root)
      z.low = std::fmax(z.low, 0.0);
    if (!(z.high < kInfinity)) return kOpen;
    Interval r;
    if (s.ulp <= 0.5) {
      r = once(z, acc);
    } else if (z.low > acc.machine.max_finite * (1 + 4 * s.ulp * acc.machine.unit)) {
      return point(kInfinity);
    } else {
      r = interval(evaluated(enclosure(z), acc.machine, s.ulp, Rule::exp_ulp, Rule::exp_underflow));
    }
    if (!finite(r)) return r;
    if (z.low >= 0) r.low = std::fmax(r.low, 0.0);
    if (s.off > 0) r = {sum_below(r.low, -s.off), sum_above(r.high, s.off)};
    // 1 / (1 + e^-x) is 0 where e^-x overflows, though its value may be subnormal.
    if (f == Word::sigmoid && z.low < 4 * acc.machine.normal) r.low = 0;
    return r;
  }
  // A function's limit at an infinity: 0 and 1 are met exactly, as e^-Inf and tanh(Inf) are.
  static Interval exact_end(const Step& s, double limit) {
    if (s.off > 0) return {limit - s.off, limit + s.off};
    return point(limit);
  }

  // --- gathers ---
  // Where every index is a dimension or a constant, the tensor itself, by its own strides.
  bool view(const Planned& e, const Step& s, const Block& b, const Held& h,
            const std::array<std::int64_t, kMostDims>& stride, Value& v) const {
    if (!h.is_set) return false;
    const Tensor& t = plan_.tensors[s.tensor];
    std::int64_t base = 0;
    Extents steps{};
    for (std::size_t k = 0; k < s.indices.size(); ++k) {
      const Step& index = e.steps[s.indices[k]];
      std::int64_t first = 0, last = 0;
      if (index.what == Do::index) {
        first = b.begin[index.axis];
        last = first + b.count[index.axis] - 1;
        steps[index.axis] += stride[k];
      } else if (index.what == Do::whole && index.word == Word::constant) {
        first = last = index.integer;
      } else {
        return false;
      }
      if (first < 0 || last >= t.shape[k]) return false;
      base += first * stride[k];
    }
    v.stride = steps;
    if (s.real)
      v.low = h.low.data() + base, v.high = h.highs() + base;
    else
      v.whole = h.whole.data() + base;
    return true;
  }

  void gather(const Planned& e, const Step& s, const Block& b, const std::vector<Value>& values, Value& v,
              std::int64_t size) const {
    const Tensor& t = plan_.tensors[s.tensor];
    const Held& h = s.previous ? before_[s.tensor] : held_[s.tensor];
    const std::size_t axes = s.indices.size();
    std::array<std::int64_t, kMostDims> stride{};
    std::int64_t step = 1;
    for (std::size_t k = axes; k-- > 0;) {
      stride[k] = step;
      step *= t.shape[k];
    }
    if (view(e, s, b, h, stride, v)) return;
    if (s.real)
      v.own_low.resize(size), v.own_high.resize(size), v.low = v.own_low.data(), v.high = v.own_high.data();
    else
      v.own_whole.resize(size), v.whole = v.own_whole.data();
    const double* low = h.low.data();
    const double* high = h.low.empty() ? nullptr : h.highs();
    // Offsets, a dimension of the block at a time.
    std::vector<std::int64_t> offset(size, 0);
    std::vector<char> outside(size, 0);
    for (std::size_t k = 0; k < axes; ++k) {
      const Value& index = values[s.indices[k]];
      const std::int64_t extent = t.shape[k], each_step = stride[k];
      each(s, b, v, index, index, [&](std::int64_t i, std::int64_t x, std::int64_t) {
        const std::int64_t at = index.whole[x];
        if (at == kUnknown)
          outside[i] = std::max<char>(outside[i], 1);
        else if (at < 0 || at >= extent)
          outside[i] = 2;
        else
          offset[i] += at * each_step;
      });
    }
    if (!h.is_set && size > 0)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("formula {}: {} is read before it is made", text_.name, t.name));
    for (std::int64_t i = 0; i < size; ++i) {
      if (s.real) {
        v.own_low[i] = outside[i] == 0 ? low[offset[i]] : outside[i] == 1 ? -kInfinity : kInfinity;
        v.own_high[i] = outside[i] == 0 ? high[offset[i]] : outside[i] == 1 ? kInfinity : -kInfinity;
      } else {
        v.own_whole[i] = outside[i] == 0 ? h.whole[offset[i]] : outside[i] == 1 ? kUnknown : kOutside;
      }
    }
  }

  void where(const Step& s, const Block& b, const std::vector<Value>& values, Value& v,
             std::int64_t size) const {
    const Value &c = values[s.args[0]], &x = values[s.args[1]], &y = values[s.args[2]];
    std::vector<std::int64_t> chosen(size);
    each(s, b, v, c, c, [&](std::int64_t i, std::int64_t k, std::int64_t) { chosen[i] = c.whole[k]; });
    if (!s.real) {
      v.own_whole.resize(size), v.whole = v.own_whole.data();
      each(s, b, v, x, y, [&](std::int64_t i, std::int64_t k, std::int64_t l) {
        const std::int64_t p = x.whole[k], q = y.whole[l];
        v.own_whole[i] = chosen[i] == kTrue ? p : chosen[i] == kFalse || p == q ? q : kUnknown;
      });
      return;
    }
    v.own_low.resize(size), v.own_high.resize(size), v.low = v.own_low.data(), v.high = v.own_high.data();
    each(s, b, v, x, y, [&](std::int64_t i, std::int64_t k, std::int64_t l) {
      const Interval p{x.low[k], x.high[k]}, q{y.low[l], y.high[l]};
      const Interval z = chosen[i] == kTrue ? p : chosen[i] == kFalse ? q : either(p, q);
      v.own_low[i] = z.low, v.own_high[i] = z.high;
    });
  }

  static bool is_fused(const Planned& e, int k) {
    const Step& s = e.steps[k];
    if (s.what == Do::where) return is_fused(e, s.args[1]) || is_fused(e, s.args[2]);
    if (s.what == Do::negate) return is_fused(e, s.args[0]);
    return s.what == Do::multiply && s.fused != Fused::no;
  }

  // --- reductions ---
  void reduce(const Planned& e, const Step& s, const Block& b, const std::vector<Value>& values,
              Value& v) const {
    const Value& x = values[s.args[0]];
    const Value* mask = s.args[1] >= 0 ? &values[s.args[1]] : nullptr;
    const std::int64_t n = b.count[s.axis], step = x.stride[s.axis];
    const std::int64_t mask_step = mask != nullptr ? mask->stride[s.axis] : 0;
    const bool fused = is_fused(e, s.args[0]);
    std::vector<Interval> terms;
    std::vector<Enclosure> enclosed;
    each(s, b, v, x, mask != nullptr ? *mask : x, [&](std::int64_t i, std::int64_t at, std::int64_t m) {
      terms.clear();
      bool open = false;
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t seen = mask != nullptr ? mask->whole[m + k * mask_step] : kTrue;
        if (seen == kFalse) continue;
        open = open || seen == kUndecided;
        terms.push_back(
            operand({x.low[at + k * step], x.high[at + k * step]}, e.acc, e.steps[s.args[0]], fused));
      }
      const Interval z = open                ? kOpen
                         : s.what == Do::sum ? sum_of(terms, enclosed, s.order, fused, e.acc)
                                             : extreme_of(s.what == Do::largest, terms);
      v.own_low[i] = z.low, v.own_high[i] = z.high;
    });
  }

  static Interval extreme_of(bool most, const std::vector<Interval>& terms) {
    if (terms.empty()) return point(most ? -kInfinity : kInfinity);
    Interval z = terms[0];
    if (is_nan(z)) return terms.size() == 1 ? z : kOpen;
    for (std::size_t k = 1; k < terms.size(); ++k) z = extreme(most, z, terms[k]);
    return z;
  }

  Interval sum_of(const std::vector<Interval>& terms, std::vector<Enclosure>& enclosed, Order order,
                  bool fused, const Arithmetic& acc) const {
    if (terms.empty()) return point(0);
    Interval special{0, 0};
    bool any_open = false, any_nan = false, any_special = false;
    for (const Interval& t : terms) {
      if (finite(t)) continue;
      if (is_poison(t)) return kPoison;
      any_special = true;
      any_open = any_open || is_open(t);
      any_nan = any_nan || is_nan(t);
      if (!is_open(t) && !is_nan(t)) special = plus(special, t);
    }
    if (any_nan || is_nan(special)) return kNotANumber;
    if (any_open) return kOpen;
    enclosed.clear();
    for (const Interval& t : terms) {
      if (!finite(t)) continue;
      // A product that is fused to an addition is not rounded; one that a partial sum begins with is.
      const bool begins = fused && (order != Order::sequential || enclosed.empty());
      const Interval either_way = begins ? either(t, once(t, acc)) : t;
      if (!finite(either_way)) return kOpen;
      enclosed.push_back(enclosure(either_way));
    }
    Enclosure total = summed(enclosed, order, acc.machine);
    // A fused product that underflows is rounded with the sum: a step for each.
    if (fused) total.error = up(total.error + static_cast<double>(terms.size()) * acc.machine.tiny);
    if (any_special) return total.error < kInfinity ? special : kOpen;
    Interval z = interval(total);
    if (!finite(z)) return z;
    z = shrunk(z, acc);
    if (order == Order::sequential && !plan_.flush && acc.format->bits < 64)
      z = intersection(z, in_sequence(terms, acc));
    return z;
  }

  // Both ends by the one order that there is.
  static Interval in_sequence(const std::vector<Interval>& terms, const Arithmetic& acc) {
    const Precision p = acc.format->bits == 32           ? kPrecisionF32
                        : acc.format->exponent_bits == 5 ? kPrecisionF16
                                                         : kPrecisionBf16;
    Interval s{round_to_precision(terms[0].low, p), round_to_precision(terms[0].high, p)};
    for (std::size_t k = 1; k < terms.size(); ++k)
      s = {round_sum(s.low, terms[k].low, p), round_sum(s.high, terms[k].high, p)};
    return finite(s) ? s : kOpen;
  }

  // To the numbers of the accumulator that lie inside.
  static Interval shrunk(Interval z, const Arithmetic& acc) {
    if (acc.format->bits == 64) return z;
    EncodePolicy down{.rounding = Rounding::toward_negative, .overflow = Overflow::ieee};
    const double low = -round_to(*acc.format, -z.low, down), high = round_to(*acc.format, z.high, down);
    return low <= high ? Interval{low, high} : z;
  }

  // The element of each rank, where that is decided.
  void top(const Step& s, const Block& b, const std::vector<Value>& values, Value& v) const {
    const Value &x = values[s.args[0]], &rank = values[s.args[2]];
    const std::int64_t n = b.count[s.axis], step = x.stride[s.axis];
    std::int64_t known = -1;
    std::vector<std::int64_t> ids;
    each(s, b, v, x, rank, [&](std::int64_t i, std::int64_t at, std::int64_t r) {
      if (at != known) ids = ranked(x, at, step, n, s.lower_first), known = at;
      const std::int64_t k = rank.whole[r];
      v.own_whole[i] = k <= kOutside ? k : k < 0 || k >= n ? kOutside : ids[k];
    });
  }

  static std::vector<std::int64_t> ranked(const Value& x, std::int64_t at, std::int64_t step, std::int64_t n,
                                          bool lower_first) {
    std::vector<std::int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    const auto low = [&](std::int64_t k) { return x.low[at + k * step]; };
    const auto high = [&](std::int64_t k) { return x.high[at + k * step]; };
    for (std::int64_t k = 0; k < n; ++k)
      if (std::isnan(low(k)) || !(low(k) <= high(k))) return std::vector<std::int64_t>(n, kUnknown);
    const auto middle = [&](std::int64_t k) {
      const double sum = low(k) / 2 + high(k) / 2;
      return std::isnan(sum) ? 0 : sum;
    };
    std::ranges::stable_sort(ids, [&](std::int64_t a, std::int64_t c) { return middle(a) > middle(c); });
    // A place is decided where all before it are above, and all behind it below; equal points keep their
    // order.
    std::vector<double> later(n + 1, -kInfinity);  // the highest end from here on
    for (std::int64_t k = n; k-- > 0;) later[k] = std::max(later[k + 1], high(ids[k]));
    double earlier = kInfinity;  // the lowest end before
    std::vector<std::int64_t> found(n, kUnknown);
    for (std::int64_t k = 0; k < n; ++k) {
      const double lo = low(ids[k]), hi = high(ids[k]);
      const bool is_one = lo == hi;
      const bool before =
          k == 0 || earlier > hi || (is_one && earlier >= hi && tied(x, ids, at, step, k, -1, lower_first));
      const bool behind = k + 1 == n || lo > later[k + 1] ||
                          (is_one && lo >= later[k + 1] && tied(x, ids, at, step, k, 1, lower_first));
      if (before && behind) found[k] = ids[k];
      earlier = std::min(earlier, lo);
    }
    return found;
  }
  // Whether all elements on one side that reach this point are that point: the earlier index goes first then.
  static bool tied(const Value& x, const std::vector<std::int64_t>& ids, std::int64_t at, std::int64_t step,
                   std::int64_t k, std::int64_t side, bool lower_first) {
    const double mine = x.low[at + ids[k] * step];
    for (std::int64_t other = k + side; other >= 0 && other < static_cast<std::int64_t>(ids.size());
         other += side) {
      const double lo = x.low[at + ids[other] * step], hi = x.high[at + ids[other] * step];
      const bool reaches = side < 0 ? lo <= mine : hi >= mine;
      if (!reaches) continue;
      if (lo != mine || hi != mine || (side < 0) != (ids[other] < ids[k]) || !lower_first) return false;
    }
    return true;
  }

  // --- outputs ---
  //
  // At step t, or where there are no steps: what later lines read is what the kernel stored.
  void take_given(const Planned& e, const Tensor& tensor, std::int64_t t) {
    const std::vector<double>* got = decoded(tensor);
    if (got == nullptr) return;
    const std::int64_t count = element_count_of(tensor.shape), each = t < 0 ? count : count / tensor.shape[0];
    const std::int64_t first = t < 0 ? 0 : t * each;
    for (std::int64_t i = first; i < first + each; ++i) take(e, i, (*got)[i]);
  }
  // Of an output that is the index of an element: the largest there is; else -1.
  static double largest_id(const Planned& e) {
    const Step& s = e.steps.back();
    return s.what == Do::top ? static_cast<double>(e.dims[s.axis].extent - 1) : -1;
  }
  // Of what the kernel stored, what later lines read: the number itself, or what rounds to it.
  void take(const Planned& e, std::int64_t i, double got) {
    Held& h = held_[e.tensor];
    if (e.whole) {
      const double last = largest_id(e);
      const bool is_id = last < 0 || (got >= 0 && got <= last);
      h.whole[i] = is_id && std::isfinite(got) ? static_cast<std::int64_t>(got) : kUnknown;
      return;
    }
    // It may have been read before it was rounded: as near as the format's step.
    if (e.read != Read::stored) {
      if (!std::isfinite(got)) return;
      const Held& s = stored_.at(e.tensor);
      if (got >= s.low[i] && got <= s.high[i] && finite({s.low[i], s.high[i]})) {
        const Interval cell = cell_of(*e.format, got);
        const Interval seen{h.low[i], h.high[i]};
        const Interval both = intersection(cell, seen);
        if (finite(seen)) h.low[i] = std::fmin(both.low, got), h.high[i] = std::fmax(both.high, got);
      }
      return;
    }
    h.low[i] = h.high[i] = got;
  }
  // The numbers that round to it in any mode: between its neighbours; everything beyond, at the ends.
  static Interval cell_of(const ScalarFormat& to, double x) {
    if (std::fabs(x) >= to.max_finite)
      return x > 0 ? Interval{x / 2, kInfinity} : Interval{-kInfinity, x / 2};
    const double wide = std::fmax(
        std::fabs(x) * std::ldexp(1.0, -to.fraction_bits),
        to.kind == ScalarKind::floating ? smallest_normal(to) * std::ldexp(1.0, -to.fraction_bits) : 1);
    return {x - wide, x + wide};
  }

  const std::vector<double>* decoded(const Tensor& tensor) {
    if (given_ == nullptr) return nullptr;
    const auto found = given_->find(tensor.name);
    if (found == given_->end()) return nullptr;
    auto& got = decoded_[tensor.name];
    if (got.empty()) got = decode_output(found->second);
    return &got;
  }

  void finish(const Planned& e, const Tensor& tensor) {
    const std::int64_t count = element_count_of(tensor.shape);
    Truth truth = make_truth(tensor.name, static_cast<std::size_t>(count),
                             fmt::format("formula {}: {}", text_.name, tensor.name));
    if (e.whole) {
      const Held& h = stored_.at(e.tensor);
      const double last = largest_id(e);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t w = h.whole[i];
        if (w == kOutside && given_ == nullptr) outside(tensor, i);
        if (w > kOutside) {
          set_special(truth, i, static_cast<double>(w));
          truth.limit[i] = 0;
        } else if (last >= 0) {  // any of them, and no other number
          truth.value[i] = truth.limit[i] = last / 2;
        } else {
          set_unclaimed(truth, i);
        }
      }
    } else {
      const Held& s = stored_.at(e.tensor);
      for (std::int64_t i = 0; i < count; ++i) {
        const Interval z{s.low[i], s.high[i]};
        if (is_poison(z) && given_ == nullptr) outside(tensor, i);
        if (is_open(z) || is_poison(z)) {  // poison: an id that a kernel stored wrong, and is told so
          set_unclaimed(truth, i);
        } else if (!finite(z)) {
          set_special(truth, i, z.low);
        } else {
          const double middle = z.low / 2 + z.high / 2;
          truth.value[i] = z.low == z.high ? z.low : middle;
          truth.limit[i] = z.low == z.high ? 0 : up(std::fmax(z.high - middle, middle - z.low));
        }
      }
    }
    truths_.push_back(std::move(truth));
  }

  [[noreturn]] void outside(const Tensor& t, std::int64_t i) const {
    std::vector<std::int64_t> at(t.shape.size());
    for (std::size_t k = t.shape.size(); k-- > 0;) {
      at[k] = i % t.shape[k];
      i /= t.shape[k];
    }
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("formula {}: {}{} reads outside of a tensor: where(...) has to drop that",
                                 text_.name, t.name, to_string(at)));
  }

  const Text& text_;
  const Plan& plan_;
  const TensorSet* given_;
  std::vector<Held> held_, before_;
  std::map<int, Held> stored_;
  std::map<std::string, std::vector<double>> decoded_;
  std::vector<Truth> truths_;
};

}  // namespace

std::vector<Truth> truths_of(const Text& text, const Plan& plan, const TensorSet& inputs,
                             const TensorSet* given) {
  return Run(text, plan, inputs, given).all();
}

}  // namespace assay::formula
