// What a kernel converts before anything else is exact, and so it is applied, not bounded: the value and the
// limit of a contract with `q` or `convert` are those of the converted problem (detap.hpp), plus what a
// quantiser may choose.
//
// convert=f16|bf16: K and V decoded to f32, then rounded to nearest, ties to even. What a scaled format
// decodes to is one product of a code and a scale, which every decoder in f32 rounds to the same number (and
// it matters: a scale of max / 448 brings the largest back to where it was, perhaps to a tie). A decoder that
// rounds the exact product at once may differ where the f32 number is a tie: a step of the format. A logit is
// then off by scale |q|_2 times the 2-norm of a key's steps, and an output by sum p_j |step_j|, which is the
// certified value of a V of steps.
//
// q=f16|bf16: the same for q.
//
// q=q8_0: with a = max|x| of a block of 32,
//   t_i = 127 x_i / a,  |t_i| <= 127
//   n_i = round(t_i)                       code
//   s   = round(a / 127)                   f16 scale
// and a kernel multiplies n_i s. A quantiser forms d = a / 127 or a * (1 / 127), its inverse as 1 / d or 127
// / a, and x_i times that: at most five roundings in f32 (u = 2^-24), and ties go either way. So its argument
// of round() is
//   t_i (1 + e),  |e| <= 6u.
// When t_i is farther than 127 * 6u + 2^-40 from the half between two integers, every such quantiser gives
// the code that the reference gives, otherwise perhaps its neighbour: one step s. Likewise s is the f16
// number of the reference unless a / 127 (1 +- 4u) round apart; then all codes of the block move with it.
// q_freedom is the 2-norm of these possible differences over a row: a logit differs by at most
//   scale * q_freedom * max|k_j|_2         (Cauchy-Schwarz).
// It is 0 for nearly every row.
//
// q=q8_1: the same codes and scales, and with each block its sum s_b = f16(d sum n_i), d = f32(a / 127),
// which is what the minimum m of K's blocks (q4_1, q5_1: k = d_k c + m) is multiplied with: the kernel's q.k
// is sum_b d_k s sum c n + m s_b. With S = d |sum n_i| the stored s_b is off the sum of the n_i s that stand
// for q by
//   |s_b - s sum n_i| <= S (2^-11 + 2^-11 (1 + 2^-11) + 4u) + 2^-25 (1 + |sum n_i|)
// (s_b and s are f16 numbers, the last term where they are subnormal), and where all codes are decided by
// exactly what d (1 +- 4u) makes of it; a logit by at most scale times
//   minimum_error = sum_b max_j |m_jb| |s_b - s sum n_i|.
// The products that are summed are no longer q_i k_i: |d_k c| <= |k| + |m|, so their absolute sum is larger
// by at most
//   minimum_size  = sum_b max_j |m_jb| (sum_i |n_i s| + |s_b|).
//
// q=q8_K: codes as in q8_0 over blocks of 256, their scale f32(a / 127), and sums of 16 codes as integers,
// exact: minimum_error is 0, and
//   minimum_size = sum_i max_j |m_ji| 2 |n_i s|,  m_ji the minimum that element i of key j stands on (q2_K,
//                                                 q4_K, q5_K).
//
// q=e4m3fn|e4m3fnuz|e5m2: with a = max|x| of a query row (one token, one head) and F the largest finite
// number of the format,
//   s   = f32(a / F)  (1 when a = 0)
//   c_i = the code nearest to x_i / s, ties to even;
// the kernel multiplies c_i, and s comes with the scale. A quantiser's own s is within 3u of a / F and its
// argument of the rounding within 6u of x_i / s, so q_freedom is here the 2-norm of s times the distance of
// the codes that x_i / s (1 -+ 6u) round to, plus 8u |q|_2 (the scale, the rounding of c_i s to the f32
// number that stands for it here, and applying s). A row that is not finite stays as it is. The levels above
// detap take s and the codes as written here, and leave a row with an undecided code to detap.
//
// Nothing is applied, and detap.hpp bounds the conversion instead, where it may overflow, meets what is not
// finite, or where a decoded number is not an f32 number (its own rounding in f32 may then change that of the
// conversion).
#pragma once

#include <optional>
#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay {

// One query row as codes of a scalar format of 8 bits and one scale.
struct QuantisedRow {
  std::vector<float> codes;  // values of the format
  float scale = 1;
  double quotient = 0;   // absmax / the largest number, of which scale is the nearest; 0 of zeros
  double undecided = 0;  // 2-norm of what other correct quantisers may choose differently, in units of q
  struct Other {
    std::size_t at;
    float code;
  };
  std::vector<Other> others;  // the undecided codes, and what else they may be
  bool decidable = true;      // false: a / F may underflow, any code may be another
};
// Of a number, without its sign.
inline int significant_bits(const ScalarFormat& f) {
  return f.kind == ScalarKind::integer ? f.bits - (f.is_signed ? 1 : 0) : f.fraction_bits + 1;
}
bool quantises_rows(std::string_view q_contract);    // q=e4m3fn|e4m3fnuz|e5m2
bool quantises_blocks(std::string_view q_contract);  // q=q8_0|q8_1
// Whether this key (q, convert, p) says tf32 and tf32= leaves open how: a number errs by less than one unit
// in the last place of tf32.
bool rounds_to_tf32_anyhow(const Contract& contract, std::string_view key);
// Its scale and codes are quotients within div_ulp each.
QuantisedRow quantise_row(const ScalarFormat& format, std::span<const double> q, double div_ulp);
// What a quotient may be off, relative, and one by such a quotient: 2 div_ulp u each, 2u for the roundings of
// constants; 4u and 6u are those of the ways that are rounded correctly.
double quotient_error(double div_ulp);
double quotients_error(double div_ulp);
// What a decoder in f32 is off, relative to a number, or to the 2-norm of a block that is transformed back.
// Of nvfp4 a quotient, or a reciprocal and a product, is one of its steps.
double decoder_error(std::string_view format_name, double div_ulp);
bool has_two_scales(std::string_view format_name);  // int4 * .scale * .scale_2
// The largest product of a code and those scales of its block that are no f32, of nvfp4 and of two scales; 0
// of others.
double largest_unscaled(std::string_view format_name);
// And what its steps may lose below the normal numbers, absolute.
double decoder_tiny(std::string_view format_name, double div_ulp);
// Whether a decoder in f32 cannot but have this number, which is one of f32, whatever the order of its
// steps: of two scales their product is normal, and rounds as little as the number does.
bool decodes_exactly(std::string_view format_name, double decoded);

// Of the scales of a plane of f32 that are not 0; {infinity, 0} where there are none.
struct ScaleRange {
  double least, most;
};
ScaleRange scale_range(const Plane& plane);

// Factors of f32 that a kernel may join, in any order, before they meet a sum: a product of some of them is
// at least `least` and at most `most`.
struct Joined {
  double least = 1, most = 1;

  static Joined of_logits(const AttentionProblem& problem);  // the scale, those of K, 1 / softcap
  void with(double low, double high);
  bool is_normal() const { return least >= 0x1p-125; }
  bool fits() const;  // with log2 e
};

struct Conversions {
  bool q = false, kv = false;  // applied
  bool overflows = false;      // a finite number becomes an infinity: nothing can be said of what follows
  // Per (b, row, head), in the order of the output; empty: none.
  std::vector<double> q_uncertainty, minimum_error, minimum_size;
  bool q_rounds = false;            // q=f16|bf16 changed a number of q
  std::vector<double> k_undecided;  // per kv head, the largest 2-norm of a key's undecided steps; empty: none
  std::optional<Encoded> v_undecided;  // what V may be off by, and what that makes of every output:
  std::vector<double> v_moved;         // sum p_j |step_j|; empty: none

  double uncertainty(std::size_t row) const { return of(q_uncertainty, row); }
  static double of(const std::vector<double>& rows, std::size_t row) {
    return rows.empty() ? 0.0 : rows[row];
  }
};

// Turns `problem` into the one that a kernel of this contract computes.
Conversions apply_conversions(AttentionProblem& problem, const Contract& contract);

}  // namespace assay
