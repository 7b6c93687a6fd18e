#include "reference/arithmetic/dot_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rule.hpp"
#include "reference/arithmetic/term.hpp"
#include "reference/real/row_grid.hpp"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kInflate = 1 + 0x1p-40;

// 2^floor(log2 x), x > 0.
double floor_power(double x) { return std::isfinite(x) ? power_of_two(std::ilogb(x)) : kInf; }

// What the derivation needs to know of a unit.
struct Cuts {
  double other_terms = 0;   // T': cuts of a block that are not of its products
  double per_block = kInf;  // products of a block that are cut, at most (group_scaled: its four groups)
  double quantum = 0;       // 2^-F
  double rho, eta, tiny;
  double group;
  double cuts(double products, double blocks) const {
    return std::min(products, per_block * blocks) + other_terms * blocks;
  }
};

Cuts cuts_of(const MatrixUnit& unit) {
  const Precision out = out_precision(unit);
  Cuts c{.quantum = power_of_two(-unit.fraction_bits),
         .rho = rule(Rule::unit_rounding, unit_roundoff(out, unit.rounding)),
         .eta = rule(Rule::unit_underflow, underflow_unit(out, unit.rounding)),
         .tiny = power_of_two(out.emin),
         .group = static_cast<double>(unit.group)};
  switch (unit.combine) {
    case Combine::truncate:
    case Combine::truncate_scaled:
      c.other_terms = 1;
      break;
    case Combine::group_scaled:
      c.other_terms = 1, c.per_block = 4;
      break;
    case Combine::floor:
      c.other_terms = 2;
      break;
    case Combine::floor_halves:
      c.other_terms = 4;
      break;
    case Combine::exact:
    case Combine::pairwise_flush:
    case Combine::unpack_split:
    case Combine::wrap:
      c.quantum = 0;
      break;
  }
  c.quantum = rule(Rule::unit_cut, c.quantum);
  return c;
}

double bounded(double error, double magnitude, const Precision& f) {
  error *= kInflate;
  return claims(Rule::sum_overflow, magnitude + error <= largest_finite(f)) ? error
                                                                            : kInf;  // a NaN becomes Inf
}

double scalar_bound(const Precision& f, std::int64_t roundings, const DotMagnitudes& m,
                    double eta_per_operation, double operations) {
  const double gamma = rule(Rule::sum_rounding, gamma_n(static_cast<double>(roundings), unit_roundoff(f)));
  const double a = m.abs_sum + m.abs_c;
  const double underflow = rule(Rule::product_underflow, operations * eta_per_operation);
  return bounded(gamma * a + (underflow + m.flushed) * (1 + gamma), a, f);
}

// P, B and L of the derivation.
struct Dealt {
  double parts, blocks, longest;
  double runs(double promote) const {
    return known_runs > 0 ? known_runs : std::floor((blocks - parts) / promote) + parts;
  }
  double known_runs = 0;
};
Dealt dealt(double n, double group, Blocking blocking) {
  if (n == 0) return {1, 0, 0};
  const double parts = blocking.split > 0 ? std::min(static_cast<double>(blocking.split), n) : n;
  const auto block = std::min(static_cast<double>(blocking.block), group),
             known = static_cast<double>(blocking.blocks);
  const double blocks = known > 0 ? known : std::floor((n - parts) / block) + parts;
  return {parts, blocks, known > 0 ? known : std::floor((n - 1) / block) + 1,
          static_cast<double>(blocking.runs)};
}

double chained_bound(const Cuts& k, Dealt d, double part_unit, const DotMagnitudes& m) {
  const double cuts = k.cuts(static_cast<double>(m.n), d.blocks), abs_total = m.abs_sum + m.abs_c;
  const double additions = (m.abs_c == 0 ? d.parts - 1 : d.parts) * part_unit;  // c is one more part
  const double roundings =
      std::max(d.longest * k.rho, (d.blocks - d.parts + 1) * k.rho + additions);  // one part, or P of them
  const double g = std::max({m.head, abs_total, k.tiny});
  const double grown = std::exp(d.blocks * std::log1p(k.rho) + cuts * k.quantum + additions);  // Pi
  const double e = grown * ((1 + k.rho) * cuts * k.quantum * g + roundings * abs_total + d.blocks * k.eta);
  const double telescoped = g * (grown - 1) * (1 + 0x1p-40) + d.blocks * k.eta * grown;
  const double most = std::min(e, d.parts == 1 ? telescoped : kInf) + grown * m.flushed;
  if (!std::isfinite(most)) return kInf;
  const double top = (g + most) * kInflate;
  const double q = (m.scaled ? top : floor_power(top)) * k.quantum;
  const double again = (1 + k.rho) * cuts * q + roundings * (abs_total + most) + d.blocks * k.eta + m.flushed;
  return std::min(most, again);
}

// Partial sums are added in `sums`; `more` is the number of further such additions on the way of a term.
double promoted_bound(const Cuts& k, double n, Dealt d, double promote, double more, const Precision& out,
                      const Precision& sums, const DotMagnitudes& m) {
  const double parts = d.runs(promote);
  const double run = std::min(promote, d.blocks);
  const double phi = std::exp(run * (std::log1p(k.rho) + (k.group + k.other_terms) * k.quantum));
  const double widest = std::min(n + k.other_terms * run, run * (k.group + k.other_terms));
  const double cut = k.cuts(n, d.blocks) * (m.head + k.tiny) + widest * m.abs_sum;
  const double inner =
      phi * ((1 + k.rho) * k.quantum * cut + run * k.rho * m.abs_sum + d.blocks * k.eta + m.flushed);
  const double a = m.abs_sum + m.abs_c;
  const double gamma = gamma_n(parts + more, rule(Rule::part_addition, unit_roundoff(sums)));
  return bounded(inner + gamma * (a + inner), a, out);
}

// Exactness by inspection.
bool is_exact(const Accumulator& how, const DotMagnitudes& m) {
  if (!(m.lsb > 0) || m.abs_c != 0 || m.flushed != 0 || m.scaled) return false;
  const Precision& f = how.precision;
  const double least =
      how.unit != nullptr && how.unit->combine == Combine::pairwise_flush ? 0x1p-126 : 2 * underflow_unit(f);
  if (!(m.lsb >= least) || !(m.abs_sum <= std::ldexp(m.lsb, f.p)) || !(m.abs_sum <= largest_finite(f)))
    return false;
  if (how.unit == nullptr) return true;
  const int fraction_bits = how.unit->combine == Combine::unpack_split ? 25 : how.unit->fraction_bits;
  if (how.unit->combine == Combine::exact || how.unit->combine == Combine::pairwise_flush) return true;
  const double top = std::max({m.head, m.abs_sum, power_of_two(how.unit->least_exponent)});
  return std::ldexp(floor_power(top), -fraction_bits) <= m.lsb;
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
  m.lsb = kInf;
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
    if (product != 0) m.lsb = std::min(m.lsb, lowest_bit(x) * lowest_bit(y) * lowest_bit(scale(k)));
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

double most_blocks(double n, double group, Blocking blocking) { return dealt(n, group, blocking).blocks; }

double dot_bound(const Accumulator& how, const DotMagnitudes& m, std::int64_t promote, Blocking blocking) {
  const double a = m.abs_sum + m.abs_c;
  const double n = static_cast<double>(m.n);
  const std::int64_t roundings = m.abs_c == 0 ? m.n : m.n + 1;
  if (how.kind == Accumulator::Kind::integer || (how.unit != nullptr && how.unit->combine == Combine::wrap)) {
    if (!claims(Rule::sum_overflow, a < 0x1p31)) return kInf;
    if (promote == 0 || how.unit == nullptr || a <= 0x1p24) return 0;
    // Partial sums are exact; each becomes an f32, and is added to one.
    const double runs = dealt(n, how.unit->group, blocking).runs(static_cast<double>(promote));
    return rule(Rule::part_addition, gamma_n(runs + 1, 0x1p-24)) * a * kInflate;
  }
  if (is_exact(how, m)) return 0;
  if (how.kind == Accumulator::Kind::floating)
    return scalar_bound(how.precision, roundings, m, underflow_unit(how.precision), n);
  const MatrixUnit& unit = *how.unit;
  const Precision out = out_precision(unit);
  if (unit.standing == Standing::assumed && unit.combine == Combine::exact)
    return scalar_bound(out, m.n + 1, m, underflow_unit(out), n);
  if (unit.combine == Combine::pairwise_flush) {
    const double flushed_c = m.abs_c < 0x1p-126 ? m.abs_c : 0;
    return scalar_bound(out, m.n + 1, m, rule(Rule::sum_flush, 0x1p-126), 2 * n + 1) + flushed_c * kInflate;
  }
  const Dealt d = dealt(n, unit.group, blocking);
  if (unit.combine == Combine::unpack_split) {
    const Rounding rounding = out == kPrecisionF32 ? Rounding::toward_zero : Rounding::nearest_even;
    const Cuts inner{.other_terms = 1,
                     .quantum = rule(Rule::unit_cut, 0x1p-25),
                     .rho = rule(Rule::unit_rounding, unit_roundoff(out, rounding)),
                     .eta = rule(Rule::unit_underflow, underflow_unit(out, rounding)),
                     .tiny = power_of_two(out.emin),
                     .group = 16};
    // Every k32 block is one promotion of two k16 steps.
    const double more = promote > 0 ? d.runs(static_cast<double>(promote)) : d.parts - 1;
    return promoted_bound(inner, n, {d.blocks, 2 * d.blocks, 2 * d.longest}, 2, more, out, out, m);
  }
  const Cuts k = cuts_of(unit);
  if (promote > 0) return promoted_bound(k, n, d, static_cast<double>(promote), 0, out, kPrecisionF32, m);
  // Parts in an e8m13 register are added in f32.
  const double part_unit = rule(Rule::part_addition, unit_roundoff(accumulator_precision(unit)));
  return bounded(chained_bound(k, d, part_unit, m), a, out);
}

double dot_bound_ordered(const Precision& f, std::int64_t depth, const DotMagnitudes& m,
                         int product_roundings) {
  if (is_exact({"", Accumulator::Kind::floating, f, nullptr}, m)) return 0;
  return scalar_bound(f, depth + product_roundings, m, underflow_unit(f), static_cast<double>(m.n));
}

}  // namespace assay
