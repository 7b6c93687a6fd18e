// What a contract says of keys that a mask hides: of rows that see none (empty=), and of numbers that a
// kernel reads all the same (hidden=added).
//
//   empty=mean   a finite mask, as frameworks add: x + mask = mask where |x| is below half a step of mask
//                (f32: 2^103), so that all weights of such a row are equal, and the row is that of q = 0
//                without a mask, 1 / n of each of a sequence's n keys. Its value and limits are that
//                problem's. With a sink the mask is far below it: 0. With alibi, slope |i - j| is below half
//                a step too.
//   hidden=added  a logit has -Inf added, and its weight of 0 is multiplied with V: NaN - Inf, Inf - Inf, 0
//                 Inf and 0 NaN are NaN. A logit is +Inf where qk, `scores` or f32 does not hold it or its
//                 bias. The default, skipped, selects: what is hidden does not matter, whatever it is.
#pragma once

#include "reference/ops/attention/problem.hpp"
#include "reference/ops/attention/value/certified.hpp"

namespace assay {

// Rows that see no key, where the contract says another word of them than 0. `truth`: the op's.
void answer_empty(const Attributes& attributes, const TensorSet& inputs, const AttentionProblem& problem,
                  const CertifiedAttention& exact, const Contract& contract, decltype(Op::truth) truth,
                  Truth& t);

// Where a hidden key of a sequence has a NaN or an infinity, or a logit that may overflow, nothing is
// claimed. Under empty=mean nor where the sums of hidden keys, which a running kernel may meet first, with
// weights of 1, leave their registers; elsewhere they are multiplied by exp(mask - m), which is 0.
void unclaim_hidden(const AttentionProblem& problem, const Contract& contract, std::vector<double>& limit);

}  // namespace assay
