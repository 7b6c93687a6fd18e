// Limits of one row of attention for a kernel that keeps a declared arithmetic (AttentionArithmetic:
// emulated.hpp lists its steps). Four levels, from assumption-free to sharpest. Each is a proof, in direct
// O(keys (d + dv)) form.
//
//   level   assumes                                     the limit is around
//   detap   no order of keys or products                the real output
//   detord  keys and products ascending                 the real output
//   ca      detord, and P rounded to nearest            the output that the cast weights give (a cast errs
//                                                       only where an interval straddles two roundings);
//                                                       verified units in a declared order are computed
//   emu     ca, and every step but exp and log bit      the kernel in interval arithmetic
//           for bit as in emulated.hpp                  (under a soft cap as ca: its tanh is known to
//                                                       tanh_ulp only)
// A wrong assumption makes false alarms: emu is for units whose model was verified on the hardware, order=any
// admits detap only, and the levels above it are of a kernel that declares to be one of emulated.hpp's shape:
// tiles from key 0, the scale after q.k, the sink last, no lag (bounds_problem.hpp has the words).
//
// NOTATION. A hat marks the kernel's number (S^_j).
//   u         2^-24
//   X_j, M    real logits, and max X_j
//   w_j, W    exp(X_j - M), and sum w_j;  P_j = w_j / W
//   o         sum w_j v_j / W: the truth
//   eps       exp_ulp 2^-23, which bounds the relative error of the kernel's exp; exp(0) = 1 is exact, as the
//             contract says
//   omega     2^-126: results below may be flushed
//   mu_t, M_t the kernel's running maximum at tile t, and the real one;  dM_t >= |mu_t - M_t|
// Everything is monotone in the errors that enter; sums of non-negative doubles lose less than 2^-30 of
// themselves, and factors (1 + 2^-30) absorb that.
//
// 1 SCORES. dS_j >= |S^_j - S_j|, S_j exact (TwoSum; exact in double whenever the products share a lattice).
// One step of a unit over g products from an accumulator a (StepModel::error):
//   M_u = the largest exponent among the products and a
//   Q   = 2^(M_u - F), the quantum
// A product is cut by less than Q, and not at all if it is a multiple of Q; the same for a. With n_x terms
// that are not known multiples,
//   |D - exact| < n_x Q + rho |D|  (+ eta where D is subnormal),   rho = 2^(1-p) toward zero, 2^-p to
//                                  nearest;
// units that floor partial results add 2 (floor) or 4 (floor_halves) Q. M_u is bounded by
// floor(log2 max(head, |a| + E)), E the error so far. Exponents are not normalised: head >= |product| can
// happen for a subnormal operand, so heads are formed from operand exponents not below the format's smallest.
//   detord, ca  steps in order on signed partial sums; a step that cuts no term and whose result fits adds 0.
//   detap, and an open order of the products, or blocks that may be short: where they end is not known
//               no partial sum of any subset exceeds T = max(sum of positive, sum of negative products). A
//               step may hold as few products as the contract allows (qk_block, pv_block): B = n / block
//               steps, whose cuts c_i are n + B (1 + extra) at most together (h = max(T, head, 2^emin)):
//                 r_i    = (1 + rho) c_i 2^-F + rho,   b_i <= r_i h + eta
//                 E_B   <= h (exp(sum r_i) - 1) + B eta exp(sum r_i)
//               by induction on E <- (1 + r_i) E + b_i (here 2^M_u <= max(head, T + E), no floor of a
//               logarithm: rescaling by factors that are not powers of two would break it).
// Scalar accumulators: gamma_{n+1} sum |q k|. A lattice on which no sum can be rounded gives 0.
//
// 2 LOGITS. x^_j = f(S^_j sigma^), sigma^ = sigma (1 + h), |h| <= 4u (scale and log2 e, each rounded). All x^
// share h: the common shift h M cancels in the softmax, h (X_j - M) remains. In the frame shifted by h M:
//   |x^_j - X_j| <= e_j
//   e_j = sigma dS_j (1 + 8u) + (u |X_j| + u_scores max(|X_j|, Z_j)) (1 + 8u) + 4u |X_j - M| + underflow of
//   `scores`
// where Z_j = sigma |S_j|, or half a soft cap where that is less: `scores` may be cast before the cap and the
// bias (level emu: behind). A soft cap has slope at most 1 and max |z| sech^2 z < 1/2, its tanh errs by
// tanh_ulp 2u of itself; a bias adds 8u (|cap| + |bias|), h then counts in full. The kernel's scale step must
// round x^ before the maximum is subtracted (one that computes fma(S, sigma, -m) differs).
//
// 3 WEIGHTS. w^_j = exp(f(x^_j - mu_t)) (1 + eps); the accumulators are multiplied by
// exp(f(mu_s - mu_{s+1})) (1 + eps) whenever the maximum rises. The exponents telescope:
//   x^_j - mu_t + sum (mu_s - mu_{s+1}) = x^_j - mu_T,
// so no error of any mu survives; the subtractions err by
//   u (|x^_j - mu_t| + sum |mu_s - mu_{s+1}|) <= u (M - X_j + 2 e_j + 2 dmu),
// as mu only rises. So the weight that j ends up with is C w_j (1 + d_j), C common to all keys, and
//   |d_j| <= theta_j = expm1(e_j + u (M - X_j + 2 e_j + 2 dmu) + (1 + na_j) eps (1 + 2 eps)),
// na_j = tiles after j's own in which the maximum may rise. It may where some S^ interval reaches above the
// lower ends of all before (S^ decides: x^ is monotone in it; with a bias, or a tanh that need not be, the x^
// intervals decide). detap: every tile of the part. Each of the 1 + na_j factors may be flushed: omega (na_j
// + 2) per key at most, in units of the largest weight <= W. The first visible tile multiplies zeros; a tile
// without visible keys is skipped: neither errs. If all visible S are exactly the same number, all x^ are
// (under a tanh that may err: if they are 0), p = 1, no rescale: theta = 0 and P is exact.
//
// A fused argument (argument=any) is f32 of S_j sigma - f(mu_t sigma). The rounding of mu_t sigma, u |mu_t|,
// is that of one key's weight, and of the rescale into t; but the rescale out of t has the unrounded mu_t
// sigma in its place, so it does not telescope: key j has u |mu| for its weight and for each rise after it, u
// (1 + na_j) max(|M_t|, |M|) in theta_j. (A maximum that stays rescales by 1, as the contract says, whatever
// such a difference would be.)
//
// 4 RATIO. If only weights erred,
//   o'      = sum w_j (1 + d_j) v_j / sum w_j (1 + d_j)
//   o' - o  = sum w_j d_j (v_j - o) / (W (1 + sum P_j d_j))
//           exactly,
// hence with Theta = sum P_j theta_j < 1
//   |o' - o| <= R = sum P_j theta_j |v_j - o| / (1 - Theta).
// A sink is a key with v = 0. Errors that numerator and denominator do not share: the numerator is C W' (o' +
// z), the denominator C W' (1 + l), W' >= W (1 - Theta), |l| <= lambda, so
//   |o^ - o| <= R + (|z| + lambda (|o| + R)) / (1 - lambda).
//   (*)
//
// 5 CAST OF P (scale 2^k, exact).
//   detap   w^ <= 1 relative to its tile, unknown which; the error reaches the result multiplied by the
//           remaining rescales, at most w_j (1 + theta_j) / w^:
//             max(u_P / (1 + u_P) w_j (1 + theta_j), half the subnormal spacing 2^-k).
//           (Half an ulp at w_j itself would be wrong: rescaling moves w^ across binades.)
//   detord  w^_j lies in exp(X_j - M_t -+ (e_j + dM_t + u |X_j - M_t| + eps)); half an ulp at its upper end.
//   ca      both ends rounded; if equal the operand is known and the cast is no error. Then the weights in
//           the numerator no longer telescope with mu_t: key j contributes
//             c_j exp(mu_t - mu_T) = C c_j exp(M_t - M) (1 + a_t),
//             |a_t| <= expm1(dM_t + u (M - M_t + 2 dmu) + na_t eps (1 + 2 eps)),
//           and the denominator W (1 + d), |d| <= Theta. With o_c = sum c_j exp(M_t - M) v_j / W and X the
//           sum of all deviations of the numerator,
//             |o^ - o_c| <= (X / W + l' |o_c|) / (1 - l'),   l' = (1 + Theta)(1 + lambda) - 1.
// denominator=cast: the row sum is of the cast weights; the cast joins theta (detap, detord) or W is replaced
// by the sum of c (ca).
//
// 6 PV. The steps of section 1 on weight times v.
//   detap       partial sums of kernel weights, T as above in units of the final scale (every bound there is
//               linear, so a factor exp(M_t - M) <= 1 only shrinks it); chains from zero of `promote` keys: E
//               is linear in each chain's sum, so it adds up over the chains, plus u per f32 addition; a
//               scalar accumulator: gamma_{keys + chains + 1}.
//   detord, ca  signed partial sums with all deviations so far added; they are known up to the factor
//               exp(|dM_t|) and later rescales, which multiplies |a|. A sum that may overflow may be anything
//               from there on (Inf 0 is NaN): a step's, a chain's added to the others, and that of the parts,
//               which a kernel may add before it divides them.
// A rescale rounds: u |o|, and into the unit's own register (2^-13 for e8m13, 2^-11 for f16) if sums chain
// through it. Later rescales multiply what was added by at most (1 + a): the final factor (1 + 2 a) on the
// numerator's own errors.
//
// 7 ROW SUM. detap: gamma_{n + T + 2}; otherwise u sum of partial sums / sum. f16 sums of a thousand terms
// and more have no bound below 1: the limit is then infinite (nothing is claimed), and emu still judges.
//
// 8 PARTS (split > 1, merge=once). Part s enters with exp(f(lse_s - max lse)), lse_s = f(mu_s + log l_s): a
// relative error of
//   eps (2 + log n) + u (|mu_s| + log n) + u |lse_s - max lse|,
// shared by numerator and denominator, so it joins theta. Rounding o_s/l_s, which a kernel
// may store, the product and the sum: (split + 5 + 2 div_ulp) u of the parts' magnitudes.
//
// 9 OUTPUT. 1/l and o/l (or one division) are within 2 div_ulp u, the scale of v, its constant and their
// product: 3u. Then the declared format: half an ulp at the magnitude |centre| + radius; and since rounding
// is monotone,
//   low = round(centre - radius) <= output <= round(centre + radius) = high.
// A magnitude that may overflow makes the limit infinite. The reference's own sums are within
// (n + 64) 2^-52 sum P |v|, which is added.
//
// 10 UNITS. Level ca, a unit that hardware has verified, and the order of its blocks declared
// (qk_order=sequential): S^ is what the unit's model gives, dS = 0, and the limit is around the output of
// that S^. pv_order=sequential, one part: the operands of PV are known to lie in [low, high] (step 5), mostly
// one number, and the sums are formed in interval arithmetic by the model (bounds_interval.hpp), each rescale
// by the interval of its factor:
//   exp(M_t - M_t+1) (1 -+ expm1(dM_t + dM_t+1 + u |M_t - M_t+1| + eps)),    none where the maximum cannot
//   rise. That of a
// sink comes last, and its result may stay in f32.
// The numerator is then in units of the kernel's own last maximum; the frame of step 5 joins l'.
//
// EMU. S^ is computed, not bounded; x^, mu and the arguments of exp are then single numbers. exp(t) is the
// interval exp(t) (1 -+ eps). Rounding is monotone, and so is each later step (bounds_interval.hpp says how a
// unit is), so the ends of all intervals contain the kernel's numbers.
#pragma once
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "reference/ops/attention/emulated/emulated.hpp"

namespace assay {

namespace attention_bounds {
struct RowLogits;
struct ValueFacts;
struct StepModel;
struct IntervalColumns;
}  // namespace attention_bounds

enum class AttentionLevel : std::uint8_t { detap, detord, ca, emu };
AttentionLevel attention_level(std::string_view name);  // throws InputError bad_value

// One row, [dv] each. Judge positively: fabs(got - centre) <= limit && low <= got && got <= high.
struct RowBounds {
  std::vector<double> value;  // the real output
  // What the level expects before the output is rounded; `value` for detap and detord.
  std::vector<double> centre;
  std::vector<double> radius;     // of the interval around it, before the output is rounded
  std::vector<double> limit;      // |output - centre| <= limit, the rounding of the output included
  std::vector<double> low, high;  // low <= output <= high: the interval's ends, rounded (at least as sharp)
};

// Limits for rows over one head of K and V. Refers to `kv`'s arrays. Throws InputError bad_value as
// AttentionArithmetic::check does, and for a level above detap when the order is not declared.
class AttentionBounds {
 public:
  AttentionBounds(const AttentionArithmetic& how, const KeyValues& kv);
  ~AttentionBounds();
  RowBounds row(const QueryRow& query, AttentionLevel level) const;

 private:
  void order_free(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  void ordered(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  void cast_aware(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  void emulated(const QueryRow& query, const attention_bounds::RowLogits& row, RowBounds& r) const;
  // Step 10; empty or false where a unit's numbers are not to be computed.
  std::vector<float> computed_scores(const QueryRow& query) const;
  bool computed_values(const attention_bounds::RowLogits& row, const std::vector<double>& p_low,
                       const std::vector<double>& p_high, attention_bounds::IntervalColumns& o) const;
  void finish(const QueryRow& query, bool output_is_exact, RowBounds& r) const;
  bool exact_sum(const attention_bounds::StepModel& model, std::size_t column) const;

  AttentionArithmetic how_;
  KeyValues kv_;
  std::unique_ptr<attention_bounds::ValueFacts> facts_;
  mutable std::once_flag emulator_once_;
  mutable std::unique_ptr<AttentionEmulator> emulator_;  // level emu only
};

}  // namespace assay
