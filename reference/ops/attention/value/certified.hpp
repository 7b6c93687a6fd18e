// The certified value of attention, and the moments from which limits are derived, in one pass over K and V.
//
// Arithmetic: binary64, u = 2^-53. For each row and each block of 64 keys:
//  1. S_j = q.k_j without error. Products of f32 numbers are exact in binary64, and so is the sum in any
//  order if
//       sum|q_i| max|k| <= 2^53 lsb(q) lsb(k)
//     (every partial sum is then a multiple of lsb(q) lsb(k) below 2^53 of them). That is checked per block;
//     if it fails, q is cut into two or three slices on fixed grids, each exact, and if that fails too,
//     TwoProd and TwoSum carry S_j as a pair, error at most d^2 u^2 sum|q_i k_i| (Ogita, Rump, Oishi 2005).
//     Factors that a key's codes share (scale of a token or head, power of two of the decoding) stay outside.
//  2. x_j = scale * factor_j * S_j as a pair by TwoProd; soft cap and ALiBi keep it a pair (tanh-inl.hpp,
//  TwoSum).
//  3. w_j = exp(x_j - M ln 2), M an integer not below max x / ln 2 - 1: weights are relative to a power of
//  two, so
//     that every rescaling of the running sums by 2^(M_old - M_new) is exact and costs no accuracy, however
//     often it happens. M ln 2 is a pair too; its subtraction is TwoSum.
//  4. sum w_j by TwoSum; sum w_j v_j by 64 fused operations within the block, TwoSum across blocks.
//
// Certificate. Let w_j (1 + eta_j) be the weights used. By (1)-(3), |eta_j| <= eps,
//     eps = 1.4375 u + delta,
// the first for exp, proven in real/exp.hpp; delta bounds the error of the logit before exp, see (L).
// Normalisation cancels common factors exactly: with w~ = w (1 + eta)
//     o~ - o = sum p_j eta_j (v_j - o) / (1 + sum p_j eta_j)
//     |o~ - o| <= eps (A + |o|) / (1 - eps),     A = sum p_j |v_j|.
// Block sums: at most 65 roundings on the way of any term (64 fused additions; one more for the product on
// targets without FMA): gamma_65 A. TwoSum across n/64 blocks loses (n/64)^2 u^2 A < 2^-17 u A for n <= 2^22.
// Row sum likewise. The three operations of the quotient: gamma_3 |o|. Sum:
//     |o^ - o| <= u (66.5 A + 4.5 |o|) + 1.01 delta (A + |o|) + eta
// (L) The logit. TwoProd and TwoSum are exact; delta is the sum of
//     16 u^2 X                   the low parts take at most 8 roundings, each u times a low part of at most
//                                2u (|x| + |M ln 2|); X <= 2 |M| ln 2 + 710 for every weight that is not
//                                flushed
//     d^2 u^2 B                  in the pair mode
//     decode_error * B           for formats that decode with a rounding
//     kCapError * softcap        for the soft cap
//   with B = scale |q|_2 max |k_j|_2 >= scale sum|q_i k_i|.
//     eta = n (4e-308 + 2^-171) (1 + max|v|) / sum w
// covers what underflows: weights below exp(-708) are dropped, rescaling may underflow, and A, which is
// summed in f32, gets 2^-125 per key for what underflows there (times 66.5 u). A format of V that decodes
// with a rounding adds u A. In sum the certificate is below 2^-46.5 A + eta whenever delta is below 4u. All
// constants carry slack for the f32 arithmetic of A, which is rounded up (kMomentSlack).
//
// Order and threads: work is cut into (sequence, kv head, up to 32 rows, 32768 keys), always the same way;
// the parts of a row are merged in ascending order. The bits do not depend on the number of threads.
//
// Specials. A row that sees no key is 0. A NaN, or an infinity of K that makes a logit +Inf or NaN, poisons
// exactly the rows that see it: NaN. A NaN in V makes its column NaN. A logit of -Inf is a hidden key, save
// that `claimed` is false where its V is not finite: 0 times that is NaN. An infinity in V makes its column
// that infinity (NaN when both signs meet); a kernel's weight may have underflowed there, so `claimed` is
// false, as it is where every visible logit is
// -Inf, and where q or the soft cap meets an infinity.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/ops/attention/problem.hpp"

namespace assay {

struct CertifiedOptions {
  bool moments = true;  // also deviation, key_sum, and A itself rather than a bound of it
  int threads = 0;      // 0: as parallel.hpp has it, when the work is large enough to share
  // No certification at all: ordinary f64 attention, for benchmarks and as a planted fault.
  bool plain = false;
};

// Per (b, row, head), in the order of the output.
struct AttentionRow {
  double log2_reference = 0;  // M: weights are relative to 2^M
  double weight_sum = 0;      // L = sum of exp(x_j - M ln 2), sink included
  double sink_weight = 0;
  // >= scale |q|_2 |k_j|_2 for every visible key: bounds scale sum|q_i k_i| and |scale S|.
  double norm_product = 0;
  double q_norm = 0, k_norm = 0;  // >= |q|_2, >= |k_j|_2 of every visible key
  double largest_logit = 0;       // max x_j, soft cap and ALiBi included
  double bias_max = 0;            // >= |ALiBi bias| of a visible key
  std::int64_t keys = 0;          // visible
  std::int64_t first = 0;         // of the visible range
  std::int64_t span = 0;          // last - first of the visible range
};

struct CertifiedAttention {
  std::vector<double> value;  // exact within certificate
  std::vector<double> certificate;
  std::vector<bool> claimed;  // empty: all. false: the definition gives no number that a kernel must meet
  std::vector<AttentionRow> rows;
  // Moments, all rounded up; empty unless asked for.
  std::vector<double> absolute;   // A = sum p_j |v_j|
  std::vector<double> deviation;  // >= sum p_j |v_j - o|
  std::vector<double> key_sum;    // >= sum of |v_j| over the visible keys, relative to L: sum |v_j| / L
  double value_max = 0;           // >= |v| of every finite element read
};

CertifiedAttention certified_attention(const AttentionProblem& problem, const CertifiedOptions& options = {});

}  // namespace assay
