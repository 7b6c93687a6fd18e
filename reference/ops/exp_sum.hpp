// sum_j exp(s_j - m), m = max s_j: what softmax and logsumexp share, and the errors of a kernel's weights and
// sum.
//
// u, tiny: of `acc`; E = 2 exp_ulp u (an ulp is at most 2 u relative); b = 1, and 3 under exp=base2; a = tiny
// of the difference, whose operands may be wider than acc, and tiny more under base2: by so much an argument
// of exp is off that underflows, and by b times what it is at most, for one rounding takes no more than all
// and makes no more than twice of a number; 0 where |s_j - m| is too large.
//
// A kernel holds logits t_j with |t_j - s_j| <= e_j, subtracts a number M of its own that is the same for the
// whole row (its largest t: |M - m| <= e_max = max e_j), and forms
//   v_j = exp((t_j - M)(1 + d) + a')(1 + d') + f_j,   |d| <= b u,  |a'| <= a,  |d'| <= E,  |f_j| <= tiny'
// (One rounding for the difference; base2: the rounded c' = fl(log2 e) and the product are two more.
// fma(t, c', -fl(M c')) is covered: it is c' (t - M') with the row-wide M' = fl(M c') / c', for which base2
// adds u |m| + tiny to e_max.) exp(0) errs by its ulps as any other.
// tiny' = max(1, 2 exp_ulp) tiny, k steps of k declared ulps (enclosure.hpp: underflow_of), where exp may be
// subnormal; 0 where the least v_j, w_j exp(-e_j - e_max - ...), is not. With numbers: exp(-100) = 26.55
// steps of 2^-149, tiny' = 2 steps at exp_ulp=2: a kernel may hold 25.
//
// Its largest t may be held in `acc`, which rounds an input that is wider: u |m| more in e_max, and M may be
// so much below t.
// A common M changes neither w_i / S nor M + log S, so v_j is compared with exp(s_j - M), relatively:
//   theta_j  = (1 + E) exp(e_j + a + b u (|s_j - m| + e_j + e_max)) - 1
// plus f_j, which on the scale where the largest weight is 1 is at most
//   f        = tiny' exp(e_max).
// An online kernel multiplies a term of its sum by at most T = rescales factors exp(M_old - M_new), exp(0)
// among them where the maximum has not changed, whose exponents telescope to at most |s_j - m| + 2 e_max:
//   theta'_j = (1 + theta_j)((1 + E)(1 + u))^T exp(T a + b u (|s_j - m| + 2 e_max)) - 1      (T > 0)
// A factor, and a product by it, underflow only where every term that they are applied to has f_j > 0: a
// factor once, by f times a weight of at most (1 + E) W, W = exp(2 e_held) of a maximum that is a rounded
// input (`swell`), for what is left then lies below the smallest normal; a product T times: f becomes
//   f' = f ((1 + E) W + T normal) + T tiny exp(e_max)
// A weight that such a kernel keeps, and multiplies at its end, errs by theta'_j and f'_j too.
//
// The sum of n positive terms: S' = S (1 + h), |h| <= H,
//   H = (1 + r') (sum_j w_j theta'_j + sum_j f'_j) / S + r
//   r = (n - 1) u                                        order=any
//       gamma_h, h = Order::height, at most any's        order=tree, lanes, blocks, depth
//       u sum_{k>=2} S_k (1 + (n - 1) u) / S             order=sequential, S_k the partial sums; at most that
//                                                        of any
//   r' = r, and (n - 1) u under order=sequential: an error of the first term is in every partial sum
// A partial sum that is flushed is one of terms below the smallest normal, all of them; each is lost once,
// which f_j pays for. Places. The height counts all places of a row, masked ones too: their 0 is added as any
// number is. A sink is a term more, with which a kernel begins, or which it adds at the end:
// Order::height_with_start; in memory order it comes first, which makes no partial sum smaller.
// Range. M = s itself cannot overflow s - M above 0; base2 may form M log2 e alone, and Inf - Inf from it.
// The sum of n numbers of at most 1 + E is below n (1 + E)(1 + (n - 1) u), and not 0 while E < 1, whatever H;
// the factors of an online kernel make it ((1 + E)(1 + u))^T times as large at most, and ((1 - E)(1 - u))^T
// times as small: f16, exp_ulp=100, T = 142 leave its range (E = 0.098, 1.098^142 = 5.8e5). Under base2, or
// where M is a rounded input, a weight, and with it the sum, is as much as exp(2 e_max + T max g_j) times as
// large, or as small, as against M = m. The reference's own exp (1.44 u64) and additions (n u64) are added to
// theta and H.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/ops/enclosure.hpp"

namespace assay {

inline constexpr std::array kExpSumKeys = {
    KeySpec{
        "acc", KeyKind::accumulator, "f32", "",
        "the type of every intermediate result, of a maximum and a sum of one term too; inputs are read as "
        "they are"},
    KeySpec{"order", KeyKind::order, "any", "",
            "in which the sum is formed; masked terms have places, a sink is first or last"},
    KeySpec{"exp", KeyKind::word, "e", "e|base2", "base2: exp2(log2(e) (s - m)), two more roundings"},
    KeySpec{"exp_ulp", KeyKind::real, "2", kUlps,
            "error of exp, in units in the last place of acc, its subnormal steps included; below 0.5: "
            "of models whose "
            "functions are not rounded, and whose results are summed as they are"},
    KeySpec{"rescales", KeyKind::real, "0", "",
            "times an online kernel multiplies its sum by exp(old - new maximum); 0: two passes"},
};

struct ExpSum {
  double max = 0;              // m
  double max_error = 0;        // e_max
  std::vector<double> weight;  // exp(s_j - m), relative error kExpSumUnit
  // w_j (1 + theta_j), or theta'_j where T > 0, the reference's own error included: no kernel's weight j is
  // larger, and none is below 2 w_j less it. Of a logit far below the others theta_j is infinite, and this is
  // 0.
  std::vector<double> most;
  std::vector<double> flush;  // f_j, f'_j where T > 0
  double swell =
      1;  // no weight of a kernel is larger than swell (1 + E), and its sum no larger than swell S (1 + H)
  double sum = 0;        // S
  double sum_error = 0;  // H, relative; +Inf where the sum may overflow
  bool defined = true;   // no logit and no shift by M leaves the range, which would be Inf - Inf
  bool bounded = true;   // defined, and the sum stays in the range, by magnitudes alone, and above 0
};

// Throws nothing; the logits are finite or -Inf, at least one is finite. places: of the row, masked ones
// included. sink: the first logit is a sink's, and has no place.
ExpSum exp_sum(std::span<const Enclosure> logits, const Contract& contract, const Machine& acc, double places,
               bool sink = false);

}  // namespace assay
