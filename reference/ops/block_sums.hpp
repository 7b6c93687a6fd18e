// Products with weights that have a minimum, w = d_w c + m, on paths that multiply activations by blocks of
// codes.
//
//   sum over a block of a w = d_w d sum q c + m s,   a = d q,  s the stored or exact sum of the block's a
//
//   q8_1   s = f16(d sum q), d the f32 before it was stored as f16, so that s is off the sum of the a that
//          stand for it by
//            |s - d' sum q| <= S (2^-11 + 2^-11 (1 + 2^-11) + 4 u) + 2^-25 (1 + N),   N >= |sum q|,  S = d N
//            (conversions.hpp)
//   q8_K   sums of 16 codes are kept as integers: s is exact
//   q8_1 with sums=values (ggml on CUDA)   s = f16(fl(sum of the block's x)), x before they are quantised:
//                                          the output is
//            sum a w + m (sum x - sum a), and s is off sum x by
//            |s - sum x| <= gamma_34 sum |x| + 2^-11 (1 + gamma_34) |sum x| + 2^-25;
//            an operand a that is not decided is off by its radius r, times d_w c = w - m: |m| r more than
//            the dot's limit has. Where the minima of a block differ (q2_K, of 16), no one sum meets them: as
//            with codes. With numbers: x = 0.4 d in all 32, codes 0: sum a = 0, s = 12.8 d.
//
// And what is summed is no longer a w: |d_w c| <= |w| + |m|, so that the sum of the magnitudes grows by at
// most
//   2 |m| sum |a| + |m| |s - sum a|,
// which all roundings of the product's sum (gamma_{n+16} of f32) meet besides what the dot's own limit has.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "reference/arithmetic/rounding.hpp"
#include "reference/formats/minima.hpp"
#include "reference/ops/operand.hpp"

namespace assay {

// What the sums of blocks do to one output: `shift` is added to the sum of products, and `error` bounds the
// rest; +Inf where a stored sum may leave f16. `x`: a row of activations under `path` (q8_1, q8_K);
// of_values: sums=values; minima: of the weights.
struct BlockSums {
  double shift = 0, error = 0;
};
// flush: ftz=yes, under which a product of sum and minimum below the normal numbers of acc may be 0, and a
// stored sum below 2^-14 may be read as 0, and a block's scale apart from it: its operands are then off by
// their radius, times d_w c = w - m, and by as much from what the sum stands for: 2 |m| r. acc: in which the
// products of codes and those of sums and minima are added, each rounded: u is its unit roundoff, where that
// is more than 2^-24, and +Inf where the sum of their magnitudes may leave it.
BlockSums block_sums(std::string_view path, bool of_values, const OperandRow& x, const OperandRow& w,
                     const std::vector<double>& minima, const Precision& acc, bool flush);

// What a kernel loses that multiplies the sum of a block's codes by the product of both scales, where that
// product is below the normal numbers of f32: half a step of it, or all under ftz, times the sum of the
// codes, and as much of the sums that meet minima. 0 where no block's scales are that small: without minima a
// number is at most a code times its scale, and with them nothing is known of it. +Inf where the
// product of scales, that sum times one of them, or an operand may overflow. elements: of both sides of
// path=blocks, whose sum is a multiple of both formats' last places, and may vanish under one scale before
// the other meets it.
double block_scale_error(std::string_view path, std::array<std::string_view, 2> elements, const OperandRow& x,
                         const OperandRow& w, bool flush, bool has_minima);

// The roundings in f32 of what a kernel multiplies blocks by, beside sums in a wider type: `roundings` of
// each product. 0 where every product is a number of f32.
double block_scale_rounding(const OperandRow& x, const OperandRow& w, double roundings);

}  // namespace assay
