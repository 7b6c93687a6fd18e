#include "reference/ops/attention/limits/bounds_detail.hpp"

#include <algorithm>
#include <limits>

#include "reference/arithmetic/rule.hpp"

namespace assay::attention_bounds {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}

StepModel::StepModel(const Accumulator& how) {
  precision = how.precision.p;
  emin = how.precision.emin;
  overflow = largest_finite(how.precision);
  rho = unit_roundoff(how.precision);
  eta = underflow_unit(how.precision);
  rescale = how.precision == kPrecisionF32 ? kU : kU + rho;
  if (how.kind != Accumulator::Kind::unit) return;
  const MatrixUnit& unit = *how.unit;
  group = block = unit.group;
  fraction_bits = unit.fraction_bits;
  rho = unit_roundoff(how.precision, unit.rounding);
  eta = underflow_unit(how.precision, unit.rounding);
  if (how.precision != kPrecisionF32) rescale = kU + rho;
  switch (unit.combine) {
    case Combine::exact:
      kind = Kind::exact;
      break;
    case Combine::unpack_split:
      kind = Kind::split_unit;
      if (how.precision != kPrecisionF32) inner_rho = rho, inner_eta = eta;
      break;
    case Combine::pairwise_flush:
      kind = Kind::pairwise;
      break;
    case Combine::floor:
      kind = Kind::aligned, extra_cuts = 2;
      break;
    case Combine::floor_halves:
      kind = Kind::aligned, extra_cuts = 4;
      break;
    default:
      kind = Kind::aligned;
  }
}

int StepModel::quantum_exponent(const Step& step) const {
  switch (kind) {
    case Kind::aligned:
      return std::max(exponent_of(std::max(step.head, step.before)), emin) - fraction_bits;
    case Kind::split_unit:  // each half is rounded to the register's precision
      return std::max(exponent_of(std::max(step.head, step.products)), emin) - (precision - 2);
    case Kind::pairwise:
      return std::max(exponent_of(std::max(step.head, step.products)), emin) - 22;
    case Kind::exact:
    case Kind::scalar:
      return -kNever;
  }
  return kNever;
}

double StepModel::error(const Step& step) const {
  const auto rounded = [&](double moved) {
    const double after = step.after + moved;
    if (after > overflow) return kInfinity;  // also where it fits the register's bits
    if (moved == 0 && step.after_fits) return 0.0;
    return moved + std::max(rho * after, eta);
  };
  switch (kind) {
    case Kind::scalar: {
      // A fused step has no product error; twice eta: one for the product, one for a fused sum.
      const double product = step.inexact == 0 ? 0 : rho * step.products + eta;
      return rounded(product);
    }
    case Kind::exact:
      return rounded(0);
    case Kind::aligned: {
      const int cuts = step.inexact + (step.c_inexact && step.before > 0 ? 1 : 0);
      return rounded(cuts == 0 ? 0 : (cuts + extra_cuts) * std::ldexp(1.0, quantum_exponent(step)));
    }
    case Kind::split_unit: {
      if (step.products > overflow)
        return kInfinity;  // a half may overflow though the other would take it back
      if (step.inexact == 0) return rounded(0);
      const double aligned =
          (group + 1) * std::ldexp(1.0, quantum_exponent(step) + precision - 2 - fraction_bits);
      return rounded(aligned + 2 * (inner_rho * (step.products + aligned) + inner_eta));
    }
    case Kind::pairwise: {
      const double inner = step.inexact == 0 ? 0 : 3 * (1 + 4 * kU) * kU * step.products;
      const double flushes = step.flushed > 0 || step.inexact > 0 ? (2 * group + 1) * kTiny : 0;
      return rounded(inner + step.flushed + flushes);
    }
  }
  return kInfinity;
}

double StepModel::worst(const Whole& whole) const {
  const auto n = static_cast<double>(whole.steps);
  const double most = static_cast<double>(std::min<std::int64_t>(group, whole.terms));
  const double cuts = std::min(static_cast<double>(whole.terms), n * group) + n * (1 + extra_cuts);
  const auto solve = [&](double r, double b) {  // E <- (1 + r) E + b, n times from 0
    return r == 0 ? n * b : b * std::expm1(n * std::log1p(r)) / r;
  };
  double e = 0;
  switch (kind) {
    case Kind::scalar: {
      const double gamma = gamma_n(whole.height + 1, rho);
      if (gamma == kInfinity) return kInfinity;
      e = gamma * whole.products + 2 * static_cast<double>(whole.terms) * eta * (1 + gamma);
      break;
    }
    case Kind::exact:
      e = solve(rho, rho * whole.partial + eta);
      break;
    case Kind::aligned: {
      // r_i = (1 + rho) c_i 2^-F + rho and b_i <= r_i h + eta, h the largest that a step aligns to.
      const double all = (1 + rho) * cuts * std::ldexp(1.0, -fraction_bits) + rho * n;
      e = std::max({whole.partial, whole.head, std::ldexp(1.0, emin)}) * std::expm1(all) +
          n * eta * std::exp(all);
      break;
    }
    case Kind::split_unit: {
      if (whole.products > overflow) return kInfinity;
      const double inner =
          std::ldexp(1.001, -fraction_bits) * ((most + 1) * whole.products + cuts * whole.head) +
          2 * inner_rho * 1.001 * whole.products + n * 3 * inner_eta +
          cuts * std::ldexp(1.001, emin - fraction_bits);
      e = inner * std::exp(n * rho) + solve(rho, rho * whole.partial);
      break;
    }
    case Kind::pairwise: {
      const double inner = 3.001 * kU * whole.products + n * (2 * group + 1) * kTiny + whole.flushed;
      e = inner * std::exp(n * kU) + solve(kU, kU * whole.partial);
      break;
    }
  }
  return whole.partial + e > overflow ? kInfinity : e;
}

bool StepModel::never_rounds(double products, double head, int lattice) const {
  const int bits = kind == Kind::aligned ? std::min(precision, fraction_bits) : std::min(precision, 23);
  return products <= overflow && exponent_of(std::max(products, head)) - lattice < bits &&
         lattice > emin - precision;
}

FormatModel::FormatModel(std::string_view name) {
  if (name == "f32") return;
  format = &scalar_format(name);
  exact = false;
  emin = emin_of(name);
  u = std::ldexp(1.0, -format->fraction_bits - 1);
  half_spacing_min = std::ldexp(u, emin);
  max_finite = format->max_finite;
}
double FormatModel::half_ulp(double x) const {
  if (exact) return 0;
  if (x > max_finite) return kInfinity;
  return std::max(half_spacing_min, std::ldexp(u, exponent_of(x)));
}

int emin_of(std::string_view name) {
  if (name == "f32") return -126;
  return 1 - scalar_format(name).bias;
}

double exp_error(const AttentionArithmetic& how) { return rule(Rule::tile_exp, how.exp_ulp * 0x1p-23); }

}  // namespace assay::attention_bounds
