#include "reference/ops/attention/limits/bounds_interval.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::attention_bounds {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// What an accumulator in [low, high] can make M be at least: its exponent, no less than emin; of a zero what
// the unit says.
int least_exponent(double low, double high, const Accumulator& how) {
  if (low <= 0 && high >= 0) return how.unit->least_exponent;
  return std::max(how.precision.emin, exponent_of(std::min(std::fabs(low), std::fabs(high))));
}
int largest_exponent(double low, double high, const Accumulator& how) {
  if (low == 0 && high == 0) return how.unit->least_exponent;
  return std::max(how.precision.emin, exponent_of(std::max(std::fabs(low), std::fabs(high))));
}
// Once a sum may have overflowed it may be anything: Inf times a factor of 0 is NaN.
bool is_bounded(IntervalColumns& o, std::size_t c) {
  if (std::isfinite(o.low[c]) && std::isfinite(o.high[c])) return true;
  o.low[c] = -kInfinity, o.high[c] = kInfinity;
  return false;
}

}  // namespace

void rescale_interval(IntervalColumns& o, Interval a, const Accumulator& pv, bool chained, bool is_read) {
  const bool cut = pv.kind == Accumulator::Kind::unit && pv.unit->out == "e8m13";
  const auto held = [&](double low, double high) -> Interval {
    if (chained && !cut) return to_type(low, high, pv.precision);
    const auto least = static_cast<float>(low), most = static_cast<float>(high);
    if (chained && is_read) return {truncate_e8m13(least), truncate_e8m13(most)};
    return {least, most};
  };
  if (a.low == 1 && a.high == 1) return;
  for (std::size_t c = 0; c < o.low.size(); ++c) {
    if (!is_bounded(o, c)) continue;
    const Interval r =
        held(o.low[c] * (o.low[c] > 0 ? a.low : a.high), o.high[c] * (o.high[c] > 0 ? a.high : a.low));
    o.low[c] = r.low, o.high[c] = r.high;
  }
}

IntervalSum::IntervalSum(const Accumulator& how, const KeyValues& kv, const ValueFacts& facts, int p_emin)
    : how_(how), model_(how), kv_(kv), facts_(facts), p_emin_(p_emin) {
  const auto n = static_cast<std::size_t>(kv.dv);
  m_low_.resize(n), m_high_.resize(n), factor_.resize(n), sum_low_.resize(n), sum_high_.resize(n);
}

double IntervalSum::to_register(std::int64_t sum, int quantum) const {
  const bool split_f32 = how_.unit->combine == Combine::unpack_split && how_.precision == kPrecisionF32;
  const Rounding rounding = split_f32 ? Rounding::toward_zero : how_.unit->rounding;
  const double x = std::ldexp(static_cast<double>(sum), quantum);  // fewer than 53 bits
  if (rounding == Rounding::toward_zero && std::fabs(x) >= 0x1p-126 && std::fabs(x) < 0x1p127) {
    const std::uint64_t cut = (std::uint64_t{1} << (53 - model_.precision)) - 1;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~cut);
  }
  return round_to_precision(x, how_.precision, rounding, OverflowTo::infinity);
}

double IntervalSum::with_exponent(const Keys& keys, int m, int fraction_bits, std::size_t c,
                                  std::span<const double> p_low, std::span<const double> p_high, double start,
                                  bool high) const {
  const double factor = std::ldexp(1.0, fraction_bits - m);
  const double largest = std::ldexp(4.0, fraction_bits);  // a term of exponent m or less is below 4 * 2^m
  const auto cut = [&](double x) {
    return static_cast<std::int64_t>(std::clamp(x * factor, -largest, largest));
  };
  std::int64_t sum = cut(start);
  for (int i = 0; i < keys.count; ++i) {
    const std::int64_t j = keys.index[i];
    const double v = kv_.v[j * kv_.dv + c];
    sum += cut(((v > 0) == high ? p_high[j] : p_low[j]) * v);
  }
  return to_register(sum, m - fraction_bits);
}

void IntervalSum::aligned(const Keys& keys, int fraction_bits, std::span<const double> p_low,
                          std::span<const double> p_high, IntervalColumns& to) {
  if (keys.count == 0) return;
  const auto n = factor_.size();
  bool points = true;
  std::vector<std::uint8_t> unbounded(n);
  for (std::size_t c = 0; c < n; ++c) {
    if (!is_bounded(to, c)) to.low[c] = to.high[c] = 0, unbounded[c] = 1;
    m_low_[c] = least_exponent(to.low[c], to.high[c], how_);
    m_high_[c] = largest_exponent(to.low[c], to.high[c], how_);
  }
  for (int i = 0; i < keys.count; ++i) {
    const std::int64_t j = keys.index[i];
    const std::int16_t* head = facts_.head.data() + j * kv_.dv;
    const int e_high = std::max(exponent_of(p_high[j]), p_emin_);
    const int e_low = p_low[j] > 0 ? std::max(exponent_of(p_low[j]), p_emin_) : -kNever;
    points = points && p_low[j] == p_high[j];
    for (std::size_t c = 0; c < n; ++c) {
      m_low_[c] = std::max(m_low_[c], e_low + head[c]);
      m_high_[c] = std::max(m_high_[c], e_high + head[c]);
    }
  }
  for (std::size_t c = 0; c < n; ++c) {
    factor_[c] = std::ldexp(1.0, fraction_bits - m_high_[c]);
    sum_low_[c] = static_cast<std::int64_t>(to.low[c] * factor_[c]);
    sum_high_[c] = static_cast<std::int64_t>(to.high[c] * factor_[c]);
  }
  for (int i = 0; i < keys.count; ++i) {
    const std::int64_t j = keys.index[i];
    const float* v = kv_.v.data() + j * kv_.dv;
    const double low = p_low[j], high = p_high[j];
    for (std::size_t c = 0; c < n; ++c) {
      const double x = v[c];
      const auto a = static_cast<std::int64_t>(low * x * factor_[c]);
      const auto b = low == high ? a : static_cast<std::int64_t>(high * x * factor_[c]);
      sum_low_[c] += std::min(a, b);
      sum_high_[c] += std::max(a, b);
    }
  }
  for (std::size_t c = 0; c < n; ++c) {
    const double start_low = to.low[c], start_high = to.high[c];
    const int quantum = m_high_[c] - fraction_bits;
    to.low[c] = to_register(sum_low_[c], quantum);
    to.high[c] = sum_low_[c] == sum_high_[c] ? to.low[c] : to_register(sum_high_[c], quantum);
    for (int m = m_low_[c]; m < m_high_[c]; ++m) {
      to.low[c] =
          std::min(to.low[c], with_exponent(keys, m, fraction_bits, c, p_low, p_high, start_low, false));
      to.high[c] =
          std::max(to.high[c], with_exponent(keys, m, fraction_bits, c, p_low, p_high, start_high, true));
    }
    if (unbounded[c] != 0) to.low[c] = -kInfinity, to.high[c] = kInfinity;
  }
}

void IntervalSum::widened(std::span<const double> p_low, std::span<const double> p_high, std::int64_t first,
                          std::int64_t last, IntervalColumns& to) {
  const auto n = factor_.size();
  std::vector<double> low = to.low, high = to.high, products(n), flushed(n);
  std::vector<int> head(n, -kNever);
  for (std::int64_t j = first; j < last; ++j) {
    if (p_high[j] == 0) continue;
    const float* v = kv_.v.data() + j * kv_.dv;
    const int e = std::max(exponent_of(p_high[j]), p_emin_);
    for (std::size_t c = 0; c < n; ++c) {
      const double x = v[c], a = p_low[j] * x, b = p_high[j] * x;
      low[c] += std::min(a, b), high[c] += std::max(a, b), products[c] += std::fabs(b);
      head[c] = std::max(head[c], e + facts_.head[j * kv_.dv + c]);
      if (exponent_of(p_low[j]) < p_emin_ || facts_.head[j * kv_.dv + c] <= facts_.emin)
        flushed[c] += std::fabs(b);
    }
  }
  for (std::size_t c = 0; c < n; ++c) {
    if (products[c] == 0) continue;
    const double reach = std::max(std::fabs(low[c]), std::fabs(high[c]));
    const double slop = 0x1p-48 * (products[c] + reach);  // of the f64 sums above
    if (model_.kind == StepModel::Kind::exact) {
      to.low[c] =
          round_to_precision(low[c] - slop, how_.precision, how_.unit->rounding, OverflowTo::infinity);
      to.high[c] =
          round_to_precision(high[c] + slop, how_.precision, how_.unit->rounding, OverflowTo::infinity);
      continue;
    }
    StepModel::Step step;
    step.head = head[c] < -1000 ? 0 : std::ldexp(1.0, head[c]);
    step.before = std::max(std::fabs(to.low[c]), std::fabs(to.high[c]));
    step.after = reach, step.products = products[c], step.flushed = flushed[c];
    step.inexact = static_cast<int>(last - first);
    const double error = model_.error(step) + slop;
    to.low[c] = low[c] - error;
    to.high[c] = high[c] + error;
  }
}

void IntervalSum::scalar(double p_low, double p_high, std::int64_t key, IntervalColumns& to) {
  const float* v = kv_.v.data() + key * kv_.dv;
  const auto in_f32 = [](double o, double p, double x) {
    return static_cast<double>(static_cast<float>(o) + static_cast<float>(p) * static_cast<float>(x));
  };
  for (std::size_t c = 0; c < factor_.size(); ++c) {
    const double x = v[c], least = x > 0 ? p_low : p_high, most = x > 0 ? p_high : p_low;
    if (how_.precision == kPrecisionF32) {
      const double low = in_f32(to.low[c], least, x);
      to.high[c] = p_low == p_high && to.low[c] == to.high[c] ? low : in_f32(to.high[c], most, x);
      to.low[c] = low;
      continue;
    }
    const Interval product = to_type(least * x, most * x, how_.precision),
                   sum = to_type(to.low[c] + product.low, to.high[c] + product.high, how_.precision);
    to.low[c] = sum.low, to.high[c] = sum.high;
  }
}

void IntervalSum::add(std::span<const double> p_low, std::span<const double> p_high, std::int64_t first,
                      std::int64_t last, IntervalColumns& to) {
  if (how_.kind != Accumulator::Kind::unit) {
    for (std::int64_t j = first; j < last; ++j) scalar(p_low[j], p_high[j], j, to);
    return;
  }
  for (std::int64_t b = first; b < last; b += model_.group) {
    const std::int64_t end = std::min(last, b + model_.group);
    const Combine combine = how_.unit->combine;
    if (combine == Combine::truncate) {
      Keys keys;
      for (std::int64_t j = b; j < end; ++j) {
        if (p_high[j] > 0) keys.index[keys.count++] = j;
      }
      aligned(keys, model_.fraction_bits, p_low, p_high, to);
    } else if (combine == Combine::unpack_split) {
      IntervalColumns inner(factor_.size());
      for (int half = 0; half < 2; ++half) {
        Keys keys;
        for (std::int64_t j = b; j < end; ++j) {
          if (p_high[j] > 0 && ((j - b) % 4 >= 2) == (half == 1)) keys.index[keys.count++] = j;
        }
        aligned(keys, model_.fraction_bits, p_low, p_high, inner);
      }
      for (std::size_t c = 0; c < factor_.size(); ++c) {
        to.low[c] = round_sum(to.low[c], inner.low[c], how_.precision);
        to.high[c] = round_sum(to.high[c], inner.high[c], how_.precision);
      }
    } else {
      widened(p_low, p_high, b, end, to);
    }
  }
}

}  // namespace assay::attention_bounds
