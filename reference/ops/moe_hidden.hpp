// The intermediate of a mixture of experts: h = silu(g) v as a kernel holds it, and the operands it becomes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reference/formats/format.hpp"
#include "reference/ops/enclosure.hpp"
#include "reference/ops/op.hpp"
#include "reference/ops/operand.hpp"

namespace assay {

// The paths of the two products, each by its own weights.
struct MoePaths {
  std::string up, down;
};
MoePaths moe_paths(const Attributes& attributes);
// The element that h becomes: that of x where the paths are one, else that of its own path.
std::string hidden_element(const MoePaths& paths, std::string_view x_element, const Format& a);
// D of the scale absmax / D of h: that of x; where x is a scalar format, without a scale, the largest number
// of its element.
double hidden_divisor(const Format& a);

// The contract of the second product: down_acc in acc's place, where it is not `same`. Throws InputError
// bad_contract.
Contract contract_of_down(const Contract& contract);

// A kernel's silu(g) = g / (1 + exp(-g)) in f32, `silu_ulp` units in the last place off.
// |silu'| <= 1.1 (its maximum is 1.0998..., at g = 2.3994) carries g's own error. Where exp(-g) overflows f32
// or the quotient is subnormal, |g| > 80, there is an absolute 4e-37 (there |silu| < 88.8 * 2^-128). silu(0)
// is 0.
Enclosure silu(Enclosure g, double silu_ulp);

// What the path makes of one token's h before the second product. Of each number only the cell matters that
// its enclosure lies in (admit, operand.hpp):
//   f32        the enclosure itself
//   f16, bf16  rounded: one number, or the two on either side of a boundary
//   codes      quantised to a's element per token. The scale s = absmax / D comes of an enclosure of absmax,
//                [max_i low |h_i|, max_i high |h_i|] / D,
//              whose relative half-width, and 2 u for the kernel's own quotient, become the row's
//              scale_error: it moves all codes' products alike and costs no code. The quotient h / s, from
//              the ends of both and 4 u for the ways to form it (h / s, h fl(1 / s), h fl(D / absmax)), is
//              rounded to a code, saturating at D as the largest element's must: one code, or a step's choice
//              where it straddles a boundary.
// With numbers, W4A8 (integer dots are exact, three roundings of the scales, silu within 8 ulp): dh = 25 u
// |h| = 1.5e-6, so a code q straddles a boundary with probability 6e-6 |q|: one code in 8,000 of gaussian
// inputs. The half step that a bound of the rounding alone takes for every code is 1/254 of absmax for each
// of them.
//
// An h that may overflow (error +Inf), and a scale that may be subnormal, leave the whole row unclaimed:
// `unclaimed`, for Inf w2 is Inf or NaN and so is every sum with it.
struct HiddenRow {
  OperandRow operands;
  bool unclaimed = false;
};
HiddenRow hidden_row(std::span<const Enclosure> h, std::string_view path, const Format& a, bool flush);

}  // namespace assay
