// DETap: the limit of a kernel that keeps the contract of problem.hpp, in ANY order of keys and products,
// from the moments of certified.hpp. u = 2^-24 (f32); one row, one column; sums over the visible keys.
// Everything is relative to the largest logit m: w_j = exp(x_j - m), W = sum w_j (sink included), p_j = w_j /
// W.
//
// 1. Logits. |x'_j - x_j| <= lambda for every j:
//    B = scale |q|_2 max|k_j|_2 >= scale sum|q_i k_ji| (Cauchy-Schwarz) >= |scale S_j|;  X = B + |bias|max >=
//    |x_j| scale * [ E_qk: dot_bound of `qk` over d products of absolute sum B/scale, in partial sums of
//    `chunk`
//            + conversions: q (relative u_q, or q8_0: half a step of 1/127 of the block's largest and the f16
//            rounding of
//              the scale), K (u_convert, and 2u where decoded values need a rounding in f32), and their
//              subnormal steps ]
//    + 4 u B       scale rounded to f32, folded with log2 e; its product
//    + 10 u X      exponent formed from x'_j and the running maximum (two roundings of numbers up to 2X),
//    with the
//                  rescales: m_run only grows, so the exponents of all rescales of a key telescope to at most
//                  2X
//    + u_scores B + tiny_scores        the rounding to `scores` (none for f32)
//    + softcap u (8 + 2 exp_ulp)       tanh from exp, products with softcap and its inverse; tanh is a
//    contraction
//    + 4 u |bias|max + u X             ALiBi: slope * distance, scale of base 2, sum
//    + split > 1: u (6 X + 6 ln n + 6) rounding of lse = m + ln l, and of the exponents formed from it
// 2. Weights. Kernel's weight of key j = w_j (1 + eps_j), |eps_j| <= theta,
//    theta = exp(lambda) (1 + 2 u exp_ulp)^(1 + changes) (1 + u)^4 - 1, changes = tiles of a part - 1 + (2 when
//    split > 1): every rescale multiplies by an exp of its own; plus one flush to zero below 2^-126 per key, kept
//    apart as an absolute error, see 3. Normalisation cancels what all keys share: with weights w_j (1 +
//    eps_j) and otherwise exact arithmetic, |o' - o| = |sum p_j eps_j (v_j - o)| / |1 + sum p_j eps_j| <=
//    theta D / (1 - theta),  D = sum p_j |v_j - o|.
// 3. Cast of the weights to `p`: relative u_p, absolute eta_p = half the smallest step, never more than the
// weight itself
//    (zero is representable and rounding is to nearest). A key's weight at its cast is relative to a running
//    maximum <= m, so after the rescales the absolute part only shrinks: C = u_p A + min(A, (eta_p + 2^-126)
//    sum|v_j| / W), A = sum p_j |v_j|. denominator=cast: numerator and denominator share it: u_p joins theta,
//    and the absolute part acts as C + |o| n (eta_p + 2^-126) / W.
// 4. PV. E_pv = dot_bound of `pv` over n products of absolute sum A W (1 + theta)(1 + u_p) and largest head
// max|v| (p <= 1;
//    the head of a subnormal operand is at most 2^emin_p max|v| or 2^emin_v), partial sums of `promote`,
//    divided by W; one more rounding u A per rescale and merge. Every partial sum in any order is at most the
//    whole absolute sum. Conversion of V: u_convert A (+ its subnormal step); 2 u A where decoded values need
//    a rounding.
// 5. Row sum: relative e_l, at most tile + tiles + split additions of non-negative numbers (any order inside
// a tile), by
//    dot_bound of `rowsum`; one rounding per rescale.
// 6. Quotient and store: with N = numerator errors (3 and 4, on weights up to (1 + theta)),
//    |o' - o| <= [ theta D / (1 - theta) + (1 + theta) / (1 - theta) N + |o| e_l ] / (1 - e_l) * (1 + 6u) + 6
//    u |o| =: R (reciprocal or division, scale of V); rotate=qkv: R is carried through D H / sqrt(32) with 7
//    more roundings. limit = R + u_out (|o| + R) + eta_out (twice when `out` differs from dtype) +
//    certificate.
// +Inf where overflow of a format on the way cannot be excluded, or theta, e_l reach 1/2.
// Sums of codes (q in FP8, scaled K) and of rescaled weights are known up to a factor that is no power of two: a
// matrix unit's bound then takes no floor of a logarithm (DotMagnitudes::scaled).
#pragma once

#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/ops/attention/certified.hpp"
#include "reference/ops/attention/conversions.hpp"

namespace assay {

// `applied`: conversions that `problem` and `exact` have behind them already; q then counts with its freedom
// alone. value: of the output, the inverse rotation included. limit: as above, in the order of the output.
struct AttentionLimits {
  std::vector<double> value, limit;
};
AttentionLimits detap_limits(const AttentionProblem& problem, const CertifiedAttention& exact,
                             const Contract& contract, const Conversions& applied = {});

}  // namespace assay
