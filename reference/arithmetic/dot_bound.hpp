// Proven bounds on |computed - exact| of a dot product D = c + sum_{i<n} a_i b_i under a declared
// accumulator. "Exact" is the real number for the operands as the accumulator gets them. Every bound is an
// upper bound over all inputs with the given magnitudes; +Inf means that overflow cannot be excluded (or n u
// >= 1), never "no error".
//
// Notation. u = 2^-p for rounding to nearest in the accumulator's format, gamma_k = k u / (1 - k u).
//   S = sum |a_i b_i|,  A = S + |c|.
//   head(x y) = 2^(e_x + e_y), the power of two of a product's non-normalised exponent (matrix_unit.hpp); for
//   normal operands head <= |x y| < 4 head, for subnormal ones head may exceed |x y|. H = the largest head
//   among the products.
// All results are inflated by (1 + 2^-40), which covers the rounding of this arithmetic itself (a few dozen
// double operations, relative error below 2^-46, all terms non-negative).
#pragma once

#include <cstdint>
#include <span>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/arithmetic/matrix_unit.hpp"

namespace assay {

// gamma_k; +Inf when k u >= 1. With |d_j| <= u: |prod_{j<=k} (1 + d_j)^{+-1} - 1| <= gamma_k (induction on
// k).
double gamma_n(std::int64_t k, double u);

struct DotMagnitudes {
  std::int64_t n = 0;
  double abs_sum = 0;  // >= S
  double abs_c = 0;    // >= |c|
  double head = 0;     // >= H; matrix units only
  double flushed =
      0;  // >= sum |a_i b_i| over products with a subnormal operand; only units that flush need it
  bool scaled =
      false;  // the accumulator holds an unknown factor times all this: no floor of a logarithm then
};

// By inspection of the operands; format "" for plain floats judged by a scalar accumulator (head is then
// unused).
DotMagnitudes dot_magnitudes(const Operand& a, const Operand& b, double c, const Accumulator& how);
// 2^(e_x + e_y) of one pair of magnitudes, each at least its format's 2^emin: what `head` is the maximum of.
// A caller who knows only max |a| and max |b| passes those: the result is then an upper bound of H.
double product_head(double abs_x, std::string_view x_format, double abs_y, std::string_view y_format);

// The bound for ANY order of summation, FMA or not, and any split into partial sums that are added in the
// same format.
//
// Scalar accumulator, gradual underflow. Every term passes at most one product rounding and n additions (n -
// 1 when c = 0, since 0 + x is exact), so the computed value is c t_0 + sum (a_i b_i + h_i) t_i with |t_i -
// 1| <= gamma_{n+1} and |h_i| <= eta = 2^(emin-p), the error of a product (or fused sum) that underflows; a
// sum of two numbers of the format that underflows is exact. Hence |e| <= gamma_{n'} A + n eta (1 +
// gamma_{n'}), n' = n when c = 0, n + 1 else.
//
// Matrix unit. One block computes D = round(sum of T terms, each truncated or floored at 2^(M-F)). Each term
// moves by less than q = 2^(M-F), and a truncated term by no more than its own size; the cut terms add
// exactly. So
//   |D - exact| < T q + rho |D'| + eta,  |D'| <= |exact| + T q, rho = 2^(1-p) (toward zero) or 2^-p
//   (nearest),
// with T the number of cuts: g + 1 (truncate), 4 + 1 (group_scaled), g + 2 (floor: g products, the sum, c),
// g + 4 (floor_halves: g products, two halves, the sum, c or its dropping, |c| < 2^(E-25)), 0 (exact).
// 2^M <= max(H, |accumulator before the block|, 2^emin): no unit's least_exponent is above emin. Chained: let
// E_t bound the error after t blocks; any partial sum is at most A in magnitude, so 2^M <= G + E_t with G =
// max(H, A, 2^emin of the output format), and
//   E_{t+1} <= alpha E_t + beta,  alpha = (1 + rho)(1 + T 2^-F),  beta = (1 + rho) T 2^-F G + rho A + eta,
// whence E_B <= beta (alpha^B - 1) / (alpha - 1) =: E. Then, since E_t <= E for all t, M <= floor(log2(G +
// E)) holds for every block and E_B <= B ((1 + rho) T 2^(floor(log2(G + E)) - F) + rho (A + E) + eta): the
// smaller is returned.
//   unpack_split: two-level (below) with T(25, 16, out), two blocks to a promotion, promotions added in
//   `out`. (promote > 0 there: one more such addition per promotion; those into f32 err less than one in
//   `out`.) pairwise_flush: the scalar bound in f32 with eta = 2^-126 (a result below is flushed) for each of
//   at most 2n + 1 operations, plus `flushed` and a flushed c. Standing assumption: the scalar bound in f32
//   for any order, which holds for every model that only rounds to nearest f32, fused or not, not just for
//   the row's. wrap: 0 when A < 2^31, else +Inf.
//
// promote > 0 (units only): partial sums over `promote` blocks, each from zero, added to an f32 accumulator.
// With A_i the absolute sum of partial i and N of them, E_i <= phi ((1 + rho) T 2^-F G_i + rho A_i + eta),
// phi = (alpha^promote - 1) / (alpha - 1), G_i <= H + 2^emin + A_i and sum A_i = S, so
//   sum E_i <= phi ((1 + rho) T 2^-F (N (H + 2^emin) + S) + rho S + N eta) =: E_in,
// and the f32 additions (of f32 numbers: no underflow error) add gamma_N (A + E_in), u = 2^-24.
double dot_bound(const Accumulator& how, const DotMagnitudes& m, std::int64_t promote = 0);

// Scalar accumulator, declared order: a term passes one product rounding and `depth` additions
// (addition_depth()), so gamma_{n'} above becomes gamma_{depth+1} (products rounded) or gamma_depth (fused or
// products exact: pass product_roundings = 0).
double dot_bound_ordered(const Precision& f, std::int64_t depth, const DotMagnitudes& m,
                         int product_roundings = 1);
// A plain sum of n numbers of the format: gamma_depth sum|x_i|; addition never underflows inexactly.
double sum_bound(const Precision& f, std::int64_t depth, double abs_sum);

// Running bounds for a KNOWN order, sharper where partial sums cancel. Feed exact partial sums (a certified
// value of |s_k| rounded up will do); `error()` is the bound so far.
//
// Scalar: s'_k = fl(s'_{k-1} + fl(p_k)). fl(x) = x + d, |d| <= u |fl(x)| and |d| <= u |x|. So
//   E_k <= E_{k-1} + [u |p_k| + eta] + u |s'_k|, |s'_k| <= |s_k| + E_k, whence
//   E_k <= (E_{k-1} + u |p_k| + eta + u |s_k|) / (1 - u).
class RunningSumBound {
 public:
  explicit RunningSumBound(const Precision& f);
  void add(double abs_product, double abs_partial_after, bool product_rounds = true);
  double error() const;

 private:
  double u_, eta_, error_ = 0;
};

// Matrix unit, block by block (units that chain through c: every combine but pairwise_flush, unpack_split and
// wrap).
//   q = 2^(floor(log2 max(head, |s_before| + E, 2^emin)) - F)
//   E <- E + cut + rho (|s_after| + E + cut) + eta,  cut = min(T q, absolute sum of the block + q T' )
// where T' counts the cuts that are not truncations of a product (c, floors), and, if the caller has looked,
// T may be the number of terms that are not multiples of q (`inexact_terms`, c included): the others do not
// move at all.
// A unit of standing assumption: cut = gamma_{g+1} (absolute sum of the block + |s_before| + E) + g eta
// instead, which holds for any order of f32 operations to nearest inside the block.
class UnitChainBound {
 public:
  explicit UnitChainBound(const MatrixUnit& unit);
  struct Block {
    double head;             // >= the largest head of the block's products
    double abs_before;       // >= |exact partial sum before|, c included
    double abs_after;        // >= |exact partial sum after|
    double abs_products;     // >= sum of |products| of the block
    int inexact_terms = -1;  // -1: not looked at
  };
  void add(const Block& block);
  // The quantum that the next block would have: what `inexact_terms` is counted against.
  double quantum(double head, double abs_before) const;
  double error() const;

 private:
  const MatrixUnit* unit_;
  double error_ = 0;
};

}  // namespace assay
