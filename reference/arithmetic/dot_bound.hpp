// Proven bounds on |computed - exact| of a dot product D = c + sum_{i<n} a_i b_i under a declared
// accumulator. "Exact" is the real number for the operands as the accumulator gets them. Every bound is an
// upper bound over all inputs with the given magnitudes; +Inf means that overflow cannot be excluded (or n u
// >= 1), never "no error".
//
// Notation.
//   u          2^-p for rounding to nearest in the accumulator's format
//   gamma_k    k u / (1 - k u)
//   S          sum |a_i b_i|
//   A          S + |c|
//   head(x y)  2^(e_x + e_y), the power of two of a product's non-normalised exponent (matrix_unit.hpp): for
//              normal operands head <= |x y| < 4 head, for subnormal ones head may exceed |x y|
//   H          the largest head among the products
// All results are inflated by (1 + 2^-40), which covers the rounding of this arithmetic itself (a few dozen
// double operations, relative error below 2^-46, all terms non-negative).
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
  // >= what flushing may take away in all: of operands, times their partners, of products and of sums. A unit
  // that flushes by itself (pairwise_flush): sum |a_i b_i| over products with a subnormal operand.
  double flushed = 0;
  // Every product is a multiple of it, a power of two; 0 where that is not known.
  double lsb = 0;
  // The accumulator holds an unknown factor times all this: no floor of a logarithm then.
  bool scaled = false;
};

// By inspection of the operands; format "" for plain floats judged by a scalar accumulator (head is then
// unused).
DotMagnitudes dot_magnitudes(const Operand& a, const Operand& b, double c, const Accumulator& how);
// 2^(e_x + e_y) of one pair of magnitudes, each at least its format's 2^emin: what `head` is the maximum of.
// A caller who knows only max |a| and max |b| passes those: the result is then an upper bound of H.
double product_head(double abs_x, std::string_view x_format, double abs_y, std::string_view y_format);

// How a kernel deals n products to the blocks of a matrix unit (contract keys `block` and `split`). A kernel
// may issue blocks that are shorter than the unit's group (mma.m16n8k8 on a unit of 16), pad them with zeros
// anywhere, and form several partial sums.
//   block   products of every block but the last of a part, at least; more than the unit's g count as g
//   split   parts, at most: chains of blocks from zero that are added to one another; 0: any number
// A block of zero products changes nothing, wherever it stands: c is a number of the register, and its last
// bit is not below the last place that is kept. The default admits every kernel.
struct Blocking {
  std::int64_t block = 1;
  std::int64_t split = 0;
  // Where the caller counts them itself, as attention does over tiles, hidden keys and promotions: all
  // blocks, and with `promote` all partial sums. 0: by the two above.
  std::int64_t blocks = 0;
  std::int64_t runs = 0;
};

// B of the derivation below: the most blocks of a unit of g that n products are dealt to.
double most_blocks(double n, double group, Blocking blocking);

// The bound for ANY order of summation, FMA or not, and any split into partial sums added in the same format.
//
// Exactness by inspection (lsb > 0, c = 0). Where every product is a multiple of lsb, so is every sum, cut or
// rounded to no less than lsb. With A <= 2^p lsb, lsb no less than the smallest number of the format, and for
// a unit 2^(M-F) <= lsb at the largest M, nothing is ever rounded: the bound is 0.
//
// Scalar accumulator, gradual underflow. Every term passes at most one product rounding and n additions (n -
// 1 when c = 0, since 0 + x is exact), so the computed value is
//   c t_0 + sum (a_i b_i + h_i) t_i,   |t_i - 1| <= gamma_{n+1},   |h_i| <= eta = 2^(emin-p),
// h_i the error of a product (or fused sum) that underflows; a sum of two numbers of the format that
// underflows is exact. Hence
//   |e| <= gamma_{n'} A + (n eta + flushed) (1 + gamma_{n'}),   n' = n when c = 0, n + 1 else.
//
// Matrix unit. One block of n_t products computes D = round(sum of its terms, each truncated or floored at
// 2^(M-F)). Each term moves by less than q = 2^(M-F), and a truncated term by no more than its own size; the
// cut terms add exactly. So
//   |D - exact| < (n_t + T') q + rho |D'| + eta
//   |D'|       <= |exact| + (n_t + T') q
//   rho         = 2^(1-p) (toward zero) or 2^-p (nearest)
// with T' the cuts that are not of a product:
//   truncate      1       c
//   group_scaled  1       c; the groups, at most four of a block, are cut in the products' place
//   floor         2       the sum, c
//   floor_halves  4       two halves, the sum, c or its dropping, |c| < 2^(E-25)
//   exact         0, nor is a product cut
// 2^M <= max(H, |accumulator before the block|, 2^emin): no unit's least_exponent is above emin.
// P = min(split, n) parts at most, of B = (n - P) / block + P blocks at most, and L = (n - 1) / block + 1 of
// one part alone. Each product is cut once, so that the blocks cut C = n + T' B terms between them. With A_i
// the absolute sum of part i, of b_i blocks, its roundings are at most rho b_i A_i, in all rho max b_i A; P -
// 1 additions of parts round to nearest with u_s of the format that they are added in (f32 of an e8m13
// register). With p parts max b_i <= (n - p) / block + 1, so that
//   R = max(rho L, rho (B - P + 1) + (P - 1) u_s)      (linear in p: one of the ends is the largest)
// times A bounds all roundings. No partial sum is above A in magnitude, so with G = max(H, A, 2^emin of the
// output format) and E bounding the error anywhere,
//   a block     e -> alpha_t e + (1 + rho)(n_t + T') 2^-F G + rho |sum| + eta,   alpha_t = (1 + rho)(1 + (n_t
//               + T') 2^-F)
//   an addition e, e' -> (1 + u_s)(e + e') + u_s |sum|
// whence, each error growing on its way by at most the product Pi of all these factors,
//   ln Pi  <= B ln(1 + rho) + C 2^-F + (P - 1) u_s
//   E      <= Pi ((1 + rho) C 2^-F G + R A + B eta)
//   E      <= G (Pi - 1) + B eta Pi        P = 1 (a step adds at most G (alpha_t - 1) + eta: they telescope)
// Then M <= floor(log2(G + E)) holds for every block, and, counting each step's own error on what is really
// there,
//   E_B    <= (1 + rho) C 2^(floor(log2(G + E)) - F) + R (A + E) + B eta:
// the smallest is returned. (scaled: the accumulator holds a factor times these magnitudes that is no power
// of two; then G + E itself stands for 2^floor(log2(G + E)).)
//
// The other units:
//   unpack_split    two-level (below) with T(25, 16, out), two blocks to a promotion, promotions added in
//                   `out`. (promote > 0 there: one more such addition per promotion; into f32 it errs less
//                   than into `out`.)
//   pairwise_flush  the scalar bound in f32 with eta = 2^-126 (a result below is flushed) for each of at most
//                   2n + 1 operations, plus `flushed` and a flushed c.
//   assumed         (an exact sum of that standing) the scalar bound in f32 for any order, which holds for
//                   every model that only rounds to nearest f32, fused or not, not just for the row's.
//   wrap            0 when A < 2^31, else +Inf.
//
// Integers: 0; promote > 0 (units): N exact partial sums that become f32 and are added there, gamma_{N+1} S
// with u = 2^-24, or 0 where S <= 2^24. With numbers: int8_dot, n = 65536 products of 127 * 127, one block of
// 4 a promotion: N = 16384, gamma S = 9.8e-4 * 1.06e9 = 1.03e6. promote > 0 (units only): partial sums over
// `promote` blocks, each from zero, added to an f32 accumulator: N = (B - P) / promote + P of them. A partial
// sum i has b_i <= promote blocks and n_i <= promote g products. With A_i its absolute sum, C and B as above,
//   E_i     <= phi ((1 + rho)(n_i + T' b_i) 2^-F G_i + b_i (rho A_i + eta))
//   ln phi   = promote (ln(1 + rho) + (g + T') 2^-F)
//   G_i     <= H + 2^emin + A_i,   sum A_i = S
//   sum E_i <= phi ((1 + rho) 2^-F (C (H + 2^emin) + min(n, promote (g + T')) S) + promote rho S + B eta) =:
//   E_in
// and the f32 additions (of f32 numbers: no underflow error) add gamma_N (A + E_in), u = 2^-24.
//
// With numbers: n = 4096 products of unit gaussians, S = 4096 * 2 / pi = 2608, H = 8, c = 0; the sum is about
// 64. block = g, split = 1, and the default:
//   f32                    gamma_4096 S = 2.44e-4 * 2608                                          0.637
//   hopper_f16             256 blocks, C = 4352: 4352 * 2^(11-25) + 256 * 2^-23 * 2608            0.345
//                          1.77
//   hopper_f16, promote 4  64 parts: E_in = 0.0076, gamma_64 S = 0.0099                           0.0175
//                          0.64
//   hopper_fp8             128 blocks, C = 4224: G (e^0.53 - 1) = 1828; floor(log2(G + E)) = 12   1828
//                          >= 4000
//   hopper_fp8, promote 4  32 parts: E_in = 4.03 * (132 * 2^-13 * S + ...)                        48
//                          1750
// 13 fraction bits cut each term at 2^-13 of the largest number in the block, which soon is the accumulator:
// promotion replaces that by the largest product.
double dot_bound(const Accumulator& how, const DotMagnitudes& m, std::int64_t promote = 0,
                 Blocking blocking = {});

// Scalar accumulator, declared order: a term passes one product rounding and `depth` additions
// (addition_depth()), so gamma_{n'} above becomes gamma_{depth+1} (products rounded) or gamma_depth (fused or
// products exact: pass product_roundings = 0).
double dot_bound_ordered(const Precision& f, std::int64_t depth, const DotMagnitudes& m,
                         int product_roundings = 1);

}  // namespace assay
