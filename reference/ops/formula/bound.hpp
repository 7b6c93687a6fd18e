// Bound: for every number of a plan an interval that holds whatever a kernel of the declared arithmetic has
// in its place.
//
// 1. Rounding is monotone, and so is each of + * / max exp ... in each operand. A step that is one rounding
//    costs the rounding of both ends and no more, and a point stays a point: where a contract leaves nothing
//    open, the interval is the kernel's number.
// 2. A kernel's sum is a number of its accumulator: an interval shrinks to the outermost such numbers in it.
// 3. What is left open widens: a sum by enclosure.hpp (summed), a quotient and a function by their ulps there
//    (divided, evaluated).
//
// An interval is [low, high] of finite doubles, or one of
//   NaN, NaN        the number is NaN in every kernel
//   Inf, Inf        it is that infinity in every kernel (-Inf likewise)
//   -Inf, +Inf      open: nothing is claimed; where a result may overflow, or what decides is not decided
//   +Inf, -Inf      poison: read outside of a tensor, or an index of -1; a where() has to drop it
// Ends are computed in f64 and rounded outwards by the sign of what is cut off (TwoSum, fma), so that a tie
// stays one.
//
// With numbers: rmsnorm rows=1 cols=2, x = (3, 4), eps = 0, acc=f32, ms.order=sequential, div_ulp 0.5:
// 9 + 16 = 25 and 25 / 2 = 12.5 are points; rsqrt(12.5) within 2 ulps, of 2^-25 there, is
// 0.28284271 +- 2^-24; y is 3 times that, rounded.
#pragma once

#include <vector>

#include "reference/ops/formula/interval.hpp"
#include "reference/ops/formula/plan.hpp"
#include "reference/ops/op.hpp"

namespace assay::formula {

// The truths of all outputs, in the order of the text. `given`: outputs as a kernel stored them; later lines
// read these, so that codes are judged with the kernel's own scales. Throws InputError bad_value where the
// formula reads outside of a tensor.
std::vector<Truth> truths_of(const Text& text, const Plan& plan, const TensorSet& inputs,
                             const TensorSet* given = nullptr);

}  // namespace assay::formula
