// Which stored numbers a quantiser of the declared arithmetic may leave behind: what quantize, requantize and
// kv_write judge by. Outputs are judged as decoded numbers, code times the scale that the kernel stored; a stored
// scale that is wrong in its last bit therefore moves every non-zero element of its group, and needs no check of its
// own.
//
// Scaled formats. D: 448, 127, 7 ...; absmax is exact; an all-zero group stores 1; u = 2^-24. The stored scale s is
//   scale=divide      fl32(absmax / D)
//   scale=reciprocal  fl32(absmax fl32(1 / D))
//   scale=any         either
// Given s, the quotient that is rounded to a code is
//   code=divide       fl32(x / s)
//   code=reciprocal   fl32(x fl32(1 / s))
//   code=any          somewhere in [q (1 - 4 u), q (1 + 4 u)], q = x / s: both of these, and x fl(D / absmax)
// Rounding to a code is monotone, so the ends decide which codes are admissible: one, or two neighbours when a
// rounding boundary lies between. With value = the format's own rule (the real quotient by fl32(absmax / D),
// encode_tensor) and
//   limit = max over admissible (scale, code) of |code s - value|
// the limit is 0 for a decided code under a decided scale, one step for a code on the boundary, one unit in the last
// place for a scale in doubt; any other code is outside, because codes are a step apart.
//
// Scalar formats: one rounding, limit 0.
//
// Block formats: the rule of formats/blocks/<name>.cpp. Its scale is monotone in the block's extreme elements and its
// codes are monotone in the quotient, both computed by a kernel within 8 roundings of f32; so every element in turn
// is moved by a relative 2^-21 either way (a whole block's extreme and each quotient alike) and every change that the
// rule then makes, to that element or to its neighbours, is admitted. tq3_0 rotates the block first: there an element
// is moved by 2^-20 of the block's absmax, which moves every rotated coordinate, and the changes add up.
//
// Not finite. A NaN must come back as NaN where the format's elements have one (nan=propagate); nothing is claimed of
// the other members of a group with a NaN or Inf, for the group's absmax is not defined. A NaN may then stand there
// too: a block whose elements have no NaN can pass one on in its scale alone, for all of its elements.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/formats/format.hpp"
#include "reference/ops/op.hpp"

namespace assay {

inline constexpr std::array kQuantiseKeys = {
    ContractKey{"scale", ContractValue::word, "divide", "divide|reciprocal|any",
                "absmax / D, or times a rounded 1 / D"},
    ContractKey{"code", ContractValue::word, "any", "divide|reciprocal|any",
                "x / scale, or times a rounded 1 / scale"},
    ContractKey{"round", ContractValue::word, "nearest_even", "nearest_even|nearest_away|toward_zero",
                "to a code"},
    ContractKey{"overflow", ContractValue::word, "saturate", "saturate|ieee", "beyond the largest code"},
    ContractKey{"nan", ContractValue::word, "propagate", "propagate|zero", "what a NaN becomes"},
};

EncodePolicy quantise_policy(const Contract& contract);

// values: what the kernel reads, f32. Dynamic scales by the format's rule. Fills value and limit.
void admit_quantised(Truth& truth, const Format& to, const Shape& shape, std::span<const float> values,
                     const Contract& contract);
// Scales that the caller knows: scales[s] is every admissible scale of group s (plane ".scale", row-major).
void admit_quantised_with_scales(Truth& truth, const Format& to, const Shape& shape,
                                 std::span<const float> values, const std::vector<std::vector<float>>& scales,
                                 const Contract& contract);
// The admissible fl32(absmax / divisor); {1} when absmax is 0.
std::vector<float> admissible_scales(float absmax, float divisor, const Contract& contract);
// absmax of each group over its finite elements.
std::vector<float> group_absmax(const Format& to, const Shape& shape, std::span<const float> values);

}  // namespace assay
