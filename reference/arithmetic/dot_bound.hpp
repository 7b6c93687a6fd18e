// Proven bounds on |computed - exact| of a dot product D = c + sum_{i<n} a_i b_i under a declared accumulator.
// "Exact" is the real number for the operands as the accumulator gets them. Every bound is an upper bound over all
// inputs with the given magnitudes; +Inf means that overflow cannot be excluded (or n u >= 1), never "no error".
//
// Notation.
//   u          2^-p for rounding to nearest in the accumulator's format
//   gamma_k    k u / (1 - k u)
//   S          sum |a_i b_i|
//   A          S + |c|
//   head(x y)  2^(e_x + e_y), the power of two of a product's non-normalised exponent (matrix_unit.hpp): for normal
//              operands head <= |x y| < 4 head, for subnormal ones head may exceed |x y|
//   H          the largest head among the products
// All results are inflated by (1 + 2^-40), which covers the rounding of this arithmetic itself (a few dozen double
// operations, relative error below 2^-46, all terms non-negative).
#pragma once

#include <cstdint>
#include <span>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/gamma.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay {

struct DotMagnitudes {
  std::int64_t n = 0;
  double abs_sum = 0;  // >= S
  double abs_c = 0;    // >= |c|
  double head = 0;     // >= H; matrix units only
  // >= sum |a_i b_i| over products with a subnormal operand; only units that flush need it.
  double flushed = 0;
  // The accumulator holds an unknown factor times all this: no floor of a logarithm then.
  bool scaled = false;
};

// By inspection of the operands; format "" for plain floats judged by a scalar accumulator (head is then unused).
DotMagnitudes dot_magnitudes(const Operand& a, const Operand& b, double c, const Accumulator& how);
// 2^(e_x + e_y) of one pair of magnitudes, each at least its format's 2^emin: what `head` is the maximum of.
// A caller who knows only max |a| and max |b| passes those: the result is then an upper bound of H.
double product_head(double abs_x, std::string_view x_format, double abs_y, std::string_view y_format);

// The bound for ANY order of summation, FMA or not, and any split into partial sums added in the same format.
//
// Scalar accumulator, gradual underflow. Every term passes at most one product rounding and n additions (n - 1 when
// c = 0, since 0 + x is exact), so the computed value is
//   c t_0 + sum (a_i b_i + h_i) t_i,   |t_i - 1| <= gamma_{n+1},   |h_i| <= eta = 2^(emin-p),
// h_i the error of a product (or fused sum) that underflows; a sum of two numbers of the format that underflows is
// exact. Hence
//   |e| <= gamma_{n'} A + n eta (1 + gamma_{n'}),   n' = n when c = 0, n + 1 else.
//
// Matrix unit. One block computes D = round(sum of T terms, each truncated or floored at 2^(M-F)). Each term moves by
// less than q = 2^(M-F), and a truncated term by no more than its own size; the cut terms add exactly. So
//   |D - exact| < T q + rho |D'| + eta
//   |D'|       <= |exact| + T q
//   rho         = 2^(1-p) (toward zero) or 2^-p (nearest)
// with T the number of cuts:
//   truncate      g + 1   g products and c
//   group_scaled  4 + 1   four groups and c
//   floor         g + 2   g products, the sum, c
//   floor_halves  g + 4   g products, two halves, the sum, c or its dropping, |c| < 2^(E-25)
//   exact         0
// 2^M <= max(H, |accumulator before the block|, 2^emin): no unit's least_exponent is above emin. Chained: let E_t
// bound the error after t blocks; any partial sum is at most A in magnitude, so with G = max(H, A, 2^emin of the
// output format)
//   2^M     <= G + E_t
//   E_{t+1} <= alpha E_t + beta
//   alpha    = (1 + rho)(1 + T 2^-F)
//   beta     = (1 + rho) T 2^-F G + rho A + eta
// whence
//   E_B     <= beta (alpha^B - 1) / (alpha - 1) =: E.
// Then, since E_t <= E for all t, M <= floor(log2(G + E)) holds for every block, and also
//   E_B     <= B ((1 + rho) T 2^(floor(log2(G + E)) - F) + rho (A + E) + eta):
// the smaller is returned. (scaled: the accumulator holds a factor times these magnitudes that is no power of two;
// then G + E itself stands for 2^floor(log2(G + E)).)
//
// The other units:
//   unpack_split    two-level (below) with T(25, 16, out), two blocks to a promotion, promotions added in `out`.
//                   (promote > 0 there: one more such addition per promotion; into f32 it errs less than into `out`.)
//   pairwise_flush  the scalar bound in f32 with eta = 2^-126 (a result below is flushed) for each of at most 2n + 1
//                   operations, plus `flushed` and a flushed c.
//   assumed         (an exact sum of that standing) the scalar bound in f32 for any order, which holds for every model
//                   that only rounds to nearest f32, fused or not, not just for the row's.
//   wrap            0 when A < 2^31, else +Inf.
//
// promote > 0 (units only): partial sums over `promote` blocks, each from zero, added to an f32 accumulator. With A_i
// the absolute sum of partial i and N of them,
//   E_i     <= phi ((1 + rho) T 2^-F G_i + rho A_i + eta)
//   phi      = (alpha^promote - 1) / (alpha - 1)
//   G_i     <= H + 2^emin + A_i,   sum A_i = S
//   sum E_i <= phi ((1 + rho) T 2^-F (N (H + 2^emin) + S) + rho S + N eta) =: E_in
// and the f32 additions (of f32 numbers: no underflow error) add gamma_N (A + E_in), u = 2^-24.
//
// With numbers: n = 4096 products of unit gaussians, S = 4096 * 2 / pi = 2608, H = 8, c = 0; the sum is about 64.
//   f32                    gamma_4096 S = 2.44e-4 * 2608                                                  0.637
//   hopper_f16             256 blocks, g = 16, F = 25: each 17 * 2^(11-25) + 2^-23 * 2608 = 1.35e-3       0.345
//   hopper_f16, promote 4  64 parts: E_in = 0.0076, gamma_64 S = 0.0099                                   0.0175
//   hopper_fp8             128 blocks, g = 32, F = 13: beta = 10.8, (alpha^128 - 1) / (alpha - 1) = 168   1823
//   hopper_fp8, promote 4  32 parts: E_in = 4.02 * (33 * 2^-13 (32 * 8 + S) + 2^-13 S)                    47.7
// 13 fraction bits cut each of 33 terms at 2^-13 of the largest number in the block, which soon is the accumulator:
// promotion replaces that by the largest product.
double dot_bound(const Accumulator& how, const DotMagnitudes& m, std::int64_t promote = 0);

// Scalar accumulator, declared order: a term passes one product rounding and `depth` additions (addition_depth()), so
// gamma_{n'} above becomes gamma_{depth+1} (products rounded) or gamma_depth (fused or products exact: pass
// product_roundings = 0).
double dot_bound_ordered(const Precision& f, std::int64_t depth, const DotMagnitudes& m,
                         int product_roundings = 1);

}  // namespace assay
