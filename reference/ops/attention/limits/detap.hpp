// DETap: the limit of a kernel that keeps the contract of problem.hpp, in ANY order of keys and products,
// from the moments of certified.hpp. One row, one column; sums over the visible keys; everything is relative
// to the largest logit m.
//   u            2^-24 (f32);  u_F, eta_F of a format F: its unit roundoff, and half its smallest step
//   w_j          exp(x_j - m)
//   W            sum w_j (sink included)
//   p_j          w_j / W
//   o            sum p_j v_j, the exact output
//   A, D         sum p_j |v_j|,  sum p_j |v_j - o|
//   n            number of visible keys
//
// 1. Logits. |x'_j - x_j| <= lambda for every j. With
//      B       = scale |q|_2 max|k_j|_2 >= scale sum|q_i k_ji| >= |scale S_j|        (Cauchy-Schwarz)
//      X       = B + |bias|max + |sink| >= |x_j|      (a sink 200 below the largest logit weighs nothing:
//                                                     left out)
//    lambda is the sum of
//      scale * E_qk             dot_bound of `qk` over d products of absolute sum B / scale, `chunk` to a
//                               partial sum, by the height of qk_order; unless scaling=scores the larger of
//                               that and E_qk of the scaled products, of which what underflows is not scaled
//                               down
//      gamma_(d/8 + parts + blocks + 6) B
//                               qk adds whole codes: sums of 16 at least under one scale, of the `blocks`
//                               that the unit may begin and of `parts`, times their scales, are added in f32;
//                               so is a block's minimum times its sum
//      2^-149 sqrt(d) max|k_j|_2  unless scaling=scores: q times scale and log2 e underflow, each component
//                                 by 2^-150
//      u_q B + tiny_q sqrt(d) max|k_j|_2  scaling=q_rounded, and q under a unit; twice where q was converted
//                               before, for a kernel may round the product alone
//      scale * conversions      q: relative u_q, or q8_0: half a step of 1/127 of the block's largest and the
//                               f16 rounding of the scale; K: u_convert, and 2 u where decoded values need a
//                               rounding in f32; and their subnormal steps: 2^-149, of two scales that are
//                               multiplied first 8 times as much (|code| <= 8; code times a scale, a whole
//                               multiple of 2^-149, loses nothing there), of a reciprocal of nvfp4's global
//                               scale 2688 max(1, div_ulp) times
//                               tq3_0: 10 u, for each of 5 stages of butterflies is sqrt(2) times an
//                               orthogonal map whose sums round by u of themselves, so by u of the 2-norm of
//                               the block, and level, scale, 1 / sqrt(32) and their products round as much
//      2 u B + 5 u X            from S_j to an exponent. f32(scale), log2 e in f32 and products of such
//                               factors are common to all keys: a relative error each of x_j, for what it
//                               does to the maximum all keys share. A difference from the maximum is up to 2
//                               X, and so is that times log2 e. In u X:
//                                 f32(scale) 1, its product with S_j 1, the difference 2, log2 e 1, their
//                                 product 2: 7
//                                 the same by an fma(x'_j, log2 e, -f32(m log2 e)):              1, 1, 1, 2:
//                                 5 scale log2 e as one factor 3, its product 1, the difference 2: 6; in an
//                                 fma: 5 q times scale before: f32(scale) 1, the products 1, and 5 behind it:
//                                 7; q times scale log2 e, 3, or one after the other, 1, 1, 1, the last
//                                 products 1, and 2: 6
//                               and a natural exp has no log2 e. 2 of the 7 are of the scale, so of B; both
//                               of them with the errors of x_j so far, for it is the kernel's numbers that
//                               are rounded. With the rescales: the running maximum only grows, so the
//                               exponents of all rescales of a key telescope to at most 2 X; with a lag a
//                               weight's exponent may go up and its rescale down: 4 X, 9 u X
//      (1.5 + max(0.5, div_ulp)) 2^-149 F max(1, softcap) C
//                               A kernel may join factors of a logit (scale, scales of q's codes and of K,
//                               1 / softcap) before they meet the sum. Where the product of min(1, f) over
//                               them is no normal number, a quotient is off by div_ulp subnormal steps and
//                               three products (log2 e too) by half a step each; what else they are
//                               multiplied by is at most F, the product of max(1, f), and C >= sum|q_i k_ji|
//                               in codes. Nothing is claimed where F overflows
//      5 u p_shift ln 2 (9 with a lag)  argument=any: p_shift may be added to the argument
//      u |bias|max + u X        ALiBi: slope times distance, and the sum; times log2 e as above, or with log2
//                               e in the slope, 2 in place of 3
//      u X shared(changes)      argument=any: a fused S scale - f32(m scale) rounds the m that it
//                               subtracts, and not the one that the next rescale begins with: each rescale
//                               errs anew
//      u_scores X + eta_scores  the rounding to `scores` (none for f32)
//      min(softcap, B) u (8 + 2 tanh_ulp + 2 max(0, div_ulp - 2))
//                               errors relative to the capped logit, softcap |tanh z| <= min(softcap, B);
//                               those of z by |z| sech^2 z <= |tanh z|
//      u (6 + 3 m) (X + L + 2) + 2 u exp_ulp (L + 1 + 0.7 m),  L = ln n + lag + [denominator=cast] p_shift ln
//                                                              2
//                               split > 1, merge=once: rounding of lse = m + ln l, and of the exponents
//                               formed from it (m = 0); merge=any: that of m merges more, each the log of one
//                               sum in [1, 2]. merge=states: nothing, the exponents of running maxima
//                               telescope
// 2. Weights. Kernel's weight of key j = w_j (1 + eps_j), |eps_j| <= theta,
//      theta   = exp(lambda) (1 + 2 u exp_ulp)^(1 + shared) (1 + u)^4 - 1
//      changes = tiles that a part may touch - 1 + merges + (1 for a sink)
//      shared  = changes, of which that counts half which the next lines say
//    A rescale multiplies all keys before it by one factor (1 + e), so what it does to any two keys differs
//    by |e| at most, and over all rescales of the row by at most the sum R of their |e|. What all keys have
//    in common cancels: in the middle between the keys that most and that least of them move, none is off
//    by more than R / 2. So rescales of a row in one part, and those of running states that are merged (one
//    of the two has a factor of 1) count half. The rescales of several parts are not the same: theirs count
//    in full, as do merges in which both sides have an exp that errs (log-sum-exps). A sink costs nothing:
//    where it is the largest its own exp is 1, and where it is not, what it entered by is 1 and no factor
//    of the keys is its own. With keys off by [a - e, a + R + e], one of them in the tile of the maximum
//    (so a <= 0 <= a + R), one more factor on all of them leaves the sink, at 0, inside of a range of R + 2
//    e. The exp of a fused argument is not 1, and a sink's factor counts half as well.
//    A row's tiles are ceil(span / tile) + 1, for a window may begin inside of one; 1 where the first key is
//    key 0 and all fit. A sink above the keys rescales a single tile as well, if it comes last. Every rescale
//    multiplies by an exp of its own, which is 1 where the maximum stays; plus one flush to zero below 2^-126
//    per key, and of each exp exp_ulp subnormal steps of 2^-149, kept apart as an absolute error
//      f       = 2^-126 + s,  s = (1 + changes) exp_ulp 2^-149: at most the weight and s, see 3.
//    Normalisation cancels what all keys share: with weights w_j (1 + eps_j) and otherwise
//    exact arithmetic,
//      |o' - o| = |sum p_j eps_j (v_j - o)| / |1 + sum p_j eps_j| <= theta D / (1 - theta).
//    theta grows with X, that is with logits far below the largest, which weigh nothing. The D of
//    certified.hpp is about a centre that need not be o. Also D <= A + |o|, and with 1 - 1/W the share of all
//    but the largest key D <= 4 max|v| (1 - 1/W): a row that one key holds alone has none (keys at 0 and
//    -3000, v = 1 and -1: 15 u, where 2 theta was 90,401 u).
// 3. Cast of the weights to `p`: relative u_p, absolute eta_p (here divided by 2^p_shift), never more than
//    the weight itself (zero is a number of the format and rounding is to nearest). Integers: u_p = 0,
//    eta_p = 1/2. casts=any, and tf32=any: 2 u_p, 2 eta_p, and it may be more than the weight. A key's weight
//    at its cast is relative to a running maximum <= m, so after the rescales the absolute part only shrinks:
//      C       = u_p A + min(A + s V, eta_p V) + min(A + s V, f V),  V = sum|v_j| / W
//    The largest key meets no maximum but its own: its computed logit and that maximum, each off by lambda,
//    are 2 lambda apart at most, so that its weight is within off = (1 + theta)^2 - 1 of 1. Between 1 - u_p /
//    2 and 1 + u_p every weight times 2^p_shift, a whole power of two among the normal numbers of p, is cast
//    to 2^p_shift. Where off < u_p / 2 that key is thus off by `off` and the others, of |v| <= max|v| and 1 -
//    1/W together, by u_p:
//      u_p A becomes min(u_p A, u_p (1 - 1/W) max|v| + (off + c) A),  c = 0.
//    A 2^p_shift that is no whole power, 448 or 127, is cast to one number within u_p / 8 to either side, or
//    this is not used: c = |that number / 2^p_shift - 1|, where off < u_p / 8 - 4 u.
//    Not with a lag, nor of shares, nor cut (tf32=any). Weights of FP8 that are clipped at 240 where 256 is
//    due are 1/16 = u_p off: no more than the cast of any other weight, and seen on a row that one key holds
//    alone.
//    weights=shares: they are cast after the division, so that eta_p and f are not divided by W, and each
//    quotient rounds: (2 div_ulp + 3) u A more, and no quotient at the end. A p_shift that is no whole
//    number: 2 u A. A weight may be rounded to the largest number of p from half a step above it: of 448 and
//    e4m3fn from up to 455 here. Their row sum may be of a first pass over tiles, whose weights were rescaled
//    on the way: nothing cancels, and D = A + |o| in 2. where there is more than one tile. denominator=cast:
//    numerator and denominator share it: u_p joins theta instead, and the absolute part acts on the row sum
//    too, by n (eta_p + 2^-126) / W more in e_l. rowsum in a unit that reads operands below 2^emin as 0: by
//    n 2^(emin - p_shift) / W more.
// 4. PV.
//      E_pv    = dot_bound of `pv`, by the height of pv_order, over n products of absolute sum A W (1 +
//              theta)(1 + u_p) + eta_p V W and largest head max|v|
//              pv adds whole codes: gamma_(2 tiles + parts + blocks + split + 4) of it more
//                (p <= 1; the head of a subnormal operand is at most 2^emin_p max|v| or 2^emin_v), in partial
//                sums of `promote`, divided by W
//    Every partial sum in any order is at most the whole absolute sum. One more rounding u_pv A + eta_pv /
//    (2^p_shift W) per rescale (of the register that is rescaled: of `pv` when sums chain through it over
//    tiles, else of f32; eta_pv what it loses below its normal numbers), (split + 5 + 4 div_ulp) u A for the
//    merge, whose parts are divided before and whose weights after; with merge=any every merge divides: (3 +
//    2 div_ulp) split, or weighs by exp(lse_i - lse), which add up to 1 but for the rounding of lse, its log
//    and the exps, and are divided by nothing: (split - 1) (u (2 (X + ln(n + 2) + 1) + 4) + 2 u exp_ulp (0.7
//    + 1)) A. Conversion of V: u_convert A (+ its subnormal step), or what the steps of conversions.hpp make
//    of the output; 2 u A where decoded values need a rounding, of tq3_0 10 u sum A_c over a block, which
//    bounds 10 u sum p_j |v_j|_2 of its numbers. The numerator's errors are
//      N       = C + E_pv + changes u_pv A + [split > 1] the merge + conversion of V.
// 5. Row sum: relative e_l, by dot_bound of `rowsum` over at most n + split additions of numbers >= 0 (any
// association of
//    all keys; where rowsum_order is told, tile + tiles + split, or its height in a tile; of running sums
//    over all tiles, the height of those). Hidden keys add 0 in their places: the height is that of the
//    places, and never more than there are keys. One rounding per rescale, and the weights that are flushed,
//    n 2^-126 / W.
// 6. Quotient and store: reciprocal or division are 2 div_ulp u, the scale of V, its constant and their
// product 3 u,
//      R'      = [ theta D / (1 - theta) + (1 + theta) / (1 - theta) N + |o| e_l ] / (1 - e_l)
//      R       = R' (1 + 8 u) + (3 + 2 div_ulp) (u (|o| + R') + 2^-150 max(1, scale of V))
//    for below the normal numbers an ulp is a step, which the scale of V multiplies.
//    bounds |o' - o|. rotate=qkv: R is carried through D H / sqrt(32) with 8 more roundings. Then
//      limit   = R + u_out (|o| + R) + eta_out (twice when `out` differs from dtype) + certificate.
// 7. Overflow on the way. The limit is +Inf where it cannot be excluded, or theta, e_l reach 1/2. Weights are
// relative to
//    the running maximum, so before the largest key is met every weight may be 1 (e^lag), whatever its p_j: o
//    holds up to e^lag 2^p_shift sum|v_j| and l up to e^lag n, which later rescales bring down. What must be
//    finite:
//      2^p_shift sum|v_j| (1 + theta)(1 + u_p) + E_pv     in f32; in the register of `pv` too, there with at
//                                                         most `promote` max|v| for the sum
//      n + exp(sink - max x_j)                            in `rowsum`, of cast weights times 2^p_shift; a
//                                                         kernel may take the maximum over keys alone
//      2^p_shift (1 + theta)                              in `p`
//      q times scale and log2 e                           in f32, unless scaling=scores
//      B, X and their errors                              in `qk`, `scores`; of codes of q in FP8 a `qk` of
//                                                         16 bits claims nothing
//      scale times the scales of K and of q               in f32
//      the partial sums of the inverse WHT                in f32, with rotate=qkv
//    So pv=f16 claims nothing for 1000 keys of |V| = 100 (a correct kernel gives Inf when the needle is
//    last), nor rowsum=f16 for 66,560 keys (the sum is Inf, the output 0). The stagnation of a row sum is
//    inside e_l < 1/2. A sink of +Inf claims nothing: 0 where the maximum is over keys alone, NaN where it is
//    over the sink too.
// Sums of codes (q in FP8, scaled K) and of rescaled weights are known up to a factor that is no power of
// two: a matrix unit's bound then takes no floor of a logarithm (DotMagnitudes::scaled).
//
// With numbers: `assay explain 'attention heads=1 d=64 len=1000 kv=f16 variant=prefill_p_f16' -b cpu`, column
// 0. Gaussian inputs, seed 1; qk (lanes:16), pv (64 keys to a partial sum) and rowsum (depth:7 in a tile) in
// f32, P in f16, tiles of 64 keys, exp_ulp 2; 17 tiles may be touched.
//   o = 0.0413,  A = 0.765,  D = 0.771,  B = X = 11.7,  W = 35.5,  sum|v_j| = 790,  changes = 16
//   scale E_qk              gamma_8 B = 8 * 2^-24 * 11.7                   0.56e-5
//   4 u B + 6 u X           10 * 2^-24 * 11.7                              0.70e-5
//   lambda                                                                 1.25e-5
//   theta                   lambda + (1 + 16 / 2) * 4 u (exp) + 4 u        1.49e-5
//   theta D / (1 - theta)                                                  0.11e-4     3 % of the limit
//   C                       2^-11 A + 2^-25 sum|v_j| / W                   3.74e-4    90 %
//   E_pv                    (gamma_64 + gamma_18) A = 82 * 2^-24 * 0.765   0.04e-4     1 %
//   changes u_pv A          16 * 2^-24 * 0.765                             0.01e-4
//   |o| e_l                 0.0413 * 2.5e-6                                0.00e-4
//   R                                                                      3.90e-4
//   store in f16            2^-11 (|o| + R)                                0.20e-4     5 %
//   limit                                                                  4.11e-4
// The cast of P is the largest by far: it moves each p_j |v_j| by up to 2^-11 of itself, and a bound that
// does not know the signs of these errors lets none cancel. Were neither the order of q.k nor partial sums of
// PV declared, E_qk would be gamma_64 B = 4.5e-5, E_pv gamma_1000 A = 0.46e-4, and the limit 4.83e-4.
#pragma once

#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/ops/attention/conversions.hpp"
#include "reference/ops/attention/value/certified.hpp"

namespace assay {

// `applied`: conversions that `problem` and `exact` have behind them already; q then counts with its
// uncertainty alone. value: of the output, the inverse rotation included. limit: as above, in the order of
// the output.
struct AttentionLimits {
  std::vector<double> value, limit;
};
AttentionLimits detap_limits(const AttentionProblem& problem, const CertifiedAttention& exact,
                             const Contract& contract, const Conversions& applied = {});

}  // namespace assay
