// Infinities of V: where a kernel's output must be infinite.
#pragma once

#include "reference/ops/attention/value/certified.hpp"

namespace assay {

// What is summed before a scale meets it: numbers of q and K, or their codes where they have some.
class ProductSum {
 public:
  ProductSum(const AttentionProblem& problem, const Contract& contract);
  double most(double q, double k) const;                      // the largest magnitude of a product
  bool fits(double most) const { return 4 * most < range_; }  // in the register of qk, whatever is rounded

 private:
  double code_q_ = 0, code_k_ = 0, range_;
};

// An output is +-Inf where a visible key's V is, provided that the kernel's weight of that key is not 0: 0 *
// Inf is NaN. The certified value leaves such elements unclaimed; this claims those (limit 0) of which every
// infinity that the row sees in that column has a weight that no declared arithmetic rounds to 0:
//
//   w_j = exp(x_j - m), m the largest logit or the sink;  r = w_j / sum of all w
//   claimed  when  r >= 16 T  for all of them,  T the smallest normal number of p, 2^-p_shift of integers
//                                               (2^-60 at least)
//
// Every factor that a kernel multiplies an infinity by (a weight before or after its division by the row sum,
// a rescale by a later maximum, a merge's weight of a part) is at least r. The logit of a kernel differs by
// less than 1 from x_j where scale sum |q k| < 256: sums of 8 significant bits or more, and scores rounded to
// as many, have errors below 1; two logits make e^2 < 16. Beside it, what is finite has to stay so, for an
// accumulator that overflows meets the infinity as another (Inf - Inf), and a row sum that does divides it: n
// e^lag and e^lag sum|v_j|, times 2^p_shift, with all their roundings, are below the largest numbers of the
// registers. The largest weight, e^lag 2^p_shift, is a number of p, q times the scale one of f32, and what is
// summed before that scale, of codes where there are some, a quarter of the register of qk: with qk=f16 and a
// scale of 2^-22, k = -1e5 is a logit of -Inf.
// Nothing is claimed of larger logits, of rotated V, of block formats without codes for infinities, of
// weights in formats narrower than 8 bits or shifted down, of converted V and of outputs in f16 (a conversion
// may saturate), and of scaled V under weights of less range than f32, or scales below 2^-60: a kernel may
// fold V's scale into them.
void claim_infinities(const AttentionProblem& problem, const CertifiedAttention& exact,
                      const Contract& contract, std::vector<double>& value, std::vector<double>& limit);

// Of the scales of a tensor that are not 0; 0 where they are no numbers of f32, infinity where there are
// none.
double least_scale(const Encoded& tensor);

}  // namespace assay
