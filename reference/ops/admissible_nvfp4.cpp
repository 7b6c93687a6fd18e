// What a quantiser to nvfp4 may leave behind. A: absmax of the tensor, a: of a block, both over finite
// elements.
//
//   g = 2688 / A                       1 where A is 0
//   s = e4m3fn(a g / 6)                to nearest even, saturating
//   c = e2m1(x g / s)                  as `round` says; 0 where s is 0
//   value = c s / g
//
// A kernel has g, a g / 6 and x g / s within 8 roundings of f32 (2^-21) of the real numbers: by division, by
// reciprocals, or with g made of A / 2688. s is then one of two neighbours at most, c for each s one of two,
// and the value is within 2^-21 of c s / g; all of them are admitted together, since a block scale on the
// boundary and another last bit of g come together as well as alone.
//
// Ties are decided where every way finds the same g, a power of two, and s is one: with A = 2688 and a = 6
// both are 1, and 2.5 g / s is 2.5 in any order of its products and quotients, whose code is 2. ties=any:
// either neighbour, as everywhere else.
//
// Numbers that are within a relative r themselves (requantize) move A, a and x: 2 r more.
//
// Nothing is claimed where g exceeds 2^125, for 1 / g is subnormal there; of a block where s / g is below
// 2^-125, for kernels that multiply by the reciprocal of that find it subnormal, which a fast reciprocal
// reads as 0, or Inf; nor, under absmax=any, of a tensor with an element that is not finite: A may be NaN, or
// Inf, which makes g 0.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "reference/arithmetic/rule.hpp"
#include "reference/ops/admissible.hpp"
#include "reference/ops/op_io.hpp"

namespace assay {
namespace {

constexpr std::size_t kElements = 16;
constexpr double kRoundings = 0x1p-21;

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}
// Whether g is the same power of two by a division, from A times a rounded 1 / 2688, and from A / 2688.
bool is_decided(float largest) {
  const float g = 2688.0F / largest;
  return is_power_of_two(g) && g == 1 / (largest * (1.0F / 2688.0F)) && g == 1 / (largest / 2688.0F) &&
         g == 2688.0F * (1 / largest);
}

double finite_absmax(std::span<const float> values) {
  double largest = 0;
  for (const float x : values)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  return largest;
}

}  // namespace

void admit_nvfp4(Truth& truth, std::span<const float> values, const Contract& contract, double relative) {
  static const ScalarFormat& e4m3fn = scalar_format("e4m3fn");
  static const ScalarFormat& e2m1 = scalar_format("e2m1");
  const EncodePolicy policy = quantise_policy(contract);
  const double largest = finite_absmax(values), g = largest > 0 ? 2688 / largest : 1;
  const bool by_file = contract.text("absmax") == "finite";
  const bool all_finite = std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
  const double off = rule(Rule::nvfp4_rounding, kRoundings) + 2 * relative;
  if (!claims(Rule::nvfp4_range, g <= 0x1p125) || off > 0x1p-10 || (!all_finite && !by_file)) {
    for (std::size_t i = 0; i < values.size(); ++i) set_unclaimed(truth, i);
    return;
  }
  const bool knows_ties = relative == 0 && contract.number("scale_ulp") == 0 &&
                          contract.text("ties") == "rule" && is_decided(static_cast<float>(largest));
  for (std::size_t first = 0; first < values.size(); first += kElements) {
    const auto block = values.subspan(first, kElements);
    const double ideal = finite_absmax(block) * g / 6;
    const auto scale = [&](double moved) { return decode(e4m3fn, encode(e4m3fn, ideal * moved)); };
    const std::array scales{scale(1), scale(1 - off), scale(1 + off)};
    const bool knows_scale =
        knows_ties && scales[0] == scales[1] && scales[0] == scales[2] && is_power_of_two(scales[0]);
    const double least = scales[1] > 0 ? scales[1] : 0x1p-9;  // of those that are not 0
    for (std::size_t e = 0; e < kElements; ++e) {
      const std::size_t i = first + e;
      // An element has neither; what a kernel makes of one is its own affair, but that an Inf saturates.
      const bool is_undefined =
          std::isnan(block[e]) || (std::isinf(block[e]) && policy.overflow == Overflow::ieee);
      if (is_undefined || !claims(Rule::nvfp4_range, scales[2] == 0 || least / g >= 0x1p-125)) {
        set_unclaimed(truth, i);
        continue;
      }
      const auto value = [&](double s, double moved) {
        const double quotient = static_cast<double>(block[e]) * g / s * moved;
        return s > 0 ? decode(e2m1, encode(e2m1, quotient, policy)) * s / g : 0.0;
      };
      truth.value[i] = value(scales[0], 1);
      double limit = 0;
      for (const double s : scales)
        for (const double moved : {1 - off, 1 + off}) {
          const double other = value(s, moved);
          limit = std::max(limit, std::fabs(other - truth.value[i]) + off * std::fabs(other));
        }
      const double across = knows_scale ? (2 * block[e] - truth.value[i]) * g / scales[0] : 0,
                   code = knows_scale ? truth.value[i] * g / scales[0] : 0;  // both as far from the quotient
      truth.limit[i] = across != code && round_to(e2m1, across) == across ? 0 : limit;
    }
  }
}

}  // namespace assay
