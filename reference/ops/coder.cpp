// How a quotient becomes a code: admissible.hpp.
#include <cmath>

#include "reference/arithmetic/rule.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr double kUnit32 = 0x1p-24;

// The neighbour of q away from zero, where `cut` is the one toward zero.
double neighbour_away(const ScalarFormat& to, double q, double cut, EncodePolicy policy) {
  if (cut == q || std::isnan(q)) return cut;
  if (to.kind == ScalarKind::floating &&
      std::fabs(q) > to.max_finite) {  // NaN, Inf, or the largest number again
    policy.rounding = Rounding::nearest_even;
    return round_to(to, std::copysign(4 * to.max_finite, q), policy);
  }
  policy.rounding = Rounding::toward_negative;
  if (q < 0) return round_to(to, q, policy);
  return to.kind == ScalarKind::integer ? std::min(cut + 1, to.integer_max) : -round_to(to, -q, policy);
}

}  // namespace

std::vector<ScalarFormat> admissible_codes(const ScalarFormat& element, const Contract& contract) {
  std::vector<ScalarFormat> list(1, element);
  if (element.kind != ScalarKind::integer || !element.is_signed || element.bits > 8) return list;
  const std::string_view range = contract.text("int_range");
  list.front().integer_min = -element.integer_max - (range == "symmetric" ? 0 : 1);
  if (range == "any") {
    list.push_back(element);
    list.back().integer_min = -element.integer_max;
  }
  return list;
}

Coder::Coder(const Format& to, const Contract& contract)
    : elements_(admissible_codes(scalar_format(to.element), contract)),
      policy_(quantise_policy(contract)),
      how_(contract.text("code")),
      quotient_(contract.text("quotient")),
      code_scale_(contract.text("code_scale")),
      zeroes_subnormals_(contract.text("subnormals") == "zero"),
      error_(rule(Rule::code_quotient, gamma_n(4 + 2 * contract.number("scale_ulp"), kUnit32))) {}

void Coder::codes(double quotient, bool is_nan, const std::function<void(double)>& visit) const {
  const double q = quotient_ == "f16"    ? round_f16(static_cast<float>(quotient))
                   : quotient_ == "bf16" ? round_bf16(static_cast<float>(quotient))
                                         : quotient;
  if (std::isnan(q) && !is_nan) return visit(q);
  for (const ScalarFormat& element : elements_) {
    const double least =
        zeroes_subnormals_ && element.kind == ScalarKind::floating ? smallest_normal(element) : 0;
    const auto one = [&](double code) {
      if (std::fabs(code) < least) return visit(0);
      visit(code);
      if (std::fabs(q) < least) visit(0);
    };
    if (policy_.rounding != Rounding::stochastic) {
      one(round_to(element, q, policy_));
      continue;
    }
    EncodePolicy cut = policy_;
    cut.rounding = Rounding::toward_zero;
    const double toward_zero = round_to(element, q, cut);
    one(toward_zero);
    if (rule(Rule::code_step, 1) > 0) one(neighbour_away(element, q, toward_zero, policy_));
  }
}

void Coder::each(float x, const AdmissibleScale& s, const std::function<void(double)>& visit) const {
  const auto admit = [&](double quotient) {
    codes(quotient, std::isnan(x), [&](double code) { visit(code * s.stored); });
  };
  if (how_ == "divide") {
    admit(x / s.divisor);
  } else if (how_ == "reciprocal") {
    admit(x * (1.0F / s.divisor));
  } else if (how_ == "direct") {
    admit(x * s.multiplier);
    if (!std::isfinite(s.multiplier))
      admit(x / s.divisor);  // a scale that vanishes counts as 1, its reciprocal too
  } else {
    const double quotient = static_cast<double>(x) / s.divisor;
    admit(quotient);
    admit(quotient * (1 - error_));
    admit(quotient * (1 + error_));
    // Where a reciprocal leaves the range of f32 no relative error holds, and the operations themselves
    // decide.
    if (rule(Rule::quotient_range, 1) == 0) return;
    admit(x * (1.0F / s.divisor));
    if (code_scale_ != "stored" || s.stored == s.divisor) admit(x * s.multiplier);
  }
}

}  // namespace assay
