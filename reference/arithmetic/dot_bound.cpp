#include "reference/arithmetic/dot_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/term.hpp"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kInflate = 1 + 0x1p-40;

// 2^floor(log2 x), x > 0.
double floor_power(double x) { return std::isfinite(x) ? power_of_two(std::ilogb(x)) : kInf; }

// What the derivation needs to know of a unit.
struct Cuts {
  double terms;        // T
  double other_terms;  // T': cuts that are not truncations of a product
  double quantum;      // 2^-F
  double rho, eta, tiny;
};

Cuts cuts_of(const MatrixUnit& unit) {
  const Precision out = out_precision(unit);
  Cuts c{0,
         0,
         power_of_two(-unit.fraction_bits),
         unit_roundoff(out, unit.rounding),
         underflow_unit(out, unit.rounding),
         power_of_two(out.emin)};
  switch (unit.combine) {
    case Combine::truncate:
    case Combine::truncate_scaled:
      c.terms = unit.group + 1, c.other_terms = 1;
      break;
    case Combine::group_scaled:
      c.terms = 5, c.other_terms = 1;
      break;
    case Combine::floor:
      c.terms = unit.group + 2, c.other_terms = 2;
      break;
    case Combine::floor_halves:
      c.terms = unit.group + 4, c.other_terms = 4;
      break;
    case Combine::exact:
    case Combine::pairwise_flush:
    case Combine::unpack_split:
    case Combine::wrap:
      c.quantum = 0;
      break;
  }
  return c;
}

double bounded(double error, double magnitude, const Precision& f) {
  error *= kInflate;
  return magnitude + error <= largest_finite(f) ? error : kInf;  // a NaN anywhere becomes Inf
}

// sum_{t < blocks} alpha^t, alpha - 1 = growth
double geometric(double growth, double blocks) {
  // Below it, x = growth * blocks, the sum is blocks (1 + x / 2 + ...) <= blocks (1 + x); a growth of 0 is not divided by.
  constexpr double kSmallGrowth = 1e-12;
  return growth * blocks < kSmallGrowth ? blocks * (1 + growth * blocks)
                                        : std::expm1(blocks * std::log1p(growth)) / growth;
}

double scalar_bound(const Precision& f, std::int64_t roundings, const DotMagnitudes& m,
                    double eta_per_operation, double operations) {
  const double gamma = gamma_n(static_cast<double>(roundings), unit_roundoff(f));
  const double a = m.abs_sum + m.abs_c;
  return bounded(gamma * a + operations * eta_per_operation * (1 + gamma) + m.flushed, a, f);
}

double chained_bound(const Cuts& k, double blocks, double abs_total, double head, bool scaled) {
  const double cut = k.terms * k.quantum;
  const double g = std::max({head, abs_total, k.tiny});
  const double beta = (1 + k.rho) * cut * g + k.rho * abs_total + k.eta;
  const double growth = (1 + k.rho) * (1 + cut) - 1;
  const double e = beta * geometric(growth, blocks);
  if (!std::isfinite(e)) return kInf;
  const double top = (g + e) * kInflate;
  const double q = (scaled ? top : floor_power(top)) * k.quantum;
  const double again = blocks * ((1 + k.rho) * k.terms * q + k.rho * (abs_total + e) + k.eta);
  return std::min(e, again);
}

// Partial sums are added in `sums`; `more` is the number of further such additions on the way of a term.
double promoted_bound(const Cuts& k, double blocks, double promote, double more, const Precision& out,
                      const Precision& sums, const DotMagnitudes& m) {
  const double parts = std::ceil(blocks / promote);
  const double cut = k.terms * k.quantum;
  const double growth = (1 + k.rho) * (1 + cut) - 1;
  const double phi = geometric(growth, std::min(promote, blocks));
  const double inner =
      phi * ((1 + k.rho) * cut * (parts * (m.head + k.tiny) + m.abs_sum) + k.rho * m.abs_sum + parts * k.eta);
  const double a = m.abs_sum + m.abs_c;
  const double gamma = gamma_n(parts + more, unit_roundoff(sums));
  return bounded(inner + gamma * (a + inner), a, out);
}

}  // namespace

double product_head(double abs_x, std::string_view x_format, double abs_y, std::string_view y_format) {
  if (abs_x == 0 || abs_y == 0) return 0;
  const double x = std::max(floor_power(abs_x), power_of_two(term_format(x_format).emin));
  const double y = std::max(floor_power(abs_y), power_of_two(term_format(y_format).emin));
  return x * y;
}

DotMagnitudes dot_magnitudes(const Operand& a, const Operand& b, double c, const Accumulator& how) {
  DotMagnitudes m;
  m.n = static_cast<std::int64_t>(a.values.size());
  m.abs_c = std::fabs(c);
  const bool unit = how.kind == Accumulator::Kind::unit && how.unit->combine != Combine::wrap;
  const TermFormat fa = unit ? input_format(*how.unit, a.format) : TermFormat{};
  const TermFormat fb = unit ? input_format(*how.unit, b.format) : TermFormat{};
  const auto scale = [&](std::size_t k) {
    if (!unit || how.unit->scale_block == 0) return 1.0;
    const std::size_t s = k / static_cast<std::size_t>(how.unit->scale_block);
    return static_cast<double>(a.scales[s]) * static_cast<double>(b.scales[s]);
  };
  const auto scale_head = [&](std::size_t k) {
    if (!unit || how.unit->scale_block == 0) return 1.0;
    const std::size_t s = k / static_cast<std::size_t>(how.unit->scale_block);
    return product_head(a.scales[s], how.unit->scales, b.scales[s], how.unit->scales);
  };
  for (std::size_t k = 0; k < a.values.size(); ++k) {
    const double x = std::fabs(static_cast<double>(a.values[k]));
    const double y = std::fabs(static_cast<double>(b.values[k]));
    const double product = x * y * scale(k);
    m.abs_sum += product;
    if (!unit || product == 0) continue;
    const double ex = std::max(floor_power(x), power_of_two(fa.emin));
    const double ey = std::max(floor_power(y), power_of_two(fb.emin));
    // Groups of an mxf4/nvf4 unit align at their scales' exponents, whatever their elements are.
    const double head = how.unit->combine == Combine::group_scaled ? scale_head(k) : ex * ey * scale_head(k);
    m.head = std::max(m.head, head);
    if (x < power_of_two(fa.emin) || y < power_of_two(fb.emin)) m.flushed += product;
  }
  m.abs_sum *= kInflate;
  if (unit && how.unit->combine != Combine::pairwise_flush) m.flushed = 0;
  return m;
}

double dot_bound(const Accumulator& how, const DotMagnitudes& m, std::int64_t promote) {
  const double a = m.abs_sum + m.abs_c;
  const double n = static_cast<double>(m.n);
  const std::int64_t roundings = m.abs_c == 0 ? m.n : m.n + 1;
  if (how.kind == Accumulator::Kind::integer || (how.unit != nullptr && how.unit->combine == Combine::wrap)) {
    return a < 0x1p31 ? 0 : kInf;
  }
  if (how.kind == Accumulator::Kind::floating) {
    return scalar_bound(how.precision, roundings, m, underflow_unit(how.precision), n);
  }
  const MatrixUnit& unit = *how.unit;
  const Precision out = out_precision(unit);
  const double blocks = std::ceil(n / unit.group);
  if (unit.standing == Standing::assumed && unit.combine == Combine::exact)
    return scalar_bound(out, m.n + 1, m, underflow_unit(out), n);
  if (unit.combine == Combine::pairwise_flush) {
    const double flushed_c = m.abs_c < 0x1p-126 ? m.abs_c : 0;
    return scalar_bound(out, m.n + 1, m, 0x1p-126, 2 * n + 1) + flushed_c * kInflate;
  }
  if (unit.combine == Combine::unpack_split) {
    const Rounding rounding = out == kPrecisionF32 ? Rounding::toward_zero : Rounding::nearest_even;
    const Cuts inner{
        17, 1, 0x1p-25, unit_roundoff(out, rounding), underflow_unit(out, rounding), power_of_two(out.emin)};
    // Every k32 block is one promotion of two k16 steps.
    const double more = promote > 0 ? std::ceil(blocks / static_cast<double>(promote)) : 0;
    return promoted_bound(inner, 2 * blocks, 2, more, out, out, m);
  }
  const Cuts k = cuts_of(unit);
  if (promote > 0) return promoted_bound(k, blocks, static_cast<double>(promote), 0, out, kPrecisionF32, m);
  return bounded(chained_bound(k, blocks, a, m.head, m.scaled), a, out);
}

double dot_bound_ordered(const Precision& f, std::int64_t depth, const DotMagnitudes& m,
                         int product_roundings) {
  return scalar_bound(f, depth + product_roundings, m, underflow_unit(f), static_cast<double>(m.n));
}

}  // namespace assay
