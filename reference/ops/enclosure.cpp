#include "reference/ops/enclosure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "reference/error.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {

double smallest_normal(const ScalarFormat& f) {
  return f.kind == ScalarKind::floating ? std::ldexp(1.0, 1 - f.bias) : 1;
}

Machine machine(std::string_view name, bool flush) {
  if (name == "f64")
    return {kUnit64,
            flush ? 0x1p-1022 : 0x1p-1074,
            flush ? 0x1p-1022 : 0.0,
            flush ? 0x1p-1022 : 0.0,
            0x1.fffffffffffffp1023,
            0x1p-1022};
  const ScalarFormat& f = scalar_format(name);
  if (f.kind != ScalarKind::floating)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{} is not an arithmetic: allowed are f64 and the floating formats", name));
  const double normal = smallest_normal(f);
  const double step = std::ldexp(normal, -f.fraction_bits);
  return {std::ldexp(1.0, -f.fraction_bits - 1),
          flush ? normal : step / 2,
          flush ? normal : 0.0,
          flush ? normal : 0.0,
          f.max_finite,
          normal};
}

Enclosure decided(Enclosure z, const ScalarFormat& to, bool flush, const EncodePolicy& policy) {
  if (!std::isfinite(z.value) || !(z.error < kInfinity)) return {z.value, kInfinity};
  double low = round_number(to, z.error > 0 ? z.low() : z.value, policy);
  double high = round_number(to, z.error > 0 ? z.high() : z.value, policy);
  if (!std::isfinite(low) || !std::isfinite(high)) return {z.value, kInfinity};
  if (flush) {  // the ends themselves may be flushed, and what lies between them and 0 with them
    const double normal = smallest_normal(to);
    // Tiny before it is rounded, or after: IEEE 754 leaves it open.
    if (low > 0 && (z.error > 0 ? z.low() : z.value) < normal) low = 0;
    if (high < 0 && (z.error > 0 ? z.high() : z.value) > -normal) high = 0;
  }
  if (low == high) return {low, 0};
  const double value = low / 2 + high / 2;
  return {value, up(std::max(high - value, value - low))};
}

double last_bit(double x) {
  if (x == 0) return kInfinity;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);  // |fraction| in [1/2, 1)
  const auto bits = static_cast<std::uint64_t>(std::ldexp(std::fabs(fraction), 53));
  return std::ldexp(1.0, exponent - 53 + std::countr_zero(bits));
}

Enclosure count(double n, const Machine& m) {
  if (is_representable(n, m)) return {n, 0};
  return {n, rule(Rule::divisor_rounding, m.unit * n)};
}

double division_underflow(Enclosure z, double most, Enclosure divisor, const Machine& m, double ulp) {
  const double relative = gamma_n(2 * ulp, m.unit), steps = underflow_of(m, ulp);
  const Enclosure reciprocal = quotient({1, 0}, divisor);
  const bool fits = reciprocal.magnitude() * (1 + relative) < m.max_finite;
  if (!claims(Rule::reciprocal_overflow, fits)) return kInfinity;
  double error = may_underflow(z, m, relative + 2 * m.unit) ? rule(Rule::quotient_underflow, steps) : 0;
  if (most > 0 && may_underflow(reciprocal, m, relative))
    error += rule(Rule::reciprocal_underflow, most * (1 + m.unit) * steps);
  return error;
}

Enclosure divided(Enclosure a, Enclosure b, const Machine& m, double ulp, double more) {
  const Enclosure z = quotient(a, b);
  if (!(z.error < kInfinity)) return z;
  const double absolute = division_underflow(z, a.magnitude(), b, m, ulp);
  const bool scaled = ulp <= 0.5 && a.error == 0 && b.error == 0 && std::fabs(b.value) == last_bit(b.value);
  if (scaled && absolute == 0 && is_representable(a.value, m))
    return {z.value, claims(Rule::step_overflow, std::fabs(z.value) <= m.max_finite) ? 0 : kInfinity};
  const double relative = rule(Rule::quotient_ulp, gamma_n(2 * ulp + more, m.unit) * z.magnitude());
  const double error = up(z.error + relative + absolute);
  return within_range(z.value, error, m);
}

namespace {

// What is known of the partial sums by inspection: enclosure.hpp.
struct Inspected {
  bool exact = true;        // no term errs
  bool finer = false;       // a term that does not err has finer bits than the arithmetic
  bool positive = true;     // no term is negative, each is 0 or normal
  double last = kInfinity;  // q
  void add(Enclosure t, const Machine& m) {
    if (is_zero(t)) return;
    exact &= t.error == 0;
    finer |= t.error == 0 && m.normal < kInfinity && has_finer_bits(t.value, m);
    positive &= t.value > 0 && !may_underflow(t, m);
    const double least = (std::fabs(t.value) - t.error) * (1 - 0x1p-48);
    last = std::min(last, t.error == 0 ? last_bit(t.value) : least > 0 ? last_bit_of_product(least, m) : 0);
  }
};

}  // namespace

Enclosure summed(std::span<const Enclosure> terms, Order order, const Machine& m) {
  const double n = static_cast<double>(terms.size());
  if (terms.empty()) return {};
  double value = 0, lost = 0;       // value + lost: Neumaier's compensated sum
  double errors = 0, absolute = 0;  // sums of non-negative numbers, each at most n u64 low
  double partial = 0, running = 0;  // of the sequential kernel
  bool first = true;
  Inspected seen;
  for (const Enclosure& t : terms) seen.add(t, m);
  const bool normal = seen.positive || seen.last >= m.normal;
  const double flush = normal ? 0 : rule(Rule::sum_flush, seen.finer ? m.tiny : m.tiny_add);
  const double unit = rule(Rule::sum_rounding, m.unit);
  for (const Enclosure& t : terms) {
    const double next = value + t.value;
    lost += std::fabs(value) >= std::fabs(t.value) ? (value - next) + t.value : (t.value - next) + value;
    value = next;
    const double held = t.error == 0 && std::isfinite(t.value) ? held_error(t.value, m) : 0;
    errors += t.error + held;
    absolute += std::fabs(t.value) + t.error + held;
    partial += t.value;
    running += t.error + (first ? held : 0);
    if (!first) running += unit * (std::fabs(partial) + running) + flush;
    first = false;
  }
  const double inflate = 1 + 4 * n * kUnit64;
  const double finest =
      std::max(m.unit, 2 * kUnit64);  // in f64 too, so that `absolute` is no less than it is
  if (seen.exact && absolute * finest <= seen.last && absolute * inflate < m.max_finite)
    return {value + lost, (n - 1) * flush + errors};
  // Ogita, Rump, Oishi 2005: |value + lost - s| <= u64 |s| + gamma64_{n-1}^2 sum |t_i|.
  const double own =
      kUnit64 * std::fabs(value + lost) * 2 + gamma_n(n, kUnit64) * gamma_n(n, kUnit64) * absolute;
  const double height = order.height(n);
  const double factor = order.is_shallow() ? gamma_n(height, m.unit) : height * m.unit;
  double error = errors + rule(Rule::sum_rounding, factor * absolute * inflate) + (n - 1) * flush;
  if (order == Order::sequential) {
    // The partial sums are themselves off by at most n u64 of the absolute sum; each enters with weight u.
    const double sequential = (running + n * m.unit * n * kUnit64 * absolute) * inflate;
    error = std::min(error, sequential);
  }
  error = up(error * inflate + own);
  if (!claims(Rule::sum_overflow, absolute * inflate * (1 + factor) < m.max_finite)) error = kInfinity;
  return {value + lost, error};
}

Enclosure inverse_sqrt(Enclosure a, const Machine& m, double ulp) {
  const double low = a.low(), high = a.high();
  const double value = 1 / std::sqrt(a.value);  // two roundings in double
  if (!(low > 0)) return {value, kInfinity};
  const double own = 3 * kUnit64;
  const double spread =
      std::max((1 / std::sqrt(low)) * (1 + own) - value, value - (1 / std::sqrt(high)) * (1 - own));
  return evaluated({value, up(std::max(spread, 0.0) + 2 * own * (1 / std::sqrt(low)))}, m, ulp,
                   Rule::rsqrt_ulp, Rule::none);
}

}  // namespace assay
