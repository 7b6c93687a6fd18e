// The sharper levels for a whole attention problem: rows of a case become rows of bounds.hpp.
#pragma once

#include "reference/ops/attention/limits/bounds.hpp"
#include "reference/ops/attention/limits/detap.hpp"

namespace assay {

// `base` (order-free) with every element replaced for which the contract's level has a smaller limit: value
// is then the centre of the level (bounds.hpp), limit its limit. Both hold, so the smaller may judge. Rows
// whose visible inputs (and sink) are not all finite keep the order-free limit, and so do those
// of a kernel whose shape is not declared to be that of emulated.hpp:
//   scaling=scores                           the scale after q.k
//   lag=0, weights=running                   every weight relative to the largest logit so far, its own
//                                            tile's included
//   sink=last                                where there are sinks: a kernel that begins with the sink casts
//                                            other weights
//   tiles=aligned                            where a window or, descending, a remainder lets tiles begin
//                                            elsewhere than at multiples of `tile` from key 0; and where
//                                            there are parts
//   merge=once                               where there are parts: one after the other each has more than
//                                            two exps
//   a whole p_shift
// level=emu declares them itself. Operands are what the accumulator takes:
//   scalar formats                           as stored
//   codes of q=e4m3fn                        with their scale outside (conversions.hpp)
//   codes of formats with one scale per      that scale outside
//     tensor or head
//   anything else                            after `convert`, or as f32 if exact
// Rows of order=any, rotate=qkv, q=q8_0 or other operands keep the order-free limit; level=emu throws
// InputError bad_value for them. A row of q=e4m3fn with up to four undecided codes is judged for each choice,
// and by the hull of what they give. Whether the contract says so of its kernel, so that the levels judge;
// where not, `base` stands whole.
bool has_emulated_shape(const AttentionGeometry& g, const Contract& contract);
AttentionLimits leveled_limits(const AttentionProblem& problem, const Contract& contract,
                               AttentionLimits base);

}  // namespace assay
