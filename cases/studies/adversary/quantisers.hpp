// Quantisers as engines write them, of one group of numbers at a time. Choices: how a scale, a quotient and a
// code are formed.
#pragma once

#include <string_view>
#include <vector>

#include "cases/studies/adversary/norms.hpp"

namespace assay::adversary {

using Group = std::vector<double*>;  // what is quantised in place: afterwards the numbers that are stored

// How a group is scaled: what the plane holds, what x is divided by, and D / absmax.
struct GroupScale {
  double stored = 1, divisor = 1, multiplier = 1;
  double absmax = 0, factor = 1;  // and these themselves, where it has an absmax: D is `factor`
};

EncodePolicy policy_of(const Problem& p);
// Of finite elements; choice absmax: an Inf counts as the largest f32.
double absmax_of(const Problem& p, const Group& group);
// A scale in f32, up to scale_ulp numbers on, to the side of `sides`.
double moved_by_ulps(const Problem& p, double scale, std::int64_t index);
// Choices scale, scale_ulp, sides, scale_format, code_scale, zero_scale. divisor: D.
GroupScale dynamic_scale(const Problem& p, double absmax, double divisor, std::int64_t index,
                         std::string_view scale_format);
// D of these codes, as the choice `divisor` has it.
double divisor_of(const Problem& p, double divisor);
// A quotient becomes a code. Choices quotient, round, integers, subnormals, overflow, nan.
double code_of(const Problem& p, const ScalarFormat& element, double quotient, std::int64_t index);
// A group of a scaled format under its scale. known: it was computed from this group's own absmax.
void scaled_group(const Problem& p, const ScalarFormat& element, const GroupScale& scale, bool known,
                  Group& group);

// A block of a block format by the rule of its file, in f32: q8_0, q4_0, q5_0, q4_1, q5_1, iq4_nl; mx*,
// mxfp4_ggml.
void quantise_block(const Problem& p, std::string_view name, Group& group);
// A whole tensor in nvfp4.
void quantise_nvfp4(const Problem& p, Group& all);
// A block of a format whose scales are searched for: q3_K, q6_K, iq4_xs.
void quantise_searched(const Problem& p, std::string_view name, Group& block);

}  // namespace assay::adversary
