// Moments of parts that are merged: what a kernel errs by that keeps (n, M, S) of several parts of a row, by
// Welford's update within a part and by the formula of Chan, Golub and LeVeque (1979) between parts,
//   delta = M_B - M_A
//   M     = M_A + delta n_B / n,  or (n_A M_A + n_B M_B) / n,  n = n_A + n_B, 1 / n as a factor too
//   S     = S_A + S_B + delta^2 n_A n_B / n
// for every tree of merges of height h, every association of the products, fused or not. Welford's update is
// the merge with one term, (1, x, 0), whose third line it writes delta (x - M). Written for the whole row: A,
// B are the children of a node P, s the terms of P.
//
// Mean. With g = gamma_{2 div_ulp + 3} the rounded second line errs by g (n_A |M_A| + n_B |M_B|) / n, or by
// u |M| + g n_B |delta| / n, which is not damped where the light side moves to the heavy one. n M is what
// adds up:
//   n e_P <= n_A e_A + n_B e_B + g (A_P + n_B |delta|),    A_P = sum over P of |x|
// so that e_P is at most the sum of the right end over all nodes below P, over s. Of s leaves, the j-th node
// from below has at most j + 1, and a node holds at most the largest |x|; the differences of means stay in
// the row's range R, and telescope: sum over P of (n_A n_B / n) delta^2 is the exact S = n sigma^2. With T_j
// = the sum of the j largest |x|:
//   W(s) = min(h T_s, T_2 + ... + T_s) / s
//   V(s) = min(R min(h, (s + 1) / 2), sqrt(S min(h, (s + 1)(2 s + 1) / (6 s))))
//   e_P <= g (W(s) + V(s))
// and, since M_A and M_B in these terms are the kernel's, E = max e grows by 1 / (1 - 2 g h).
//
// Variance. A node adds w (delta + a)(delta + b), w = n_A n_B / n, where |a|, |b| <= e_A + e_B, or for an
// update
// |b| <= e_P / w. With D = sum over the nodes of w a^2 or w b^2, the triangle inequality in the norm with
// weights w gives
//   |S' - S| <= (1 + gamma_k)(sqrt S + sqrt D)^2 - S,    k = 2 h + 2 div_ulp + 7,
// two additions of a merge being on the way of each S. D is the smallest of
//   alpha^2 (n + 2)^3 / 3         e_P <= alpha s: F(n) = alpha^2 n^3 / 3 solves F(n_A + n_B) = F(n_A) +
//                                 F(n_B) + alpha^2 n n_A n_B
//   2 n log2(n) E^2               w <= min(n_A, n_B), the smaller halves of any tree add up to n log2(n) / 2
//   2 g^2 (sum x^2) h(h+1)(2h+1)/6     of W: w (e_A + e_B)^2 <= n_A e_A^2 + n_B e_B^2, A_P^2 <= s (sum over P
//                                      of x^2)
//   5/6 g^2 S n^2                 of V: e_P^2 <= g^2 S_P (s + 2) / 3, and 5/6 S_P s^2 grows by more than a
//                                 node's share
//
// Underflow. A share n_B / n, or 1 / n, that is subnormal is off by its steps (enclosure.hpp), relative to it
// at most n times those: g grows by n max(1, 2 div_ulp) tiny where 1 / n is below the smallest normal (f16: n
// > 16384), and where it is flushed g is 1 and nothing is claimed. A count of more bits than the format is
// rounded: two roundings more in g. Any other product or sum of a merge loses at most the steps of a
// quotient, but for those of a quotient by n that comes first: (delta / n) n_B, or (M_A / n) n_A + (M_B / n)
// n_B, is off by n_P q, q its steps. Then n e_P adds up s^2 q over the nodes below P, and a node at depth d
// has at most 2^(h - d) terms, so that
//   e_P <= q path(s, h),    path(s, h) = min(sum_{j=1..h} min(s, 2^j), (s + 1)(2 s + 1) / 6) <= h s
// which gives D another alpha = h q; |b| = n_P q of delta (delta / n) n_A n_B alone is alpha = q more, and
// (delta^2 / n) n_A n_B is off by n_A n_B q: n^2 / 2 in all. With numbers: 4096 times 2^-120 in f32, a tree,
// div_ulp=2: q = 2^-148, path = 8190, 2^-135 of the mean.
//
// A merge with an empty part leaves S and rounds M once more. Parts are empty where a block has more lanes
// than there are terms: under lanes:N all log2 N levels count, under depth:N they are among the N; order=any
// covers blocks of 1024 threads that read up to 8 numbers each, 17 levels. The first update
// of a part divides by 1, which is exact unless div_ulp exceeds 1/2, and its mean is held in acc, a rounding
// of an x that is wider: by g' |x| its mean is off, by g' x^2 its S, g' = gamma_{2 div_ulp + 1}, or u.
//
// With numbers: rows of +-1 with a step in the middle, 128 lanes, worst error over limit of five formulas and
// sixteen steps
//   n                                  1000     16384    65536    262145
//   the limit of one accumulator       0.75     6.0      24       67        (what every order had before)
//   order=lanes:128                    0.016    0.013    0.014    0.014
//   order=any                          1.3e-3   3.0e-4   2.9e-4   2.6e-4
//   |dv| / sigma^2 under lanes:128              1.0e-3   4.4e-3   1.8e-2
#pragma once

#include <span>

#include "reference/ops/enclosure.hpp"

namespace assay {

struct MergedErrors {
  double mean;  // |M - mean|
  double
      squares;  // |S - sum (x - mean)^2|; both +Inf where g h is no longer small against 1, although nothing overflows
};
// squares: at least the exact sum (x - mean)^2.
MergedErrors merged_errors(std::span<const double> x, double squares, Order order, double div_ulp,
                           const Machine& acc);

}  // namespace assay
