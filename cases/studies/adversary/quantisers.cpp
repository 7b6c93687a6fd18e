#include "cases/studies/adversary/quantisers.hpp"

#include <algorithm>
#include <cmath>

namespace assay::adversary {
namespace {

// The next number of a floating format above |cut|, cut a number of it; beyond the largest what an overflow
// gives.
double next_above(const ScalarFormat& f, double cut, const EncodePolicy& policy) {
  const double least = std::ldexp(1.0, 1 - f.bias), size = std::fabs(cut);
  const double step = std::ldexp(1.0, std::ilogb(std::max(size, least)) - f.fraction_bits);
  return std::copysign(size + step > f.max_finite ? round_to(f, 4 * f.max_finite, policy) : size + step, cut);
}

// Which of two neighbours chance takes.
bool takes_the_far_one(const Problem& p, std::int64_t index) {
  return (mix(p.seed() ^ mix(static_cast<std::uint64_t>(index))) & 1) != 0;
}

double integer_code(const Problem& p, const ScalarFormat& element, double q, std::int64_t index) {
  const double least = p.is("integers", "symmetric") ? -element.integer_max : -element.integer_max - 1;
  if (p.is("round", "stochastic") && std::isfinite(q)) {
    const double cut = std::trunc(q);
    q = cut == q || !takes_the_far_one(p, index) ? cut : cut + std::copysign(1.0, q);
    return std::clamp(q, least, element.integer_max);
  }
  // Rounded where every integer fits, then clamped to the range that is said.
  return std::clamp(round_to(scalar_format("int8"), q, policy_of(p)), least, element.integer_max);
}

double floating_code(const Problem& p, const ScalarFormat& element, double q, std::int64_t index) {
  EncodePolicy policy = policy_of(p);
  double code = 0;
  if (p.is("round", "stochastic") && std::fabs(q) <= element.max_finite) {
    EncodePolicy cut = policy;
    cut.rounding = Rounding::toward_zero;
    code = round_to(element, q, cut);
    if (code != q && takes_the_far_one(p, index)) code = next_above(element, std::copysign(code, q), policy);
  } else {
    code = round_to(element, q, policy);
  }
  const double least = std::ldexp(1.0, 1 - element.bias);
  // A kernel looks at the code, or at the quotient before it was rounded.
  const double seen = p.seed() % 2 == 0 ? code : q;
  return p.is("subnormals", "zero") && (std::fabs(code) < least || std::fabs(seen) < least) ? 0 : code;
}

}  // namespace

EncodePolicy policy_of(const Problem& p) {
  EncodePolicy policy;
  const std::string& round = p.text("round");
  policy.rounding = round == "nearest_away"  ? Rounding::nearest_away
                    : round == "toward_zero" ? Rounding::toward_zero
                                             : Rounding::nearest_even;
  policy.overflow = p.is("overflow", "ieee") ? Overflow::ieee : Overflow::saturate;
  policy.nan = p.is("nan", "zero") ? NanPolicy::zero : NanPolicy::propagate;
  return policy;
}

double absmax_of(const Problem& p, const Group& group) {
  double absmax = 0;
  for (const double* x : group) {
    if (std::isinf(*x) && p.is("absmax", "clamped"))
      return static_cast<double>(std::numeric_limits<float>::max());
    if (std::isfinite(*x)) absmax = std::max(absmax, std::fabs(*x));
  }
  return absmax;
}

double divisor_of(const Problem& p, double divisor) {
  return p.is("divisor", "half_more") && (divisor == 127 || divisor == 7) ? divisor + 0.5 : divisor;
}

double moved_by_ulps(const Problem& p, double scale, std::int64_t index) {
  const int side = Sides(p.text("sides"), p.seed(), 0).of(index);
  const double to = side > 0 ? std::copysign(HUGE_VAL, scale) : 0;
  for (int i = 0; i < static_cast<int>(p.number("scale_ulp")) && side != 0; ++i)
    scale = static_cast<double>(std::nextafter(static_cast<float>(scale), static_cast<float>(to)));
  return scale;
}

GroupScale dynamic_scale(const Problem& p, double absmax, double divisor, std::int64_t index,
                         std::string_view scale_format) {
  const Arithmetic f32("f32");
  if (absmax == 0) return p.is("zero_scale", "zero") ? GroupScale{0, 0, 0} : GroupScale{};
  const double multiplier = f32.div(divisor, absmax);
  double scale = p.is("scale", "reciprocal") ? f32.mul(absmax, f32.div(1, divisor))
                 : p.is("scale", "inverse")  ? f32.div(1, multiplier)
                                             : f32.div(absmax, divisor);
  scale = moved_by_ulps(p, scale, index);
  if (scale == 0) scale = 1;  // a constant: no error is made in it
  const bool narrow = scale_format == "f16" || scale_format == "bf16";
  const double stored = narrow ? Arithmetic(scale_format).round(scale) : scale;
  return {stored, p.is("code_scale", "exact") ? scale : stored, multiplier, absmax, divisor};
}

double code_of(const Problem& p, const ScalarFormat& element, double quotient, std::int64_t index) {
  const std::string& in = p.text("quotient");
  const double q = in == "f16" || in == "bf16" ? Arithmetic(in).round(quotient) : quotient;
  return element.kind == ScalarKind::integer ? integer_code(p, element, q, index)
                                             : floating_code(p, element, q, index);
}

void scaled_group(const Problem& p, const ScalarFormat& element, const GroupScale& scale, bool known,
                  Group& group) {
  const Arithmetic f32("f32");
  // A reciprocal that overflows is used by no kernel that says no more than `any`.
  const double inverse = f32.div(1, scale.divisor);
  const bool by_inverse = p.is("code", "reciprocal") && (std::isfinite(inverse) || p.is("say", "sharp"));
  const bool by_absmax =
      p.is("code", "absmax") && known && (std::isfinite(scale.multiplier) || p.is("say", "sharp"));
  std::int64_t index = 0;
  for (double* x : group) {
    // D x / absmax is no form that has a word: `any` alone admits it.
    const bool by_product =
        p.is("code", "product") && known && scale.absmax > 0 && std::isfinite(f32.mul(*x, scale.factor));
    const double q = by_inverse   ? f32.mul(*x, inverse)
                     : by_product ? f32.div(f32.mul(*x, scale.factor), scale.absmax)
                     : by_absmax  ? f32.mul(*x, scale.multiplier)
                                  : f32.div(*x, scale.divisor);
    double code = code_of(p, element, q, index++);
    if (p.is("defect", "truncated") && element.kind == ScalarKind::integer) code = std::trunc(q);
    *x = code * scale.stored;
  }
}

}  // namespace assay::adversary
