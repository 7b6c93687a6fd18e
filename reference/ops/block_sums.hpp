// Products with weights that have a minimum, w = d_w c + m, on paths that multiply activations by blocks of codes.
//
//   sum over a block of a w = d_w d sum q c + m s,   a = d q,  s the stored or exact sum of the block's a
//
//   q8_1   s = f16(d sum q), d the f32 before it was stored as f16, so that s is off the sum of the a that stand for it by
//            |s - d' sum q| <= S (2^-11 + 2^-11 (1 + 2^-11) + 4 u) + 2^-25 (1 + N),   N >= |sum q|,  S = d N      (conversions.hpp)
//   q8_K   sums of 16 codes are kept as integers: s is exact
//
// And what is summed is no longer a w: |d_w c| <= |w| + |m|, so that the sum of the magnitudes grows by at most
//   2 |m| sum |a| + |m| |s - sum a|,
// which all roundings of the product's sum (gamma_{n+16} of f32) meet besides what the dot's own limit has.
#pragma once

#include <string_view>
#include <vector>

#include "reference/formats/minima.hpp"
#include "reference/ops/operand.hpp"

namespace assay {

// The bound of what the sums of blocks do to one output; +Inf where a stored sum may leave f16. `x`: a row of activations under
// `path` (q8_1, q8_K).
double block_sum_error(std::string_view path, const OperandRow& x, const std::vector<double>& minima);

// What a kernel loses that multiplies the sum of a block's codes by the product of both scales, where that product is below the
// normal numbers of f32: half a step of it, or all under ftz, times the sum of the codes. 0 where no block's scales are that
// small: a number is at most a code times its scale. +Inf where the product of scales, or that sum times one of them, may overflow. element: of path=blocks.
double block_scale_error(std::string_view path, std::string_view element, const OperandRow& x,
                         const OperandRow& w, bool flush);

// The roundings in f32 of what a kernel multiplies blocks by, beside sums in a wider type: `roundings` of each product. 0 where
// every product is a number of f32.
double block_scale_rounding(const OperandRow& x, const OperandRow& w, double roundings);

}  // namespace assay
